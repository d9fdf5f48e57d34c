/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/pipeline.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strpool.h"
#include "model/decode.h"
#include "pipe/account.h"
#include "pipe/assemble.h"
#include "pipe/ending.h"
#include "pipe/spaces.h"
#include "pipe/stack_builder.h"
#include "pipe/stacks.h"

enum { NAME_MAX_BYTES = 512 };

struct pipeline {
	struct pipeline_options options;
	struct pipeline_endpoint endpoints[WIRE_EP_MAX];
	uint64_t slots_set; /* bit per slot of endpoints */
	struct gates gates;
	struct profile *profile;
	struct symbolizer *symbolizer;
	pid_t symbols_pid; /* its root is opened when a stack of the span is not known yet */
	struct spaces *spaces;
	struct assemble *assemble;
	struct stacks *stacks;
	struct account account;
	struct stack_builder builder;
	struct unwind_stack walk; /* scratch: large */
};

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

static void count(struct pipeline *p, enum counter id, uint64_t n)
{
	p->profile->counters.v[id] += n;
}

/* The string's id; 0 (the empty string) when the pool is full, which is counted. */
static uint32_t intern(struct pipeline *p, const char *text, size_t n)
{
	uint32_t id = 0;

	if (strpool_add_n(p->profile->strings, text, n, &id))
		count(p, COUNTER_STRINGS_FULL, 1);
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
	row->spec = intern(p, endpoint_text(e->spec), SIZE_MAX / 2);
	row->name = intern(p, endpoint_display(e->spec), SIZE_MAX / 2);
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
static int push_endpoint_frame(struct pipeline *p, const struct open_span *s)
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
		r = push_endpoint_frame(p, s);
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
		count(p, COUNTER_SNAPSHOT_LATE, 1);
		return 0;
	}
	if (s->obs.n >= p->options.max_snapshots) {
		s->n_dropped++;
		count(p, COUNTER_SNAPSHOT_LIMIT, 1);
		return 0;
	}
	if (w->flags & WIRE_SNAP_F_WAKER) {
		o.waker_tgid = w->waker_tgid;
		o.waker_tid = w->waker_tid;
	}
	r = build_stack(p, ev, i, s, &o.stack);
	if (r == -ENOSPC) {
		s->n_dropped++;
		count(p, COUNTER_SNAPSHOT_LIMIT, 1);
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
		.window_start = w->regs.r[WIRE_REG_RSP] - WIRE_REDZONE,
		.holes = w->holes,
		.spans = w->spans,
		.n_spans = w->n_spans,
		.snap_flags = w->flags,
		.may_trap = w->syscall_nr < 0 &&
			    (w->flags & (WIRE_SNAP_F_KERNEL | WIRE_SNAP_F_PREEMPTED)),
	};

	if (!space) {
		count(p, COUNTER_MAPS_UNREADABLE, 1);
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
			count(p, COUNTER_SPAN_UNKNOWN, 1);
			continue;
		}
		if (!walked)
			walk_window(p, ev);
		walked = true;
		r = observe(p, ev, i, s);
	}
	return r;
}

static int gap_stack(struct pipeline *p, const struct open_span *s, enum profile_gap gap,
		     uint32_t *ret)
{
	int r;

	stack_builder_begin(&p->builder);
	r = stack_builder_text(&p->builder, profile_gap_text(gap));
	if (!r)
		r = push_endpoint_frame(p, s);
	if (!r)
		r = stack_builder_finish(&p->builder, STACK_STOP_NONE, ret);
	return r;
}

/* Of a stack before symbolization the profile's, or that itself when it is to be symbolized later. */
static int resolve_stack(struct pipeline *p, uint32_t stack, uint32_t *ret)
{
	if (p->options.no_symbols)
		return 0;
	*ret = stack;
	if (!p->options.late_symbols && !stacks_is_resolved(p->stacks, stack) &&
	    symbolizer_use_process(p->symbolizer, p->symbols_pid))
		return -ENOMEM;
	if (p->options.late_symbols)
		return stacks_note(p->stacks, stack, p->symbolizer, p->profile);
	return stacks_resolve(p->stacks, stack, p->symbolizer, p->profile, ret);
}

static int resolve_item_stack(struct pipeline *p, const struct open_span *s, uint32_t stack,
			      uint32_t *ret)
{
	int r = 0;

	if (stack >= ACCOUNT_FIRST)
		r = gap_stack(p, s, stack - ACCOUNT_FIRST, &stack);
	return r ? r : resolve_stack(p, stack, ret);
}

static int add_sample(struct pipeline *p, const struct open_span *s, uint32_t span_idx,
		      const struct account_item *item)
{
	struct profile_sample sample = {
		.span = span_idx,
		.kind = item->kind,
		.count = item->count,
		.syscall_nr = -1,
		.seq = UINT32_MAX,
		.wall_ns = item->wall_ns,
		.start_ns = item->start_ns,
		.end_ns = item->end_ns,
	};
	int r;

	if (item->obs != UINT32_MAX) {
		const struct observation *o = &s->obs.at[item->obs];

		sample.seq = o->seq;
		if (item->kind == SAMPLE_BLOCKED) {
			sample.syscall_nr = o->syscall_nr;
			sample.cause = block_cause_of(o->syscall_nr, o->prev_state, o->flags);
			sample.waker_tid = o->waker_tid;
			sample.waker_tgid = o->waker_tgid;
		}
	}
	r = resolve_item_stack(p, s, item->stack, &sample.stack);
	if (!r && !p->options.no_symbols && !p->options.late_symbols)
		sample.cause = profile_wait_cause(p->profile, sample.cause, sample.stack);
	return r ? r : vec_push(&p->profile->samples, sample);
}

/* Over the memory limit a span keeps its times, in one synthetic stack, and loses its snapshots. */
static int add_collapsed(struct pipeline *p, const struct open_span *s, uint32_t span_idx)
{
	const struct wire_wall *t = &p->account.total;
	uint64_t by_kind[SAMPLE_KIND_MAX] = {t->oncpu_ns, t->runq_ns, t->blocked_ns};
	struct profile_sample sample = {.span = span_idx, .syscall_nr = -1, .seq = UINT32_MAX};
	uint32_t stack = 0;
	int r = gap_stack(p, s, PROFILE_GAP_MEMORY, &stack);

	if (!r)
		r = resolve_stack(p, stack, &sample.stack);
	sample.start_ns = s->begin.start_ns;
	sample.end_ns = s->begin.start_ns;
	for (int kind = 0; kind < SAMPLE_KIND_MAX && !r; kind++) {
		sample.kind = kind;
		sample.wall_ns = by_kind[kind];
		if (sample.wall_ns)
			r = vec_push(&p->profile->samples, sample);
	}
	return r;
}

static int add_samples(struct pipeline *p, const struct open_span *s, struct profile_span *span,
		       uint32_t span_idx)
{
	size_t limit = p->options.max_profile_bytes / sizeof(struct profile_sample);
	int r = 0;

	span->first_sample = p->profile->samples.n;
	p->symbols_pid = (pid_t)s->begin.h.tgid;
	if (p->options.late_symbols)
		r = symbolizer_use_process(p->symbolizer, p->symbols_pid);
	if (!r && p->profile->samples.n + p->account.items.n > limit) {
		count(p, COUNTER_SPAN_EVICTED, 1);
		span->n_kept = 0;
		r = add_collapsed(p, s, span_idx);
	} else {
		for (size_t i = 0; i < p->account.items.n && !r; i++)
			r = add_sample(p, s, span_idx, &p->account.items.at[i]);
	}
	span->n_samples = p->profile->samples.n - span->first_sample;
	return r;
}

static uint32_t span_name(struct pipeline *p, const struct open_span *s, const struct ending *e,
			  bool *ret_wanted)
{
	const struct endpoint *spec = p->endpoints[s->begin.ep_id].spec;
	char name[NAME_MAX_BYTES];

	if (e->name_bytes)
		endpoint_format_name(spec, e->name, e->name_bytes, name, sizeof(name));
	else
		endpoint_format_name(spec, s->begin.name, s->begin.name_bytes, name, sizeof(name));
	*ret_wanted = endpoint_matches(spec, name);
	return intern(p, name, sizeof(name));
}

static int account(struct pipeline *p, const struct open_span *s, const struct ending *e)
{
	struct account_input in = {
		.start_ns = s->begin.start_ns,
		.end_ns = e->end_ns,
		.period_ns = s->terms.period_ns,
		.sample_after_ns = s->terms.sample_after_ns,
		.start = s->begin.start,
		.promoted = s->begin.promoted,
		.total = e->total,
		.obs = s->obs.at,
		.n_obs = s->obs.n,
	};

	return account_span(&in, &p->account);
}

static uint32_t count_incomplete(const struct pipeline *p, const struct open_span *s)
{
	uint32_t n = 0;

	for (size_t i = 0; i < s->obs.n; i++)
		n += stacks_stop(p->stacks, s->obs.at[i].stack) != STACK_STOP_ENDPOINT;
	return n;
}

void pipeline_name(const struct pipeline *p, const struct open_span *s, char *buf, size_t bytes)
{
	endpoint_format_name(p->endpoints[s->begin.ep_id].spec, s->begin.name, s->begin.name_bytes,
			     buf, bytes);
}

/* Turns a span that was taken out of the table into a row of the profile and its samples. */
static int finish_span(struct pipeline *p, const struct open_span *s, const struct ending *e)
{
	const struct wire_promoted *b = &s->begin;
	struct profile_span span = {
		.span_id = b->span_id,
		.endpoint = b->ep_id + 1,
		.tgid = b->h.tgid,
		.tid = b->h.tid,
		.instance_id = b->instance_id,
		.start_ns = b->start_ns,
		.end_ns = e->end_ns > b->start_ns ? e->end_ns : b->start_ns,
		.end_reason = e->reason,
		.n_kept = s->obs.n,
		.n_incomplete = count_incomplete(p, s),
	};
	bool wanted;
	int r;

	if (span.end_ns - span.start_ns < s->terms.threshold_ns) {
		count(p, COUNTER_FAST_DISCARDED, 1);
		return 0;
	}
	span.name = span_name(p, s, e, &wanted);
	if (!wanted) {
		count(p, COUNTER_NAME_MISMATCH, 1);
		return 0;
	}
	r = account(p, s, e);
	if (r)
		return r;
	span.n_due = e->n_due > s->obs.n + s->n_dropped ? e->n_due : s->obs.n + s->n_dropped;
	count(p, COUNTER_SEQ_GAP, p->account.n_missing);
	span.comm = intern(p, b->comm, sizeof(b->comm));
	span.oncpu_ns = p->account.total.oncpu_ns;
	span.runq_ns = p->account.total.runq_ns;
	span.blocked_ns = p->account.total.blocked_ns;
	r = add_samples(p, s, &span, p->profile->spans.n);
	if (r) {
		p->profile->samples.n = span.first_sample;
		return r;
	}
	r = vec_push(&p->profile->spans, span);
	if (!r && p->options.on_span)
		p->options.on_span(p->options.ctx, p->profile, p->profile->spans.n - 1);
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
	r = finish_span(p, s, &e);
	open_span_free(s);
	return r;
}

static int push_end(struct pipeline *p, const struct wire_end *end)
{
	struct open_span *s = assemble_take(p->assemble, end->span_id);
	struct ending e = ending_of(end);
	int r;

	if (!s) {
		count(p, COUNTER_SPAN_UNKNOWN, 1);
		return 0;
	}
	r = finish_span(p, s, &e);
	open_span_free(s);
	return r;
}

static int push_promoted(struct pipeline *p, const struct wire_promoted *b)
{
	uint64_t stale;
	int r;

	if (b->ep_id >= WIRE_EP_MAX || !(p->slots_set & 1ULL << b->ep_id)) {
		count(p, COUNTER_RECORD_MALFORMED, 1);
		return 0;
	}
	while ((stale = assemble_superseded(p->assemble, b))) {
		count(p, COUNTER_SPAN_SUPERSEDED, 1);
		r = end_open(p, stale, b->start_ns, WIRE_END_LEAVE_UNSEEN);
		if (r)
			return r;
	}
	pipeline_space(p, b->h.tgid, b->as_id);
	r = assemble_begin(p->assemble, b);
	if (!r)
		assemble_find(p->assemble, b->span_id)->terms = terms_of(p, b);
	if (r == -ENOSPC)
		count(p, COUNTER_SPAN_TABLE_FULL, 1);
	else if (r == -EEXIST)
		count(p, COUNTER_RECORD_MALFORMED, 1);
	else
		return r;
	return 0;
}

int pipeline_push(struct pipeline *p, const void *record, size_t bytes)
{
	struct event ev;

	if (decode_record(record, bytes, &ev) != DECODE_OK) {
		count(p, COUNTER_RECORD_MALFORMED, 1);
		return 0;
	}
	switch (ev.h->kind) {
	case WIRE_K_PROMOTED:
		return push_promoted(p, ev.promoted);
	case WIRE_K_SNAPSHOT:
		return push_snapshot(p, &ev);
	case WIRE_K_END:
		return push_end(p, ev.end);
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
	uint64_t span_id;
	int r = 0;

	while (!r && (span_id = assemble_any(p->assemble, 0)))
		r = end_open(p, span_id, now_ns, WIRE_END_TASK_END);
	return r;
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
