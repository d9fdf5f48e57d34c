/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * sched.bpf.c: what threads with open spans do off the CPU: why, how long, and in which stack.
 *
 * At a switch `current` is still the thread that leaves, so its stack is copied then; the record is
 * sent when it comes back, with the exact interval. Invariant: nothing is allocated here, since the
 * run queue is locked.
 */
#include "kernel.h"

#include "common.bpf.h"
#include "maps.bpf.h"
#include "returns.bpf.h"
#include "snapshot.bpf.h"
#include "wire.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* A wake-up that was seen this long before the switch-out belongs to it: the two race. */
#define WAKE_RACE_NS 1000000

/* Size of a thread's kernel stack, or less where it is larger. */
#define KERNEL_STACK_BYTES 16384

/* Copies a window into the thread's own storage, as far as it fits. */
static __always_inline void window_save_own(struct task_struct *prev, const struct window *head)
{
	__u32 bytes = head->bytes, room;
	struct window *w = window_storage(prev, 0, &room);

	if (!w)
		return;
	*w = *head;
	if (bytes > room) {
		bytes = room;
		w->bytes = room;
		w->flags = WIRE_SNAP_F_TRUNCATED;
	}
	if (!bytes)
		return;
	opaque(bytes); /* clang 19 makes one comparison of two, which Linux 6.12 does not see through */
	if (bytes <= room) {
		window_read(w, (__u8 *)(w + 1), bytes, room);
		returns_restore(w, (__u8 *)(w + 1), room);
	}
}

/*
 * Copies the window of a thread that leaves. When it does not fit, the thread borrows a large one, and its
 * next enter makes it one of its own.
 */
static __always_inline void window_save(struct task_struct *prev, struct thread *t, __u64 sp)
{
	bool is_large = t->window == THREAD_WINDOW_LARGE;
	struct windows_large_value *v;
	struct window head = {};

	window_extent(t, sp, knob_max_window, &head);
	if (knob_max_window > WINDOW_MIDDLE && !is_large && head.bytes > WINDOW_MIDDLE) {
		t->window = THREAD_WINDOW_TOO_SMALL;
		t->member_gen = 0;
		is_large = window_borrow(t);
	}
	v = is_large ? window_large(prev, t) : NULL;
	if (!v) {
		window_save_own(prev, &head);
		return;
	}
	v->head = head;
	window_read_large(v);
}

/* NULL for nearly all threads, for which no helper is called. */
static __always_inline struct thread *thread_of(struct task_struct *task)
{
	return task->bpf_storage ? bpf_task_storage_get(&threads, task, 0, 0) : NULL;
}

/* The scheduler's clock of the CPU that prev is leaving: it has just been read for the switch. */
static __always_inline __u64 scheduler_clock(struct task_struct *prev)
{
	if (!bpf_core_field_exists(struct sched_entity, cfs_rq) ||
	    !bpf_core_field_exists(struct cfs_rq, rq) ||
	    !bpf_core_field_exists(struct sched_info, last_arrival))
		return 0;
	return prev->se.cfs_rq->rq->clock;
}

static __always_inline void switch_out(struct task_struct *prev, bool is_preempted, __u32 state)
{
	struct thread *t = thread_of(prev);
	const struct pt_regs *regs;
	__u64 now, sp;

	if (!t || !t->depth || !thread_is_back(t))
		return;
	now = bpf_ktime_get_ns();
	t->wall.oncpu_ns += now - t->wall_ns;
	t->wall_ns = now;
	regs = task_regs(prev);
	sp = regs->sp;
	spans_check(t, sp, regs->ip);
	if (!t->depth)
		return;
	t->prev_state = state & 0xff;
	t->is_preempted = is_preempted || !t->prev_state;
	t->is_iowait = BPF_CORE_READ_BITFIELD(prev, in_iowait);
	t->out_syscall = regs_syscall(regs);
	regs_copy(t->out_regs.r, regs);
	regs_unstep(prev, t->out_regs.r);
	window_return(t);
	window_save(prev, t, sp);
	t->out_clock = scheduler_clock(prev);
	t->out_gen = sched_gen;
	t->out_ns = now;
	waiting_add(1);
}

/* Its window is not needed any more. */
static __always_inline void interval_close(struct thread *t)
{
	window_return(t);
	barrier();
	*(volatile __u64 *)&t->out_ns = 0;
}

/* Takes the interval that is open, to end it; 0: there is none, or it is being ended. */
static __always_inline __u64 interval_take(struct thread *t)
{
	__u64 out_ns = *(volatile __u64 *)&t->out_ns;

	if (out_ns <= OUT_ENDING ||
	    __sync_val_compare_and_swap(&t->out_ns, out_ns, OUT_ENDING) != out_ns)
		return 0;
	if (t->out_gen != sched_gen) {
		interval_close(t);
		return 0;
	}
	waiting_add(-1);
	return out_ns;
}

/* Divides the time off CPU into blocked and waiting for a CPU; true when the wake-up is known. */
static __always_inline bool wall_split(struct thread *t, __u64 out, __u64 end)
{
	__u64 wake = t->wake_ns;

	t->wall_ns = end;
	t->wall_seq++;
	if (t->is_preempted) {
		t->wall.runq_ns += end - out;
		return false;
	}
	if (wake > end)
		wake = end;
	if (wake >= out) {
		t->wall.blocked_ns += wake - out;
		t->wall.runq_ns += end - wake;
		return true;
	}
	if (wake && out - wake < WAKE_RACE_NS) {
		t->wake_ns = out;
		t->wall.runq_ns += end - out;
		return true;
	}
	t->wall.blocked_ns += end - out;
	count(WIRE_C_WAKE_UNSEEN);
	return false;
}

enum interval_flag {
	INTERVAL_WOKEN = 1 << 30, /* the wake-up is known */
	INTERVAL_PAST = 1U << 31, /* the thread has been running since its end */
};

/* Not inlined: its stack is not needed while spans are promoted, and 512 bytes are for all. */
static __noinline int interval_send(struct task_struct *task, struct thread *t, __u64 out_ns,
				    __u64 end_ns, __u32 mask)
{
	struct shot_source from = {};
	struct shot shot = {.out_ns = out_ns,
			    .mono_ns = end_ns,
			    .mask = mask & ~(INTERVAL_WOKEN | INTERVAL_PAST),
			    .kind = WIRE_SNAP_OFFCPU};

	t->waited_ns += end_ns - out_ns;
	if (t->waited_ns < spans_period(t, shot.mask) / 8) {
		count(WIRE_C_SHORT_WAIT);
		return 0;
	}
	t->waited_ns = 0;
	shot.wall = t->wall;
	if (mask & INTERVAL_WOKEN) {
		shot.wake_ns = t->wake_ns;
		shot.waker_tgid = t->waker_tgid;
		shot.waker_tid = t->waker_tid;
		if (shot.waker_tid)
			shot.flags |= WIRE_SNAP_F_WAKER;
	}
	blocked_shot(task, t, &shot, &from);
	from.task_stack = !(mask & INTERVAL_PAST);
	shot_send(t, &shot, &from);
	return 0;
}

/* Ends the interval that was taken. flags: 0 or INTERVAL_PAST. */
static __always_inline void interval_end(struct task_struct *task, struct thread *t, __u64 out_ns,
					 __u64 end_ns, __u32 flags)
{
	struct wire_wall before = t->wall;
	__u32 mask;

	if (wall_split(t, out_ns, end_ns))
		flags |= INTERVAL_WOKEN;
	mask = spans_review(t, end_ns, out_ns, &before);
	if (mask)
		interval_send(task, t, out_ns, end_ns, mask | flags);
	interval_close(t);
}

static __always_inline void switch_in(struct task_struct *next)
{
	struct thread *t = thread_of(next);
	__u64 out_ns;

	if (!t || !t->depth)
		return;
	out_ns = interval_take(t);
	if (out_ns)
		interval_end(next, t, out_ns, bpf_ktime_get_ns(), 0);
}

/*
 * When the current thread, which left its CPU at out_ns, came back. Without the scheduler's word for it,
 * no earlier than at its wake-up.
 */
static __always_inline __u64 back_ns(struct task_struct *task, const struct thread *t, __u64 out_ns)
{
	__u64 now = bpf_ktime_get_ns(), back = out_ns;

	if (!t->is_preempted && t->wake_ns > out_ns)
		back = t->wake_ns;
	if (t->out_clock) {
		__u64 after = task->sched_info.last_arrival - t->out_clock;

		if ((__s64)after > (__s64)(back - out_ns))
			back = out_ns + after;
	}
	return back < now ? back : now;
}

/*
 * A kernel may run no BPF programs on behalf of some processes, such as those of a machine's operator. A
 * thread that gets the CPU of such a one comes back unseen, until a tick, a probe or its next switch-out
 * finds it running. The window and the registers of the switch-out are still there then.
 * Takes the interval of such a thread; 0: there is none.
 */
static __always_inline __u64 unseen_take(struct thread *t)
{
	__u64 out_ns = t ? interval_take(t) : 0;

	if (out_ns)
		count(WIRE_C_SWITCH_UNSEEN);
	return out_ns;
}

__noinline int thread_resume(struct thread *t)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 out_ns = unseen_take(t);

	if (t && out_ns)
		interval_end(task, t, out_ns, back_ns(task, t, out_ns), INTERVAL_PAST);
	return 0;
}

/* No record is sent: the time goes to the thread's next one, as that of a short wait. */
__noinline int thread_resume_clock(struct thread *t)
{
	__u64 out_ns = unseen_take(t);

	if (!t || !out_ns)
		return 0;
	wall_split(t, out_ns, back_ns(bpf_get_current_task_btf(), t, out_ns));
	interval_close(t);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool is_preempted, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	switch_out(prev, is_preempted, prev_state);
	switch_in(next);
	return 0;
}

/*
 * In an interrupt `current` is whoever was interrupted, and wakes nobody. One that comes in kernel
 * mode runs on a stack of its own, so the address of a local tells (the way through memory makes it
 * a number); one that comes in user mode finds a thread that is in no system call.
 */
static __always_inline bool in_interrupt(struct thread *t)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 local, base = (__u64)task->stack;

	*(volatile __u64 *)&t->waker_sp = (__u64)&local;
	if (*(volatile __u64 *)&t->waker_sp - base >= KERNEL_STACK_BYTES)
		return true;
	return task->mm && regs_syscall(task_regs(task)) < 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *task)
{
	struct thread *t = thread_of(task);
	__u64 waker;

	if (!t || !t->depth)
		return 0;
	waker = in_interrupt(t) ? 0 : bpf_get_current_pid_tgid();
	t->waker_tgid = waker >> 32;
	t->waker_tid = waker;
	barrier();
	t->wake_ns = bpf_ktime_get_ns();
	return 0;
}
