/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/arch.h"
#include "base/strpool.h"
#include "model/decode.h"
#include "pipe/pipeline_priv.h"

int pipeline_new(struct pipeline **ret, const struct pipeline_options *options)
{
	struct pipeline *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	p->options = *options;
	if (!p->options.max_open_spans)
		p->options.max_open_spans = 65536;
	if (!p->options.max_snapshots)
		p->options.max_snapshots = 262144;
	if (!p->options.max_profile_bytes)
		p->options.max_profile_bytes = 64 << 20;
	r = profile_new(&p->profile);
	if (!r)
		r = symbolizer_new(&p->symbolizer, p->profile, &options->symbols);
	if (!r)
		r = spaces_new(&p->spaces, options->live);
	if (!r)
		r = assemble_new(&p->assemble, p->options.max_open_spans);
	if (!r)
		r = stacks_new(&p->stacks, options->live);
	if (r) {
		pipeline_free(p);
		return r;
	}
	p->builder.stacks = p->stacks;
	*ret = p;
	return 0;
}

struct pipeline *pipeline_free(struct pipeline *p)
{
	if (!p)
		return NULL;
	if (p->assemble)
		assemble_free(p->assemble);
	symbolizer_free(p->symbolizer);
	if (p->stacks)
		stacks_free(p->stacks);
	if (p->spaces)
		spaces_free(p->spaces);
	if (p->profile)
		profile_free(p->profile);
	gates_deinit(&p->gates);
	account_deinit(&p->account);
	stack_builder_deinit(&p->builder);
	free(p);
	return NULL;
}

void pipeline_rest(struct pipeline *p)
{
	symbolizer_rest(p->symbolizer);
}

struct profile *pipeline_profile(struct pipeline *p)
{
	return p->profile;
}

struct space_cache *pipeline_space_cache(struct pipeline *p)
{
	return spaces_cache(p->spaces);
}

size_t pipeline_open_spans(const struct pipeline *p)
{
	return assemble_n_open(p->assemble);
}

const struct assemble *pipeline_open(const struct pipeline *p)
{
	return p->assemble;
}

void pipeline_count(struct pipeline *p, enum counter id, uint64_t n)
{
	p->profile->counters.v[id] += n;
}

/* The string's id; 0 (the empty string) when the pool is full, which is counted. */
uint32_t pipeline_intern(struct pipeline *p, const char *text, size_t n)
{
	uint32_t id = 0;

	if (strpool_add_n(p->profile->strings, text, n, &id))
		pipeline_count(p, COUNTER_STRINGS_FULL, 1);
	return id;
}

int pipeline_set_endpoint(struct pipeline *p, uint32_t ep_id, const struct pipeline_endpoint *e)
{
	struct profile *profile = p->profile;
	struct profile_endpoint *row;
	int r = 0;

	if (ep_id >= WIRE_EP_MAX)
		return -EINVAL;
	while (profile->endpoints.n < ep_id + 2 && !r)
		r = vec_push(&profile->endpoints, (struct profile_endpoint){});
	if (r)
		return r;
	p->endpoints[ep_id] = *e;
	p->slots_set |= 1ULL << ep_id;
	row = &profile->endpoints.at[ep_id + 1];
	row->spec = pipeline_intern(p, endpoint_text(e->spec), SIZE_MAX / 2);
	row->name = pipeline_intern(p, endpoint_display(e->spec), SIZE_MAX / 2);
	row->threshold_ns = e->terms.threshold_ns;
	row->period_ns = e->terms.period_ns;
	return 0;
}

int pipeline_set_gate(struct pipeline *p, const struct wire_gate_key *key,
		      const struct gate_terms *terms)
{
	return gates_set(&p->gates, key, terms);
}

/* Those in force when the span began; of the endpoint where instances have none of their own (captures). */
static struct gate_terms terms_of(const struct pipeline *p, const struct wire_promoted *b)
{
	const struct gate_terms *own =
		gates_get(&p->gates, &(struct wire_gate_key){b->ep_id, b->instance_id});

	return own ? *own : p->endpoints[b->ep_id].terms;
}

/* Tells of a space that is new or has changed, whoever refreshed it. */
static void announce(struct pipeline *p, uint32_t tgid, uint32_t as_id, struct space *space)
{
	if (spaces_changed(p->spaces, tgid, as_id) && p->options.on_space)
		p->options.on_space(p->options.ctx, tgid, as_id, space);
}

int pipeline_set_space(struct pipeline *p, uint32_t tgid, uint32_t as_id, struct space *take_space)
{
	int r = spaces_set(p->spaces, tgid, as_id, take_space);

	if (!r)
		announce(p, tgid, as_id, take_space);
	return r;
}

struct space *pipeline_space(struct pipeline *p, uint32_t tgid, uint32_t as_id)
{
	struct space *space = spaces_get(p->spaces, tgid, as_id);

	if (space)
		announce(p, tgid, as_id, space);
	return space;
}

void pipeline_process_gone(struct pipeline *p, uint32_t tgid)
{
	if (!assemble_any(p->assemble, tgid))
		spaces_drop(p->spaces, tgid);
}

/* Begin and end are calls of their own: the begin function has returned, its caller is the root. */
static bool has_end_function(const struct pipeline *p, const struct open_span *s)
{
	return endpoint_end(p->endpoints[s->begin.ep_id].spec) != NULL;
}

/* The endpoint as the root of stacks: its function, or its name when that has no frame. */
int pipeline_endpoint_frame(struct pipeline *p, const struct open_span *s)
{
	const struct wire_promoted *b = &s->begin;
	struct space *space = pipeline_space(p, b->h.tgid, b->as_id);

	if (has_end_function(p, s))
		return stack_builder_text(&p->builder,
					  strpool_get(p->profile->strings,
						      p->profile->endpoints.at[b->ep_id + 1].name));
	return stack_builder_function(&p->builder, space, b->h.tgid, b->entry_ip);
}

static int build_stack(struct pipeline *p, const struct event *ev, size_t i,
		       const struct open_span *s, uint32_t *ret)
{
	const struct wire_snapshot *w = ev->snapshot;
	struct space *space = pipeline_space(p, w->h.tgid, w->as_id);
	size_t n = unwind_span_frames(&p->walk, &w->spans[i], i);
	enum stack_stop stop = p->walk.span_depth[i] ? STACK_STOP_ENDPOINT : p->walk.stop;
	bool by_end = has_end_function(p, s);
	/* Between the return and the leave probe: the endpoint is all that is left of the stack. */
	bool returned = !by_end && p->walk.returned & 1U << i;
	int r;

	if (!p->walk.span_depth[i] && stop == STACK_STOP_ENDPOINT)
		stop = STACK_STOP_PAST;
	if (returned) {
		stop = STACK_STOP_ENDPOINT;
		n = 0;
	}
	/* The frame that the walk cannot leave is the one that called the begin function. */
	if (by_end &&
	    (stop == STACK_STOP_PAST || (stop == STACK_STOP_RANGE && !(p->walk.left & 1U << i)))) {
		stop = STACK_STOP_ENDPOINT;
		n = p->walk.n;
	}
	stack_builder_begin(&p->builder);
	r = stack_builder_kernel(&p->builder, ev);
	for (size_t f = 0; f < n && !r; f++)
		r = stack_builder_pc(&p->builder, space, w->h.tgid, p->walk.frames[f].pc,
				     p->walk.frames[f].flags);
	if (!r && stop != STACK_STOP_ENDPOINT)
		r = stack_builder_text(&p->builder, stack_builder_incomplete(stop));
	/* The stack has it already, unless the endpoint has jumped to another function for its end. */
	if (!r)
		r = pipeline_endpoint_frame(p, s);
	if (!r)
		r = stack_builder_finish(&p->builder, stop, ret);
	return r;
}

static int observe(struct pipeline *p, const struct event *ev, size_t i, struct open_span *s)
{
	const struct wire_snapshot *w = ev->snapshot;
	struct observation o = {
		.seq = w->spans[i].seq,
		.kind = w->snap_kind,
		.flags = w->flags,
		.syscall_nr = w->syscall_nr,
		.prev_state = w->prev_state,
		.mono_ns = w->h.mono_ns,
		.out_ns = w->out_ns,
		.wake_ns = w->wake_ns,
		.wall = w->wall,
	};
	int r;

	/* The walk of stuck threads races with the thread, which may come back and be first. */
	if (s->obs.n && o.seq <= s->obs.at[s->obs.n - 1].seq) {
		s->n_dropped++;
		pipeline_count(p, COUNTER_SNAPSHOT_LATE, 1);
		return 0;
	}
	if (s->obs.n >= p->options.max_snapshots) {
		s->n_dropped++;
		pipeline_count(p, COUNTER_SNAPSHOT_LIMIT, 1);
		return 0;
	}
	if (w->flags & WIRE_SNAP_F_WAKER) {
		o.waker_tgid = w->waker_tgid;
		o.waker_tid = w->waker_tid;
	}
	r = build_stack(p, ev, i, s, &o.stack);
	if (r == -ENOSPC) {
		s->n_dropped++;
		pipeline_count(p, COUNTER_SNAPSHOT_LIMIT, 1);
		return 0;
	}
	s->last_ns = w->h.mono_ns;
	return r ? r : vec_push(&s->obs, o);
}

static void walk_window(struct pipeline *p, const struct event *ev)
{
	const struct wire_snapshot *w = ev->snapshot;
	struct space *space = pipeline_space(p, w->h.tgid, w->as_id);
	struct unwind_input in = {
		.regs = &w->regs,
		.window = ev->window,
		.window_bytes = w->window_bytes,
		.window_start = w->regs.r[ARCH_SP] - WIRE_REDZONE,
		.holes = w->holes,
		.spans = w->spans,
		.n_spans = w->n_spans,
		.snap_flags = w->flags,
		.may_trap = w->syscall_nr < 0 &&
			    (w->flags & (WIRE_SNAP_F_KERNEL | WIRE_SNAP_F_PREEMPTED)),
	};

	if (!space) {
		pipeline_count(p, COUNTER_MAPS_UNREADABLE, 1);
		p->walk = (struct unwind_stack){.stop = STACK_STOP_NO_MODULE};
		return;
	}
	space_unwind(space, &in, w->h.mono_ns, &p->walk, &p->profile->counters);
	announce(p, w->h.tgid, w->as_id, space);
}

static int push_snapshot(struct pipeline *p, const struct event *ev)
{
	bool walked = false;
	int r = 0;

	for (size_t i = 0; i < ev->snapshot->n_spans && !r; i++) {
		struct open_span *s = assemble_find(p->assemble, ev->snapshot->spans[i].span_id);

		if (!s) {
			pipeline_count(p, COUNTER_SPAN_UNKNOWN, 1);
			continue;
		}
		if (!walked)
			walk_window(p, ev);
		walked = true;
		r = observe(p, ev, i, s);
	}
	return r;
}

static int end_open(struct pipeline *p, uint64_t span_id, uint64_t now_ns, uint16_t reason)
{
	struct open_span *s = assemble_take(p->assemble, span_id);
	struct ending e;
	int r;

	if (!s)
		return 0;
	e = ending_unfinished(s, now_ns, reason);
	r = pipeline_finish_span(p, s, &e);
	open_span_free(s);
	return r;
}

static int end_all(struct pipeline *p, uint64_t now_ns, uint16_t reason)
{
	uint64_t span_id;
	int r = 0;

	while (!r && (span_id = assemble_any(p->assemble, 0)))
		r = end_open(p, span_id, now_ns, reason);
	return r;
}

/* Their ends were lost: the process is gone. */
static int end_process(struct pipeline *p, const struct wire_header *h)
{
	uint64_t span_id;
	int r = 0;

	while (!r && (span_id = assemble_any(p->assemble, h->tgid)))
		r = end_open(p, span_id, h->mono_ns, WIRE_END_PROCESS_EXIT);
	return r;
}

static int push_end(struct pipeline *p, const struct wire_end *end)
{
	struct open_span *s = assemble_take(p->assemble, end->span_id);
	struct ending e = ending_of(end);
	int r;

	if (!s) {
		pipeline_count(p, COUNTER_SPAN_UNKNOWN, 1);
		return 0;
	}
	r = pipeline_finish_span(p, s, &e);
	open_span_free(s);
	return r;
}

static int push_promoted(struct pipeline *p, const struct wire_promoted *b)
{
	uint64_t stale;
	int r;

	if (b->ep_id >= WIRE_EP_MAX || !(p->slots_set & 1ULL << b->ep_id)) {
		pipeline_count(p, COUNTER_RECORD_MALFORMED, 1);
		return 0;
	}
	while ((stale = assemble_superseded(p->assemble, b))) {
		pipeline_count(p, COUNTER_SPAN_SUPERSEDED, 1);
		r = end_open(p, stale, b->start_ns, WIRE_END_LEAVE_UNSEEN);
		if (r)
			return r;
	}
	pipeline_space(p, b->h.tgid, b->as_id);
	r = assemble_begin(p->assemble, b);
	if (!r)
		assemble_find(p->assemble, b->span_id)->terms = terms_of(p, b);
	if (r == -ENOSPC)
		pipeline_count(p, COUNTER_SPAN_TABLE_FULL, 1);
	else if (r == -EEXIST)
		pipeline_count(p, COUNTER_RECORD_MALFORMED, 1);
	else
		return r;
	return 0;
}

int pipeline_push(struct pipeline *p, const void *record, size_t bytes)
{
	struct event ev;

	if (decode_record(record, bytes, &ev) != DECODE_OK) {
		pipeline_count(p, COUNTER_RECORD_MALFORMED, 1);
		return 0;
	}
	switch (ev.h->kind) {
	case WIRE_K_PROMOTED:
		return push_promoted(p, ev.promoted);
	case WIRE_K_SNAPSHOT:
		return push_snapshot(p, &ev);
	case WIRE_K_END:
		return push_end(p, ev.end);
	case WIRE_K_EXIT:
		return end_process(p, ev.h);
	case WIRE_K_CUT:
		return end_all(p, ev.h->mono_ns, WIRE_END_CUT);
	default:
		return 0; /* for the engine */
	}
}

int pipeline_finish_gate(struct pipeline *p, uint32_t ep_id, uint32_t instance_id, uint64_t now_ns)
{
	uint64_t span_id;
	int r = 0;

	while (!r && (span_id = assemble_any_of(p->assemble, ep_id, instance_id)))
		r = end_open(p, span_id, now_ns, WIRE_END_TASK_END);
	gates_remove(&p->gates, &(struct wire_gate_key){ep_id, instance_id});
	return r;
}

int pipeline_finish(struct pipeline *p, uint64_t now_ns)
{
	return end_all(p, now_ns, WIRE_END_TASK_END);
}

int pipeline_symbolize(struct pipeline *p)
{
	int r = stacks_resolve_noted(p->stacks, p->symbolizer, p->profile);

	for (size_t i = 1; i < p->profile->samples.n && !r; i++) {
		struct profile_sample *s = &p->profile->samples.at[i];

		r = stacks_resolve(p->stacks, s->stack, p->symbolizer, p->profile, &s->stack);
		if (!r)
			s->cause = profile_wait_cause(p->profile, s->cause, s->stack);
	}
	return r;
}

int pipeline_look_up(struct pipeline *p, uint32_t tgid, uint32_t stack, uint32_t *ret_stack)
{
	int r = p->options.no_symbols ? -ENOTSUP
				      : symbolizer_use_process(p->symbolizer, (pid_t)tgid);

	if (r)
		return r;
	r = stacks_resolve(p->stacks, stack, p->symbolizer, p->profile, ret_stack);
	pipeline_rest(p);
	return r;
}

int pipeline_add_name(struct pipeline *p, const struct stacks_name *name)
{
	return stacks_add_name(p->stacks, p->profile, name);
}

int pipeline_each_name(struct pipeline *p, int (*fn)(void *ctx, const struct stacks_name *name),
		       void *ctx)
{
	return stacks_each_name(p->stacks, p->symbolizer, p->profile, fn, ctx);
}
