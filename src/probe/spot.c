/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/spot.h"

#include <errno.h>

#include "base/cleanup.h"

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

struct spot *spot_free(struct spot *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < s->links.n; i++)
		probe_detach(&s->links.at[i].attachment);
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

int spot_attach(struct spot *s, const struct attach_source *source, pid_t pid, struct errmsg *e)
{
	struct attach_point at = {.file_fd = module_fd(s->module),
				  .semaphore_off = s->semaphore_off,
				  .retprobe = s->kind == WIRE_P_URET,
				  .pid = pid,
				  .program_fd = s->program_fd,
				  .cookie = WIRE_COOKIE(s->ep_id, s->site.sp_slots, s->site.off)};
	struct spot_link link = {.pid = pid, .attachment = ATTACHMENT_NONE};
	int r;

	if (spot_covers(s, pid))
		return 0;
	if (!module_offset_of_vaddr(s->module, s->site.vaddr, &at.file_off))
		return errmsg_set(e, -EINVAL, "address 0x%lx is in no segment of %s",
				  (unsigned long)s->site.vaddr, module_path(s->module));
	r = vec_reserve(&s->links, s->links.n + 1);
	r = r < 0 ? r : probe_attach(source, &at, &link.attachment, e);
	return r < 0 ? r : vec_push(&s->links, link);
}

void spots_detach(struct spot *const *spots, size_t n, pid_t pid)
{
	VEC(struct attachment) all = {0};

	for (size_t i = 0; i < n; i++) {
		struct spot *s = spots[i];
		size_t kept = 0;

		for (size_t k = 0; k < s->links.n; k++) {
			struct spot_link link = s->links.at[k];

			if (pid != SPOT_ALL && link.pid != pid)
				s->links.at[kept++] = link;
			else if (vec_push(&all, link.attachment) < 0)
				probe_detach(&link.attachment);
		}
		s->links.n = kept;
	}
	if (pid == SPOT_ALL)
		probe_detach_all(all.at, all.n);
	else
		probe_detach_later(all.at, all.n);
	vec_free(&all);
}

/* Lets go of the links of single processes. */
static bool detach_narrow(struct spot *s)
{
	size_t kept = 0, n = s->links.n;

	for (size_t i = 0; i < n; i++) {
		if (s->links.at[i].pid == -1)
			s->links.at[kept++] = s->links.at[i];
		else
			probe_detach_later(&s->links.at[i].attachment, 1);
	}
	s->links.n = kept;
	return kept < n;
}

/*
 * Leave sites may fire twice for a while, which changes nothing; entries must not, so their narrow
 * links go first.
 */
int spot_widen(struct spot *s, const struct attach_source *source, struct errmsg *e)
{
	if (spot_covers(s, -1))
		return 0;
	if (s->kind == WIRE_P_ENTER || s->kind == WIRE_P_URET)
		detach_narrow(s);
	return spot_attach(s, source, -1, e);
}

bool spot_shed(struct spot *s)
{
	return spot_covers(s, -1) && detach_narrow(s);
}
