/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * cut.bpf.c: the walk that gives up all open calls. User space starts it when neither a function probe
 * nor the scheduler's programs nor the tick are there: nothing else looks at spans then, but the ends of
 * threads and exec, which close what is left.
 *
 * Invariant: behind it no thread has an open span. The end of a call would not be seen, and its place on
 * the stack may be another call's when the probes are back. No record is sent; user space ends what was
 * being profiled.
 */
#include "kernel.h"

#include "common.bpf.h"
#include "maps.bpf.h"
#include "wire.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static __noinline int span_cut(struct thread *t, __u32 slot)
{
	struct wire_latency *l;
	struct gate_count *n;
	struct span *s;
	__u32 state, ep_id;

	if (!t || slot >= WIRE_SPANS_MAX)
		return 0;
	s = &t->spans[slot];
	state = SPAN_STATE(__sync_lock_test_and_set(&s->tag, SPAN_FREE));
	if (state == SPAN_FREE)
		return 0;
	ep_id = s->ep_id;
	l = bpf_map_lookup_elem(&latency, &ep_id);
	if (l)
		__sync_fetch_and_add(&l->n_unknown, 1);
	n = state == SPAN_PROFILING ? span_gate_count(t, s) : NULL;
	if (n)
		__sync_fetch_and_add(&n->n_active, -1);
	count(WIRE_C_CALL_CUT);
	return 0;
}

SEC("?iter/task")
int cut_walk(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread *t;

	if (!task)
		return 0;
	t = bpf_task_storage_get(&threads, task, 0, 0);
	if (!t || !t->depth)
		return 0;
	for_each_slot (i, t)
		span_cut(t, i);
	t->depth = 0;
	t->open_eps = 0;
	t->out_ns = 0;
	return 0;
}
