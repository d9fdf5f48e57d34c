/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/hanging.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "pipe/assemble.h"

enum { FRAMES_SHOWN = 5 };

struct functions {
	const char *at[FRAMES_SHOWN]; /* innermost first */
	size_t n;
	bool more;
};

static void add_location(const struct profile *p, const struct profile_location *l,
			 struct functions *ret)
{
	for (uint32_t i = 0; i < l->n_frames; i++) {
		const struct profile_frame *f = &p->frames.at[p->frame_runs.at[l->first_frame + i]];

		if (f->flags & (PROFILE_FRAME_KERNEL | PROFILE_FRAME_SYNTHETIC))
			continue;
		ret->more = ret->n == ARRAY_SIZE(ret->at);
		if (ret->more)
			return;
		ret->at[ret->n++] = strpool_get(p->strings, f->function);
	}
}

static void add_text(struct hanging *h, const char *text, const char *more)
{
	size_t n = strlen(h->where);

	snprintf(h->where + n, sizeof(h->where) - n, "%s%s", text, more);
}

static void add_state(struct hanging *h, const struct profile *p, const struct observation *o,
		      uint32_t stack)
{
	enum block_cause cause = block_cause_of(o->syscall_nr, o->prev_state, o->flags);

	if (o->kind != WIRE_SNAP_STUCK)
		add_text(h, ", on-CPU", "");
	else if (o->flags & WIRE_SNAP_F_PREEMPTED)
		add_text(h, ", waiting for a CPU", "");
	else
		add_text(h, ", blocked: ", block_cause_name(profile_wait_cause(p, cause, stack)));
}

static void describe(struct hanging *h, const struct profile *p, const struct observation *o,
		     uint32_t stack)
{
	const struct profile_stack *s = &p->stacks.at[stack];
	struct functions functions = {};

	for (uint32_t i = 0; i < s->n && !functions.more; i++)
		add_location(p, &p->locations.at[p->stack_runs.at[s->first + i]], &functions);
	if (!functions.n)
		return;
	if (functions.more)
		add_text(h, "... > ", "");
	for (size_t i = functions.n; i-- > 0;)
		add_text(h, functions.at[i], i ? " > " : "");
	add_state(h, p, o, stack);
	text_printable(h->where);
}

bool hanging_find(struct pipeline *p, uint64_t after_ns, uint64_t until_ns, struct hanging *ret)
{
	const struct open_span *s = assemble_first(pipeline_open(p), after_ns, until_ns);
	const struct observation *last;
	uint32_t stack;

	if (!s)
		return false;
	*ret = (struct hanging){
		.ep_id = s->begin.ep_id,
		.tgid = s->begin.h.tgid,
		.tid = s->begin.h.tid,
		.start_ns = s->begin.start_ns,
	};
	pipeline_name(p, s, ret->name, sizeof(ret->name));
	text_printable(ret->name);
	last = s->obs.n ? &s->obs.at[s->obs.n - 1] : NULL;
	if (last && !pipeline_look_up(p, ret->tgid, last->stack, &stack))
		describe(ret, pipeline_profile(p), last, stack);
	return true;
}
