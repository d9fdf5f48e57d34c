/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/hanging.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "model/chain.h"
#include "pipe/assemble.h"

enum { CHAIN_COLUMNS = 140 };

/* The program's own functions and those of its libraries, in the order of the calls. */
struct chain {
	struct chain_frame *frames;
	const char **names;
	size_t n;
};

static void chain_deinit(struct chain *c)
{
	free(c->frames);
	free(c->names);
}

static void add_location(const struct profile *p, const struct profile_location *l, struct chain *c)
{
	const char *path = strpool_get(p->strings, p->modules.at[l->module].path);

	for (uint32_t i = l->n_frames; i-- > 0;) {
		const struct profile_frame *f = &p->frames.at[p->frame_runs.at[l->first_frame + i]];
		const char *name = strpool_get(p->strings, f->function);

		if (f->flags & (PROFILE_FRAME_KERNEL | PROFILE_FRAME_SYNTHETIC))
			continue;
		c->names[c->n] = name;
		c->frames[c->n++] = (struct chain_frame){
			.width = strlen(name),
			.runtime = chain_is_runtime(path, name),
			.unnamed = f->flags & PROFILE_FRAME_UNKNOWN,
		};
	}
}

static int fill_chain(const struct profile *p, const struct profile_stack *s, struct chain *c)
{
	const uint32_t *stack = &p->stack_runs.at[s->first];
	size_t n = 0;

	for (uint32_t i = 0; i < s->n; i++)
		n += p->locations.at[stack[i]].n_frames;
	if (!n)
		return 0;
	c->frames = calloc(n, sizeof(*c->frames));
	c->names = calloc(n, sizeof(*c->names));
	if (!c->frames || !c->names)
		return -ENOMEM;
	for (uint32_t i = s->n; i-- > 0;)
		add_location(p, &p->locations.at[stack[i]], c);
	return 0;
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

static void add_chain(struct hanging *h, const struct chain *c)
{
	for (size_t i = 0; i < c->n; i++) {
		bool shown = c->frames[i].shown;

		if (!shown && i && !c->frames[i - 1].shown)
			continue;
		add_text(h, i ? CHAIN_GAP : "", shown ? c->names[i] : CHAIN_CUT);
	}
}

static void describe(struct hanging *h, const struct profile *p, const struct observation *o,
		     uint32_t stack)
{
	CLEANUP(chain_deinit)
	struct chain c = {};

	if (fill_chain(p, &p->stacks.at[stack], &c) < 0 || !c.n)
		return;
	chain_choose(c.frames, c.n, CHAIN_COLUMNS);
	add_chain(h, &c);
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
