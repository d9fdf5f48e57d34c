/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * sample.bpf.c: the tick of the CPU clock: a snapshot of the running thread when one is due.
 *
 * The clock ticks more often than snapshots are due, so that short bursts of CPU time are met, too; each
 * span keeps its own next time. A tick that finds nothing due costs one look-up.
 */
#include "kernel.h"

#include "common.bpf.h"
#include "maps.bpf.h"
#include "snapshot.bpf.h"
#include "wire.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("perf_event")
int sample_tick(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);
	struct shot_source from = {};
	struct shot shot = {};
	__u64 sp;

	if (!t || !t->depth)
		return 0;
	thread_resume(t);
	sp = task_regs(task)->sp;
	spans_check(t, sp, task_regs(task)->ip);
	shot.mono_ns = wall_now(t, &shot.wall);
	shot.mask = spans_review(t, shot.mono_ns, shot.mono_ns, &shot.wall);
	if (!shot.mask || !spans_due(t, shot.mask, shot.wall.oncpu_ns))
		return 0;
	shot.kind = WIRE_SNAP_ONCPU;
	shot.syscall_nr = -1;
	from.task = task;
	if ((ctx->regs[PERF_REG_CS] & 3) != 3) {
		shot.flags = WIRE_SNAP_F_KERNEL;
		shot.syscall_nr = regs_syscall(task_regs(task));
		from.stack_ctx = ctx;
	}
	window_extent(t, sp, knob_max_window, &shot.window);
	shot_send(t, &shot, &from);
	return 0;
}
