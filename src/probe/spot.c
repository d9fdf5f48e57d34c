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
	*ret = s;
	return 0;
}

struct spot_batch {
	struct attachment attachment;
	size_t n_links;
};

/* The attachment of a link that is given up; false when others still share it. */
static bool release(struct spot_link *l, struct attachment *ret)
{
	*ret = l->attachment;
	if (!l->batch)
		return true;
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
	       (s->site.by_rbp ? WIRE_COOKIE_F_RBP : 0) | (pid == -1 ? WIRE_COOKIE_F_WIDE : 0);
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

int spot_attach(struct spot *s, const struct attach_source *source, pid_t pid, struct errmsg *e)
{
	struct attach_point at = {.file_fd = module_fd(s->module),
				  .semaphore_off = s->semaphore_off,
				  .retprobe = s->kind == WIRE_P_URET,
				  .pid = pid,
				  .program_fd = s->program_fd,
				  .cookie = cookie_of(s, pid)};
	struct spot_link link = {.pid = pid, .attachment = ATTACHMENT_NONE};
	int r;

	if (spot_covers(s, pid))
		return 0;
	if (!module_offset_of_vaddr(s->module, s->site.vaddr, &at.file_off))
		return errmsg_set(e, -EINVAL, "address 0x%lx is in no segment of %s",
				  (unsigned long)s->site.vaddr, module_path(s->module));
	r = hold_file(s, e);
	r = r < 0 ? r : vec_reserve(&s->links, s->links.n + 1);
	r = r < 0 ? r : probe_attach(source, &at, &link.attachment, e);
	return r < 0 ? r : vec_push(&s->links, link);
}

/* The places of those that do not cover the process yet. */
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

static int places_find(struct places *p, struct spot *const *spots, size_t n, pid_t pid)
{
	p->spots = calloc(n, sizeof(*p->spots));
	p->file_offs = calloc(n, sizeof(*p->file_offs));
	p->cookies = calloc(n, sizeof(*p->cookies));
	if (!p->spots || !p->file_offs || !p->cookies)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct spot *s = spots[i];

		if (spot_covers(s, pid))
			continue;
		if (!module_offset_of_vaddr(s->module, s->site.vaddr, &p->file_offs[p->n]))
			return -EINVAL;
		p->cookies[p->n] = cookie_of(s, pid);
		p->spots[p->n++] = s;
	}
	return 0;
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
	for (size_t i = 0; i < p->n; i++)
		vec_push(&p->spots[i]->links, (struct spot_link){.pid = pid,
								 .attachment = ATTACHMENT_NONE,
								 .batch = batch});
	batch->n_links = p->n;
	return 0;
}

void spots_attach(struct spot *const *spots, size_t n, const struct attach_source *source,
		  pid_t pid, size_t *ret_failed)
{
	CLEANUP(places_deinit) struct places places = {0};
	int r = places_find(&places, spots, n, pid);

	*ret_failed = 0;
	if (r == 0 && places.n > 1 && attach_together(&places, source, pid) == 0)
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
