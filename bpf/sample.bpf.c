/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * sample.bpf.c: the tick of the CPU clock: a snapshot of the running thread when one is due.
 *
 * The clock ticks more often than snapshots are due, so that short bursts of CPU time are met, too; each
 * span keeps its own next time. A tick that finds nothing due costs one look-up. What most ticks find,
 * one span that is being profiled and a window of a few KiB, goes the short way: into the CPU's own ring,
 * without a lock. For what a snapshot costs its program is the memory that it touches: a locked
 * instruction behind the copy would wait until all of the copy has got its cache lines.
 */
#include "kernel.h"

#include "common.bpf.h"
#include "maps.bpf.h"
#include "returns.bpf.h"
#include "snapshot.bpf.h"
#include "unstep.bpf.h"
#include "wire.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Room for a record in this CPU's ring. NULL: there is none, or the window is not for it. */
static __always_inline struct wire_snapshot *quick_reserve(__u64 window_bytes,
							   struct wire_tick_ring **ret)
{
	__u64 bytes = SHOT_FIXED + window_bytes, written;
	__u32 cpu = bpf_get_smp_processor_id();
	struct wire_tick_ring *r = bpf_map_lookup_elem(&tick_rings, &cpu);

	if (!r || window_bytes > WIRE_TICK_WINDOW || window_bytes > knob_max_window)
		return NULL;
	written = r->written;
	if (written - r->seen + bytes > knob_tick_bytes) {
		r->seen = *(volatile __u64 *)&r->taken;
		if (written - r->seen + bytes > knob_tick_bytes)
			return NULL;
	}
	*ret = r;
	return (struct wire_snapshot *)(r->data + (written & (WIRE_TICK_RING - 1)));
}

/* As shot_kernel and shot_window do it. Returns the number of kernel frames. */
static __always_inline __u32 quick_copy(struct bpf_perf_event_data *ctx, struct window *w,
					struct wire_snapshot *rec)
{
	struct shot_source from = {};
	__u32 frames = 0;
	__u8 *to;

	if ((ctx->regs[PERF_REG_CS] & 3) != 3) {
		from.stack_ctx = ctx;
		frames = shot_kernel(&from, (__u64 *)(rec + 1));
	}
	opaque(frames);
	if (frames > WIRE_KSTACK_MAX)
		frames = WIRE_KSTACK_MAX;
	to = (__u8 *)(rec + 1) + frames * sizeof(__u64);
	if (!shot_window(&from, w, to, WIRE_TICK_WINDOW))
		shot_window_holes(w, to, WIRE_TICK_WINDOW);
	return frames;
}

static __always_inline void quick_span(struct span *s, struct wire_snapshot *rec)
{
	struct wire_snap_span *to = rec->spans;

	to->span_id = s->span_id;
	to->entry_sp = s->entry_sp;
	to->ret_addr = s->ret_addr;
	to->seq = __sync_fetch_and_add(&s->n_due, 1);
	to->flags = s->flags & SPAN_F_BY_END ? WIRE_SPAN_F_NO_FRAME : 0;
	rec->n_spans = 1;
}

/* Registers, times, flags. */
static __always_inline void quick_fill(const struct bpf_perf_event_data *ctx,
				       struct task_struct *task, const struct thread *t,
				       __u64 oncpu_ns, struct wire_snapshot *rec)
{
	bool in_kernel = (ctx->regs[PERF_REG_CS] & 3) != 3;
	const struct pt_regs *regs = task_regs(task);

	rec->snap_kind = WIRE_SNAP_ONCPU;
	rec->flags = in_kernel ? WIRE_SNAP_F_KERNEL : 0;
	rec->syscall_nr = in_kernel ? regs_syscall(regs) : -1;
	rec->as_id = t->as_id;
	rec->pad = 0;
	rec->wall.oncpu_ns = oncpu_ns;
	rec->wall.runq_ns = t->wall.runq_ns;
	rec->wall.blocked_ns = t->wall.blocked_ns;
	rec->out_ns = 0;
	rec->wake_ns = 0;
	rec->waker_tgid = 0;
	rec->waker_tid = 0;
	rec->prev_state = 0;
	regs_copy(rec->regs.r, regs);
	regs_unstep(task, rec->regs.r);
}

/* Whether the thread has one span that is PROFILING, with SP in its frame, and true return addresses there. */
static __always_inline bool quick_can(const struct thread *t, const struct span *s, __u64 sp)
{
	return t->depth == 1 && SPAN_STATE(*(volatile __u64 *)&s->tag) == SPAN_PROFILING &&
	       s->gate_gen == *(volatile __u32 *)&gates_gen && s->period_ns && sp <= s->entry_sp &&
	       s->entry_sp - sp < WIRE_STACK_SPREAD && !returns_pending();
}

static __always_inline bool quick_intact(const struct span *s)
{
	__u64 value;

	if (s->flags & (SPAN_F_BY_END | SPAN_F_URET))
		return true;
	return !bpf_probe_read_user(&value, sizeof(value), (void *)s->entry_sp) &&
	       value == s->ret_addr;
}

/* The short way; false: nothing has been done, the long one is needed. */
static __always_inline bool tick_quick(struct bpf_perf_event_data *ctx, struct task_struct *task,
				       struct thread *t)
{
	struct span *s = &t->spans[0];
	struct wire_tick_ring *r;
	struct wire_snapshot *rec;
	__u64 now, oncpu_ns, sp = task_regs(task)->sp;
	struct window w = {};
	__u32 frames, bytes;

	if (!quick_can(t, s, sp) || !quick_intact(s))
		return false;
	now = bpf_ktime_get_ns();
	oncpu_ns = t->wall.oncpu_ns + now - t->wall_ns;
	if (oncpu_ns < s->next_due_ns)
		return true;
	w.start = sp - WIRE_REDZONE;
	w.bytes = (s->entry_sp + 8 - w.start + 7) & ~7ULL;
	rec = quick_reserve(w.bytes, &r);
	if (!rec)
		return false;
	span_next_due(s, oncpu_ns);
	quick_span(s, rec);
	frames = quick_copy(ctx, &w, rec);
	quick_fill(ctx, task, t, oncpu_ns, rec);
	if (w.flags) {
		rec->flags |= w.flags;
		count(WIRE_C_WINDOW_FAULT);
	}
	rec->kernel_frames = frames;
	rec->window_bytes = w.bytes;
	rec->holes = w.holes;
	bytes = sizeof(*rec) + frames * sizeof(__u64) + w.bytes;
	header_fill(&rec->h, t, WIRE_K_SNAPSHOT, bytes, now);
	barrier();
	*(volatile __u64 *)&r->written += bytes;
	return true;
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

	if ((ctx->regs[PERF_REG_CS] & 3) != 3) {
		shot.flags = WIRE_SNAP_F_KERNEL;
		shot.syscall_nr = regs_syscall(task_regs(task));
		from.stack_ctx = ctx;
	}
	window_extent(t, task_regs(task)->sp, knob_max_window, &shot.window);
	shot_send(t, &shot, &from);
	return 0;
}

static __always_inline void tick_any(struct bpf_perf_event_data *ctx, struct task_struct *task,
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
}

SEC("perf_event")
int sample_tick(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);

	if (!t || !t->depth || !thread_is_back(t))
		return 0;
	if (!tick_quick(ctx, task, t))
		tick_any(ctx, task, t);
	return 0;
}
