/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/spot.h"

#include <errno.h>

#include "base/cleanup.h"
#include "probe/detach.h"

int spot_new(struct spot **ret, enum wire_probe_kind kind, uint32_t ep_id, struct module *m,
	     uint64_t vaddr)
{
	struct spot *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->kind = kind;
	s->ep_id = ep_id;
	s->module = module_ref(m);
	s->vaddr = vaddr;
	s->site = (struct site){.vaddr = vaddr};
	s->program_fd = -1;
	s->other_program_fd = -1;
	*ret = s;
	return 0;
}

struct spot_batch {
	struct attachment attachment;
	size_t n_links;
};

static bool rests(const struct spot_link *l)
{
	return !l->batch && l->attachment.link_fd < 0;
}

/* The attachment of a link that is given up; false when there is none, or others still share it. */
static bool release(struct spot_link *l, struct attachment *ret)
{
	*ret = l->attachment;
	if (!l->batch)
		return !rests(l);
	if (--l->batch->n_links)
		return false;
	*ret = l->batch->attachment;
	free(l->batch);
	return true;
}

struct spot *spot_free(struct spot *s)
{
	struct attachment a;

	if (!s)
		return NULL;
	for (size_t i = 0; i < s->links.n; i++)
		if (release(&s->links.at[i], &a))
			probe_detach(&a);
	vec_free(&s->links);
	module_unref(s->module);
	free(s);
	return NULL;
}

bool spot_covers(const struct spot *s, pid_t pid)
{
	for (size_t i = 0; i < s->links.n; i++)
		if (s->links.at[i].pid == pid || s->links.at[i].pid == -1)
			return true;
	return false;
}

bool spot_is_own(const struct spot *s, pid_t pid)
{
	for (size_t i = 0; i < s->links.n; i++)
		if (s->links.at[i].pid == pid)
			return true;
	return false;
}

static uint64_t cookie_of(const struct spot *s, pid_t pid)
{
	return WIRE_COOKIE(s->ep_id, s->site.sp_slots, s->site.off) |
	       (s->site.by_rbp ? WIRE_COOKIE_F_RBP : 0) | (s->site.cheap ? 0 : WIRE_COOKIE_F_DEAR) |
	       (pid == -1 ? WIRE_COOKIE_F_WIDE : 0);
}

/* A breakpoint is put at an offset of a file, whatever is there when it is mapped. */
static int hold_file(struct spot *s, struct errmsg *e)
{
	module_hold(s->module);
	if (!module_is_changed(s->module))
		return 0;
	return errmsg_set(e, -ESTALE, "'%s' has been written to since it was opened: start again",
			  module_path(s->module));
}

static int link_attach(struct spot *s, const struct attach_source *source, struct spot_link *link,
		       struct errmsg *e)
{
	struct attach_point at = {.file_fd = module_fd(s->module),
				  .semaphore_off = s->semaphore_off,
				  .retprobe = s->kind == WIRE_P_URET,
				  .pid = link->pid,
				  .program_fd = s->program_fd,
				  .cookie = cookie_of(s, link->pid)};
	int r;

	if (!module_offset_of_vaddr(s->module, s->site.vaddr, &at.file_off))
		return errmsg_set(e, -EINVAL, "address 0x%lx is in no segment of %s",
				  (unsigned long)s->site.vaddr, module_path(s->module));
	r = hold_file(s, e);
	if (r < 0)
		return r;
	r = probe_attach(source, &at, &link->attachment, e);
	if (r < 0 && s->other_program_fd >= 0) {
		at.program_fd = s->program_fd = s->other_program_fd;
		s->other_program_fd = -1;
		r = probe_attach(source, &at, &link->attachment, e);
	}
	return r;
}

int spot_attach(struct spot *s, const struct attach_source *source, pid_t pid, struct errmsg *e)
{
	struct spot_link link = {.pid = pid, .attachment = ATTACHMENT_NONE};
	int r;

	if (spot_covers(s, pid))
		return 0;
	r = vec_reserve(&s->links, s->links.n + 1);
	if (r == 0 && source)
		r = link_attach(s, source, &link, e);
	return r < 0 ? r : vec_push(&s->links, link);
}

/* The places of those that do not cover the process yet, or whose link of it rests. */
struct places {
	struct spot **spots;
	uint64_t *file_offs;
	uint64_t *cookies;
	size_t n;
};

static void places_deinit(struct places *p)
{
	free(p->spots);
	free(p->file_offs);
	free(p->cookies);
}

static int places_init(struct places *p, size_t n)
{
	p->spots = calloc(n, sizeof(*p->spots));
	p->file_offs = calloc(n, sizeof(*p->file_offs));
	p->cookies = calloc(n, sizeof(*p->cookies));
	return p->spots && p->file_offs && p->cookies ? 0 : -ENOMEM;
}

static int places_add(struct places *p, struct spot *s, pid_t pid)
{
	if (!module_offset_of_vaddr(s->module, s->site.vaddr, &p->file_offs[p->n]))
		return -EINVAL;
	p->cookies[p->n] = cookie_of(s, pid);
	p->spots[p->n++] = s;
	return 0;
}

static int places_find(struct places *p, struct spot *const *spots, size_t n, pid_t pid)
{
	int r = places_init(p, n);

	for (size_t i = 0; i < n && r == 0; i++)
		if (!spot_covers(spots[i], pid))
			r = places_add(p, spots[i], pid);
	return r;
}

/* NULL: none. */
static struct spot_link *resting_link(struct spot *s, pid_t pid)
{
	for (size_t i = 0; i < s->links.n; i++)
		if (s->links.at[i].pid == pid && rests(&s->links.at[i]))
			return &s->links.at[i];
	return NULL;
}

/* 0 when all of them share an attachment now; else nothing has changed. */
static int attach_together(const struct places *p, const struct attach_source *source, pid_t pid)
{
	struct spot_batch *batch = calloc(1, sizeof(*batch));
	const struct attach_batch at = {.file_fd = module_fd(p->spots[0]->module),
					.pid = pid,
					.program_fd = p->spots[0]->program_fd,
					.file_offs = p->file_offs,
					.cookies = p->cookies,
					.n = p->n};
	int r = batch ? hold_file(p->spots[0], NULL) : -ENOMEM;

	for (size_t i = 0; r == 0 && i < p->n; i++)
		r = vec_reserve(&p->spots[i]->links, p->spots[i]->links.n + 1);
	r = r < 0 ? r : probe_attach_batch(source, &at, &batch->attachment);
	if (r < 0) {
		free(batch);
		return r;
	}
	for (size_t i = 0; i < p->n; i++) {
		struct spot *s = p->spots[i];
		struct spot_link *link = resting_link(s, pid);

		if (!link)
			link = &s->links.at[s->links.n++];
		*link = (struct spot_link){
			.pid = pid, .attachment = ATTACHMENT_NONE, .batch = batch};
	}
	batch->n_links = p->n;
	return 0;
}

void spots_attach(struct spot *const *spots, size_t n, const struct attach_source *source,
		  pid_t pid, size_t *ret_failed)
{
	CLEANUP(places_deinit) struct places places = {0};
	int r = places_find(&places, spots, n, pid);

	*ret_failed = 0;
	if (r == 0 && source && places.n > 1 && attach_together(&places, source, pid) == 0)
		return;
	for (size_t i = 0; i < n; i++)
		*ret_failed += spot_attach(spots[i], source, pid, NULL) < 0;
}

void spots_detach(struct spot *const *spots, size_t n, pid_t pid)
{
	VEC(struct attachment) all = {0};
	struct attachment a;

	for (size_t i = 0; i < n; i++) {
		struct spot *s = spots[i];
		size_t kept = 0;

		for (size_t k = 0; k < s->links.n; k++) {
			struct spot_link link = s->links.at[k];

			if (pid != SPOT_ALL && link.pid != pid)
				s->links.at[kept++] = link;
			else if (release(&link, &a) && vec_push(&all, a) < 0)
				probe_detach(&a);
		}
		s->links.n = kept;
	}
	if (pid == SPOT_ALL)
		probe_detach_all(all.at, all.n);
	else
		probe_detach_later(all.at, all.n);
	vec_free(&all);
}

void spots_rest(struct spot *const *spots, size_t n)
{
	VEC(struct attachment) all = {0};
	struct attachment a;

	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < spots[i]->links.n; k++) {
			struct spot_link *link = &spots[i]->links.at[k];

			if (release(link, &a) && vec_push(&all, a) < 0)
				probe_detach(&a);
			*link = (struct spot_link){.pid = link->pid, .attachment = ATTACHMENT_NONE};
		}
	}
	probe_detach_later(all.at, all.n);
	vec_free(&all);
}

/* Whether they can share an attachment for a process. */
static bool are_alike(const struct spot *a, const struct spot *b)
{
	return a->module == b->module && a->program_fd == b->program_fd && !b->semaphore_off &&
	       b->kind != WIRE_P_URET;
}

/* What rests as the first of the spots does, together with that. */
static void resume_together(struct spot *const *spots, size_t n, const struct attach_source *source,
			    pid_t pid)
{
	CLEANUP(places_deinit) struct places places = {0};
	int r = are_alike(spots[0], spots[0]) ? places_init(&places, n) : -ENOTSUP;

	for (size_t i = 0; i < n && r == 0; i++)
		if (are_alike(spots[0], spots[i]) && resting_link(spots[i], pid))
			r = places_add(&places, spots[i], pid);
	if (r == 0 && places.n > 1)
		attach_together(&places, source, pid);
}

static void drop_link(struct spot *s, const struct spot_link *link)
{
	s->links.at[link - s->links.at] = s->links.at[--s->links.n];
}

size_t spots_resume(struct spot *const *spots, size_t n, const struct attach_source *source)
{
	size_t n_failed = 0;

	for (size_t i = 0; i < n; i++) {
		for (size_t k = spots[i]->links.n; k-- > 0;) {
			struct spot_link *link = &spots[i]->links.at[k];
			int r = 0;

			if (rests(link))
				resume_together(spots + i, n - i, source, link->pid);
			if (rests(link))
				r = link_attach(spots[i], source, link, NULL);
			if (r == -ESRCH)
				drop_link(spots[i], link);
			else
				n_failed += r < 0;
		}
	}
	return n_failed;
}

struct module *spots_changed(struct spot *const *spots, size_t n)
{
	const struct module *same = NULL;

	for (size_t i = 0; i < n; i++) {
		struct module *m = spots[i]->module;

		if (m == same)
			continue;
		if (!module_is_changed(m))
			same = m;
		else if (spots[i]->links.n || module_is_held(m))
			return m;
	}
	return NULL;
}

void spots_leave(struct spot *const *spots, size_t n, const struct module *m)
{
	VEC(struct spot *) all = {0};
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		if (spots[i]->module == m)
			r = vec_push(&all, spots[i]);
	spots_detach(all.at, all.n, SPOT_ALL);
	vec_free(&all);
}

bool spot_shed(struct spot *s)
{
	size_t kept = 0, n = s->links.n;
	struct attachment a;

	if (!spot_covers(s, -1))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (s->links.at[i].pid == -1)
			s->links.at[kept++] = s->links.at[i];
		else if (release(&s->links.at[i], &a))
			probe_detach_later(&a, 1);
	}
	s->links.n = kept;
	return kept < n;
}
