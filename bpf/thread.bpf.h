/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * thread.bpf.h: what is remembered of one thread: its open spans and its wall clock.
 *
 * A tick or a switch can interrupt a program of the same thread at any point, and the walk of stuck
 * threads runs on another CPU. So a slot is filled before depth covers it, a span's state changes
 * only by compare-and-swap on its tag, and closed spans may leave holes below depth. The wall clock of a
 * thread that is back on a CPU is moved by who has swapped OUT_ENDING into out_ns; what interrupts that
 * leaves the clock alone.
 * Invariant of the wall clock: wall + (now - wall_ns), the latter on CPU, adds up to the time since
 * the clock was started, whatever events were missed.
 */
#ifndef SPANPROF_THREAD_BPF_H
#define SPANPROF_THREAD_BPF_H

#include "kernel.h"

#include "wire.h"

#define NEVER (~0ULL)

/* A return site is less than this many bytes past the return address that it belongs to. */
#define RETURN_SPREAD 256

/* States of a span, the low byte of its tag; the rest of the tag is the thread's push count. */
enum span_state {
	SPAN_FREE,
	SPAN_PENDING,
	SPAN_PROMOTING, /* claimed by the program that sends WIRE_K_PROMOTED */
	SPAN_PROFILING,
	SPAN_SKIPPED, /* slow, but not to be profiled */
};
#define SPAN_STATE(tag)      ((tag)&0xff)
#define SPAN_TAG(tag, state) (((tag) & ~0xffULL) | (state))

enum span_flag {
	SPAN_F_BY_END = 1 << 0,         /* ends by an end probe: SP says nothing about it */
	SPAN_F_SITE_UNKNOWN = 1 << 1,   /* its return site had no leave probe at entry */
	SPAN_F_PROMOTE_FAILED = 1 << 2, /* the ring was full */
	SPAN_F_REPORT_SLOW = 1 << 3,
	SPAN_F_NAME_AT_LEAVE = 1 << 4,
	SPAN_F_URET = 1 << 5, /* a uretprobe replaces its return address */
};

struct span {
	__u64 tag;
	__u64 start_ns;
	__u64 entry_sp;
	__u64 ret_addr;
	__u64 entry_ip;
	struct wire_wall start;
	__u64 sample_after_ns; /* of the gate; NEVER: nothing to be profiled */
	__u64 threshold_ns;
	__u64 period_ns;
	__u64 next_due_ns; /* on the thread's clock of on-CPU time */
	__u64 span_id;
	__u32 ep_id;
	__u32 gate_gen; /* gates_gen at which the gate's values above were read */
	__u32 epoch;    /* of the gate's counts that it is counted in */
	__u32 flags;
	__u32 n_due;
	__u32 n_lost;
};

struct span_name {
	__u64 kept[WIRE_VALS_MAX];
	__u32 bytes;
	__u32 pad;
	__u8 data[WIRE_NAME_MAX];
};

/* The expression machine; used by function probes only, which do not nest on a thread. */
struct machine {
	__u64 a;
	__u64 t[4];
	__u64 r[WIRE_REG_MAX];
	__u64 entry_ip;
	__u32 slot;  /* that the captures go to; WIRE_NAMED_MAX: they go nowhere */
	__u32 drop;  /* a condition did not hold */
	__u32 fault; /* A could not be read */
	__u32 skip;  /* operations to pass over */
};

/* In out_ns: the interval is being ended. What interrupts that leaves the thread's clock alone. */
#define OUT_ENDING 1

/* The storage for a thread's window: see maps.bpf.h. */
enum thread_window {
	THREAD_WINDOW_FIRST,
	THREAD_WINDOW_TOO_SMALL, /* the next enter makes the large one */
	THREAD_WINDOW_LARGE,
};

struct thread {
	__u32 depth; /* spans[] below it may be open */
	__u32 tid;
	__u32 tgid;
	__u32 is_member;
	__u32 member_gen; /* members_gen at which the membership was read */
	__u32 instance_id;
	__u32 as_id;
	__u32 wall_seq; /* counts the ends of intervals off CPU */
	__u64 open_eps; /* bit ep_id: a span of it may be open */
	__u64 seen_eps; /* bit ep_id: it was called; only with knob_count_threads */
	__u64 own_eps;  /* of struct wire_member */
	__u64 n_pushed;

	struct wire_wall wall;
	__u64 wall_ns;
	__u64 out_ns;    /* off CPU since, or OUT_ENDING; 0: running, or not looked at */
	__u64 out_clock; /* the scheduler's clock then; 0: not known */
	__u64 wake_ns;
	__u64 waited_ns; /* off CPU since the last off-CPU record */
	__u64 stuck_ns;  /* when the last stuck snapshot was sent */
	__u64 stuck_out_ns;
	__u32 out_gen; /* sched_gen of out_ns */
	__u32 prev_state;
	__u32 is_preempted;
	__u32 is_iowait;
	__u32 waker_tgid;
	__u32 waker_tid;

	__u32 window; /* enum thread_window */
	__u32 spare;  /* 1 + the index in windows_spare of what it borrows; 0: nothing */
	__s32 out_syscall;
	__u32 pad;
	struct wire_regs out_regs; /* of user space, at out_ns */
	__u64 waker_sp;

	__u64 known_ret; /* a return site that has its leave probe */
	__u64 reported_ret;
	__u64 reported_ns;
	__u32 gate_gen; /* the values of gate_ep's gate, read at gates_gen */
	__u32 gate_ep;
	__u64 gate_after_ns;
	__u64 gate_threshold_ns;

	char comm[WIRE_COMM_MAX];
	struct span spans[WIRE_SPANS_MAX];
	struct span_name names[WIRE_NAMED_MAX];
	struct machine machine;
	/* The verifier knows the bounds of a field's offset and size, not that of their sum. */
	__u8 slack[WIRE_NAME_MAX - sizeof(struct machine)];
};
_Static_assert(sizeof(struct thread) <= 8192 - 128, "threads are allocated from the 8 KiB slab");

/* Reads the clock and the thread's wall time at that instant; of a running thread, by itself. */
static __always_inline __u64 wall_now(struct thread *t, struct wire_wall *ret)
{
	__u64 now = 0;

	/* A switch in the middle moves wall_ns past `now`: then once more. */
	for (int i = 0; i < 3; i++) {
		__u32 seq = *(volatile __u32 *)&t->wall_seq;

		now = bpf_ktime_get_ns();
		*ret = t->wall;
		ret->oncpu_ns += now - t->wall_ns;
		barrier();
		if (seq == *(volatile __u32 *)&t->wall_seq)
			break;
	}
	return now;
}

/* Read anew each time: it may change under a loop, and the verifier need not remember it. */
static __always_inline __u32 thread_depth(const struct thread *t)
{
	return *(volatile __u32 *)&t->depth;
}

/* The slots below depth, from the innermost one out; the mask is for the verifier. */
#define for_each_slot(i, t)                                     \
	for (__u32 n_ = 0, top_ = thread_depth(t), i;           \
	     n_ < WIRE_SPANS_MAX && n_ < top_ &&                \
	     ((i = (top_ - 1 - n_) & (WIRE_SPANS_MAX - 1)), 1); \
	     n_++)

static __always_inline bool span_open(const struct span *s)
{
	return SPAN_STATE(*(volatile __u64 *)&s->tag) != SPAN_FREE;
}

/*
 * Snapshots are due by the thread's own on-CPU time, from a random first one on: then the number of them
 * that meets a piece of code follows from its CPU time, in however many bursts that is. What is due waits
 * for a tick, an eighth of a period and, in short bursts, now and then a quarter. So it is due that much
 * before the period is over: the period is the longest time between two snapshots, not the mean.
 */
static __always_inline void span_next_due(struct span *s, __u64 oncpu_ns)
{
	s->next_due_ns = oncpu_ns + s->period_ns - s->period_ns / 16 * 5;
}

/* SP at or below the frame of the span, near enough to be on the same stack. */
static __always_inline bool span_covers(const struct span *s, __u64 sp)
{
	return sp <= s->entry_sp + 8 && s->entry_sp - sp + 8 < WIRE_STACK_SPREAD;
}

/* SP above the frame that the begin function had: the function that called it has been left, too. */
static __always_inline bool span_left(const struct span *s, __u64 sp)
{
	return (s->flags & SPAN_F_BY_END) && sp > s->entry_sp + 8 &&
	       sp - s->entry_sp < WIRE_STACK_SPREAD;
}

#endif
