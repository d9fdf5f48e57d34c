/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * sample.bpf.c: the tick of the CPU clock: a snapshot of the running thread when one is due.
 *
 * The clock ticks more often than snapshots are due, so that short bursts of CPU time are met, too; each
 * span keeps its own next time. A tick that finds nothing due costs one look-up. What most ticks find,
 * one span that is being profiled and a window of a few KiB, goes the short way: into the CPU's own ring,
 * without a lock. For what a snapshot costs its program is the memory and the code that it meets for the
 * first time in a while: a locked instruction behind the copy would wait until all of the copy has got its
 * cache lines, and a helper is a chain of calls, whose returns are dear where processors have them mitigated.
 */
#include "kernel.h"

#include "common.bpf.h"
#include "maps.bpf.h"
#include "returns.bpf.h"
#include "snapshot.bpf.h"
#include "unstep.bpf.h"
#include "wire.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static __always_inline bool in_kernel(struct bpf_perf_event_data *ctx)
{
	return (ctx->cs & 3) != 3;
}

/* Whether the thread has one span that is PROFILING, with SP in its frame, and true return addresses there. */
static __always_inline bool quick_can(const struct task_struct *task, const struct thread *t,
				      const struct span *s, __u64 sp)
{
	return t->depth == 1 && SPAN_STATE(*(volatile __u64 *)&s->tag) == SPAN_PROFILING &&
	       s->gate_gen == *(volatile __u32 *)&gates_gen && s->period_ns && sp <= s->entry_sp &&
	       s->entry_sp - sp < WIRE_STACK_SPREAD && !returns_pending(task);
}

/* Room for a record in this CPU's ring. NULL: there is none, or the window is not for it. */
static __always_inline struct wire_snapshot *quick_reserve(struct wire_tick_ring *r,
							   __u64 window_bytes)
{
	__u64 bytes = SHOT_FIXED + window_bytes, written;

	if (window_bytes > WIRE_TICK_WINDOW || window_bytes > knob_max_window)
		return NULL;
	written = r->written;
	if (written - r->seen + bytes > knob_tick_bytes) {
		r->seen = *(volatile __u64 *)&r->taken;
		if (written - r->seen + bytes > knob_tick_bytes)
			return NULL;
	}
	return (struct wire_snapshot *)(r->data + (written & (WIRE_TICK_RING - 1)));
}

static __always_inline void quick_span(const struct span *s, __u32 seq, struct wire_snapshot *rec)
{
	struct wire_snap_span *to = rec->spans;

	to->span_id = s->span_id;
	to->entry_sp = s->entry_sp;
	to->ret_addr = s->ret_addr;
	to->seq = seq;
	to->flags = s->flags & SPAN_F_BY_END ? WIRE_SPAN_F_NO_FRAME : 0;
	rec->n_spans = 1;
}

/* The tick has interrupted the kernel, maybe in a system call: registers, number, and the kernel's frames. */
static __always_inline __u32 quick_kernel(struct bpf_perf_event_data *ctx,
					  const struct pt_regs *regs, struct wire_snapshot *rec)
{
	struct shot_source from = {.stack_ctx = ctx};
	__u32 frames;

	rec->flags = WIRE_SNAP_F_KERNEL;
	rec->syscall_nr = regs_syscall(regs);
	regs_copy(rec->regs.r, regs);
	frames = shot_kernel(&from, (__u64 *)(rec + 1));
	return frames < WIRE_KSTACK_MAX ? frames : WIRE_KSTACK_MAX;
}

/* All but the header, the span and what depends on where the tick came. */
static __always_inline void quick_fill(const struct thread *t, __u64 oncpu_ns,
				       struct wire_snapshot *rec)
{
	rec->snap_kind = WIRE_SNAP_ONCPU;
	rec->flags = 0;
	rec->syscall_nr = -1;
	rec->as_id = t->as_id;
	rec->holes = 0;
	rec->pad = 0;
	rec->wall.oncpu_ns = oncpu_ns;
	rec->wall.runq_ns = t->wall.runq_ns;
	rec->wall.blocked_ns = t->wall.blocked_ns;
	rec->out_ns = 0;
	rec->wake_ns = 0;
	rec->waker_tgid = 0;
	rec->waker_tid = 0;
	rec->prev_state = 0;
}

/*
 * The window, and whether the span's frame is still there: its return address is the last word of what
 * was copied. Another read of the program's memory would cost as much as the copy of a KiB.
 */
static __always_inline bool quick_window(const struct span *s, __u8 *to, __u64 start, __u32 bytes)
{
	__u32 last = bytes - sizeof(__u64);

	opaque(bytes);
	if (bytes > WIRE_TICK_WINDOW || bpf_probe_read_user(to, bytes, (void *)start))
		return false;
	if (s->flags & (SPAN_F_BY_END | SPAN_F_URET))
		return true;
	opaque(last);
	return last <= WIRE_TICK_WINDOW - sizeof(__u64) && *(__u64 *)(to + last) == s->ret_addr;
}

/*
 * The short way; false: nothing has been done, the long one is needed. What waits for nothing comes first:
 * the locked addition would wait for the lines of the record. Unless the kernel was interrupted (a constant),
 * the program's registers are the context's: each read of them by way of the task has a guard, with a jump
 * that no processor foresees where it meets it cold.
 */
static __always_inline bool tick_quick(struct bpf_perf_event_data *ctx, struct task_struct *task,
				       struct thread *t, bool is_kernel)
{
	const struct pt_regs *regs = is_kernel ? task_regs(task) : NULL;
	struct span *s = &t->spans[0];
	__u32 cpu = bpf_get_smp_processor_id(), frames = 0, bytes, seq;
	struct wire_tick_ring *r = bpf_map_lookup_elem(&tick_rings, &cpu);
	__u64 now, oncpu_ns, sp = is_kernel ? regs->sp : ctx->sp, start = sp - WIRE_REDZONE;
	struct wire_snapshot *rec;

	if (!r || !quick_can(task, t, s, sp))
		return false;
	now = bpf_ktime_get_ns();
	oncpu_ns = t->wall.oncpu_ns + now - t->wall_ns;
	if (oncpu_ns < s->next_due_ns)
		return true;
	bytes = (s->entry_sp + 8 - start + 7) & ~7ULL;
	rec = quick_reserve(r, bytes);
	if (!rec)
		return false;
	seq = __sync_fetch_and_add(&s->n_due, 1);
	opaque(seq);
	quick_span(s, seq, rec);
	quick_fill(t, oncpu_ns, rec);
	header_fill(&rec->h, t, WIRE_K_SNAPSHOT, 0, now);
	rec->window_bytes = bytes;
	if (is_kernel)
		frames = quick_kernel(ctx, regs, rec);
	else
		regs_copy(rec->regs.r, ctx);
	regs_unstep(task, rec->regs.r);
	rec->kernel_frames = frames;
	if (!quick_window(s, (__u8 *)(rec + 1) + frames * sizeof(__u64), start, bytes)) {
		__sync_fetch_and_add(&s->n_due, -1);
		return false;
	}
	span_next_due(s, rec->wall.oncpu_ns);
	rec->h.size = sizeof(*rec) + frames * sizeof(__u64) + bytes;
	barrier();
	*(volatile __u64 *)&r->written += rec->h.size;
	return true;
}

/* Not inlined: what most ticks find is in one piece, and needs few bytes of stack. */
static __noinline int tick_quick_kernel(struct bpf_perf_event_data *ctx, struct task_struct *task,
					struct thread *t)
{
	return tick_quick(ctx, task, t, true);
}

/* Not inlined: its stack is not needed while spans are promoted, and 512 bytes are for all. */
static __noinline int tick_send(struct bpf_perf_event_data *ctx, struct task_struct *task,
				struct thread *t, const struct wire_wall *wall, __u32 mask)
{
	struct shot_source from = {.task = task};
	struct shot shot = {.kind = WIRE_SNAP_ONCPU,
			    .syscall_nr = -1,
			    .mask = mask,
			    .wall = *wall,
			    .mono_ns = t->wall_ns + (wall->oncpu_ns - t->wall.oncpu_ns)};

	if (in_kernel(ctx)) {
		shot.flags = WIRE_SNAP_F_KERNEL;
		shot.syscall_nr = regs_syscall(task_regs(task));
		from.stack_ctx = ctx;
	}
	window_extent(t, task_regs(task)->sp, knob_max_window, &shot.window);
	shot_send(t, &shot, &from);
	return 0;
}

static __noinline int tick_any(struct bpf_perf_event_data *ctx, struct task_struct *task,
			       struct thread *t)
{
	struct wire_wall wall;
	__u64 now;
	__u32 mask;

	spans_check(t, task_regs(task)->sp, task_regs(task)->ip);
	now = wall_now(t, &wall);
	mask = spans_review(t, now, now, &wall);
	if (mask && spans_due(t, mask, wall.oncpu_ns))
		tick_send(ctx, task, t, &wall, mask);
	return 0;
}

SEC("perf_event")
int sample_tick(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);

	if (!t || !t->depth || !thread_is_back(t))
		return 0;
	if (in_kernel(ctx) ? !tick_quick_kernel(ctx, task, t) : !tick_quick(ctx, task, t, false))
		tick_any(ctx, task, t);
	return 0;
}
