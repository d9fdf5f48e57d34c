/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * stuck.bpf.c: the walk of threads that are off CPU in an open span, so that a call that hangs is
 * seen while it hangs. User space starts it by reading the iterator.
 *
 * The threads may start to run on another CPU at any moment: a snapshot counts only when the
 * thread's out_ns has not changed while it was taken.
 */
#include "kernel.h"

#include "common.bpf.h"
#include "maps.bpf.h"
#include "snapshot.bpf.h"
#include "wire.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define STUCK_AGAIN_NS 1000000000ULL

SEC("iter/task")
int stuck_walk(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct shot_source from = {};
	struct shot shot = {};
	struct thread *t;

	if (!task)
		return 0;
	t = bpf_task_storage_get(&threads, task, 0, 0);
	if (!t || !t->depth)
		return 0;
	shot.out_ns = *(volatile __u64 *)&t->out_ns;
	if (shot.out_ns <= OUT_ENDING || t->out_gen != sched_gen)
		return 0;
	shot.wall = t->wall;
	shot.mono_ns = bpf_ktime_get_ns();
	if (t->stuck_out_ns == shot.out_ns && shot.mono_ns - t->stuck_ns < STUCK_AGAIN_NS)
		return 0;
	if (*(volatile __u64 *)&t->out_ns != shot.out_ns)
		return 0;
	shot.mask = spans_review(t, shot.mono_ns, shot.out_ns, &shot.wall);
	if (!shot.mask)
		return 0;
	t->stuck_out_ns = shot.out_ns;
	t->stuck_ns = shot.mono_ns;
	shot.kind = WIRE_SNAP_STUCK;
	from.may_change = true;
	blocked_shot(task, t, &shot, &from);
	shot_send(t, &shot, &from);
	return 0;
}
