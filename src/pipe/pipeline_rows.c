/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_rows.c: spans that have ended, as rows of the profile: their time by stack, their names, their limits. */
#include <errno.h>
#include <string.h>

#include "base/strpool.h"
#include "pipe/pipeline_priv.h"

enum { NAME_MAX_BYTES = 512 };

static int gap_stack(struct pipeline *p, const struct open_span *s, enum profile_gap gap,
		     uint32_t *ret)
{
	int r;

	stack_builder_begin(&p->builder);
	r = stack_builder_text(&p->builder, profile_gap_text(gap));
	if (!r)
		r = pipeline_endpoint_frame(p, s);
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
		pipeline_count(p, COUNTER_SPAN_EVICTED, 1);
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
	return pipeline_intern(p, name, sizeof(name));
}

static uint32_t shared_stack(void *ctx, uint32_t a, uint32_t b)
{
	struct pipeline *p = ctx;
	uint32_t stack;

	return stacks_add_shared(p->stacks, a, b, profile_gap_text(PROFILE_GAP_TICKS), &stack)
		       ? ACCOUNT_NO_TICK
		       : stack;
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
		.shared = shared_stack,
		.ctx = p,
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
int pipeline_finish_span(struct pipeline *p, const struct open_span *s, const struct ending *e)
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
		pipeline_count(p, COUNTER_FAST_DISCARDED, 1);
		return 0;
	}
	span.name = span_name(p, s, e, &wanted);
	if (!wanted) {
		pipeline_count(p, COUNTER_NAME_MISMATCH, 1);
		return 0;
	}
	r = account(p, s, e);
	if (r)
		return r;
	span.n_due = e->n_due > s->obs.n + s->n_dropped ? e->n_due : s->obs.n + s->n_dropped;
	pipeline_count(p, COUNTER_SEQ_GAP, p->account.n_missing);
	span.comm = pipeline_intern(p, b->comm, sizeof(b->comm));
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
