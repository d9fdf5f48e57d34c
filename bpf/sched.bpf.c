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
#include "snapshot.bpf.h"
#include "wire.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* A wake-up that was seen this long before the switch-out belongs to it: the two race. */
#define WAKE_RACE_NS 1000000

/* Size of a thread's kernel stack, or less where it is larger. */
#define KERNEL_STACK_BYTES 16384

/* Copies the window of a thread that leaves. Its next enter makes more room if that is too small. */
static __always_inline void window_save(struct task_struct *prev, struct thread *t, __u64 sp)
{
	__u32 bytes, room;
	struct window *w = window_storage(prev, t, 0, &room);

	if (!w)
		return;
	window_extent(t, sp, room, w);
	bytes = w->bytes;
	if (bytes) {
		opaque(bytes); /* clang 19 makes one comparison of two, which Linux 6.12 does not see through */
		if (bytes <= room)
			window_read(w, (__u8 *)(w + 1), bytes, room);
	}
	if ((w->flags & WIRE_SNAP_F_TRUNCATED) && room < knob_max_window) {
		t->window = THREAD_WINDOW_TOO_SMALL;
		t->member_gen = 0;
	}
}

/* NULL for nearly all threads, for which no helper is called. */
static __always_inline struct thread *thread_of(struct task_struct *task)
{
	return task->bpf_storage ? bpf_task_storage_get(&threads, task, 0, 0) : NULL;
}

static __always_inline void switch_out(struct task_struct *prev, bool is_preempted, __u32 state)
{
	struct thread *t = thread_of(prev);
	__u64 now, sp;

	if (!t || !t->depth)
		return;
	thread_resume(t);
	now = bpf_ktime_get_ns();
	t->wall.oncpu_ns += now - t->wall_ns;
	t->wall_ns = now;
	sp = task_regs(prev)->sp;
	spans_check(t, sp, task_regs(prev)->ip);
	if (!t->depth)
		return;
	t->prev_state = state & 0xff;
	t->is_preempted = is_preempted || !t->prev_state;
	t->is_iowait = BPF_CORE_READ_BITFIELD(prev, in_iowait);
	window_save(prev, t, sp);
	t->out_gen = sched_gen;
	t->out_ns = now;
	waiting_add(1);
}

/* Divides the time off CPU into blocked and waiting for a CPU; true when the wake-up is known. */
static __always_inline bool wall_split(struct thread *t, __u64 now)
{
	__u64 out = t->wall_ns, wake = t->wake_ns;
	__u64 all = now - out;

	if (t->is_preempted) {
		t->wall.runq_ns += all;
		return false;
	}
	if (wake > now)
		wake = now;
	if (wake >= out) {
		t->wall.blocked_ns += wake - out;
		t->wall.runq_ns += now - wake;
		return true;
	}
	if (wake && out - wake < WAKE_RACE_NS) {
		t->wake_ns = out;
		t->wall.runq_ns += all;
		return true;
	}
	t->wall.blocked_ns += all;
	count(WIRE_C_WAKE_UNSEEN);
	return false;
}

static __always_inline void switch_in(struct task_struct *next)
{
	struct thread *t = thread_of(next);
	struct shot_source from = {};
	struct shot shot = {};
	struct wire_wall before;
	bool is_woken;

	if (!t || !t->depth || !t->out_ns)
		return;
	shot.out_ns = t->out_ns;
	t->out_ns = 0;
	if (t->out_gen != sched_gen)
		return;
	waiting_add(-1);
	shot.mono_ns = bpf_ktime_get_ns();
	before = t->wall;
	is_woken = wall_split(t, shot.mono_ns);
	t->wall_ns = shot.mono_ns;
	t->wall_seq++;
	shot.mask = spans_review(t, shot.mono_ns, shot.out_ns, &before);
	if (!shot.mask)
		return;
	t->waited_ns += shot.mono_ns - shot.out_ns;
	if (t->waited_ns < spans_period(t, shot.mask) / 8) {
		count(WIRE_C_SHORT_WAIT);
		return;
	}
	t->waited_ns = 0;
	shot.kind = WIRE_SNAP_OFFCPU;
	shot.wall = t->wall;
	if (is_woken) {
		shot.wake_ns = t->wake_ns;
		shot.waker_tgid = t->waker_tgid;
		shot.waker_tid = t->waker_tid;
		if (shot.waker_tid)
			shot.flags |= WIRE_SNAP_F_WAKER;
	}
	blocked_shot(next, t, &shot, &from);
	shot_send(t, &shot, &from);
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
