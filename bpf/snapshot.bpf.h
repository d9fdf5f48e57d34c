/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * snapshot.bpf.h: one snapshot record, from what its program knows to the ring.
 *
 * The window goes straight into the ring, once. A reservation has a constant size, so there is a
 * class for each of a few sizes, as each is the verifier's work, in each program, before a run is ready;
 * the record's header says how much of it is used.
 * Invariant: each due snapshot of a span takes a sequence number, sent or not.
 */
#ifndef SPANPROF_SNAPSHOT_BPF_H
#define SPANPROF_SNAPSHOT_BPF_H

#include "kernel.h"

#include "common.bpf.h"
#include "maps.bpf.h"
#include "returns.bpf.h"
#include "unstep.bpf.h"
#include "window.bpf.h"
#include "wire.h"

struct shot {
	__u64 mono_ns;
	__u64 out_ns;
	__u64 wake_ns;
	struct wire_wall wall;
	struct window window;
	__u32 mask; /* slots of the spans that it belongs to */
	__u32 kind; /* enum wire_snapshot_kind */
	__u32 flags;
	__u32 waker_tgid;
	__u32 waker_tid;
	__u32 prev_state;
	__s32 syscall_nr;
	__u32 kernel_frames;
	__u32 pad;
};

/* Classes of those whose window has pages that cannot be read: few, as each makes the verifier's work. */
#define SHOT_HOLES_SMALL 16384
#define SHOT_HOLES_LARGE WIRE_WINDOW_MAX

#define SHOT_FIXED (sizeof(struct wire_snapshot) + WIRE_KSTACK_MAX * sizeof(__u64))
#define SHOT_CLASS(n)                                                           \
	do {                                                                    \
		if (bytes <= (n)) {                                             \
			*ret_room = (n);                                        \
			return bpf_ringbuf_reserve(&ring, SHOT_FIXED + (n), 0); \
		}                                                               \
	} while (0)

static __always_inline struct wire_snapshot *shot_reserve(__u32 bytes, __u32 *ret_room)
{
	SHOT_CLASS(1024);
	SHOT_CLASS(2048);
	SHOT_CLASS(4096);
	SHOT_CLASS(8192);
	SHOT_CLASS(16384);
	SHOT_CLASS(32768);
	SHOT_CLASS(WIRE_WINDOW_MAX);
	return NULL;
}

/* All of a record but registers, kernel frames and window; a global function of life.bpf.c. */
int shot_seal(struct thread *t, struct shot *shot, struct wire_snapshot *rec);

/*
 * Where the parts come from. Window and registers: those of the switch-out when is_stored, else the current
 * thread's.
 * The kernel's frames: the program's context, or the task. All but the pointers are constants.
 */
struct shot_source {
	struct task_struct *task;
	__u64 stored; /* address of a window and its bytes; 0: there is none */
	void *stack_ctx;
	bool is_stored;
	bool task_stack;
	bool may_change; /* the thread may run meanwhile: then its out_ns changes */
};

/* Return addresses of the kernel's stack, leaf first; their number. */
static __always_inline __u32 shot_kernel(const struct shot_source *from, __u64 *to)
{
	long r = 0;

	if (!knob_kernel_stacks)
		return 0;
	if (from->stack_ctx)
		r = bpf_get_stack(from->stack_ctx, to, WIRE_KSTACK_MAX * sizeof(__u64), 0);
	else if (from->task_stack)
		r = bpf_get_task_stack(from->task, to, WIRE_KSTACK_MAX * sizeof(__u64), 0);
	return r > 0 ? (__u32)r / sizeof(__u64) : 0;
}

/* Copies the window in one go; false when some of it cannot be read. */
static __always_inline bool shot_window(const struct shot_source *from, struct window *w, __u8 *to,
					__u32 room)
{
	__u32 bytes = w->bytes;

	opaque(bytes);
	if (bytes > room)
		bytes = room;
	if (!bytes)
		return true;
	if (!from->is_stored)
		return !bpf_probe_read_user(to, bytes, (void *)w->start);
	if (from->stored &&
	    bpf_probe_read_kernel(to, bytes, (void *)(from->stored + sizeof(struct window))))
		window_drop(w);
	return true;
}

/* The same, page by page. */
static __always_inline void shot_window_holes(struct window *w, __u8 *to, __u32 room)
{
	__u32 bytes = w->bytes;

	opaque(bytes);
	if (bytes > room)
		bytes = room;
	if (bytes)
		window_read_holes(w, to, bytes, room);
}

/* Fills and sends a reserved record; false when the window needs shot_window_holes: it is discarded. */
static __always_inline bool shot_finish(struct thread *t, struct shot *shot,
					const struct shot_source *from, struct wire_snapshot *rec,
					__u32 room, bool holes)
{
	struct window *w = &shot->window;
	__u32 frames;
	__u8 *to;

	frames = shot_kernel(from, (__u64 *)(rec + 1));
	opaque(frames);
	if (frames > WIRE_KSTACK_MAX)
		frames = WIRE_KSTACK_MAX;
	to = (__u8 *)(rec + 1) + frames * sizeof(__u64);
	if (holes) {
		shot_window_holes(w, to, room);
	} else if (!shot_window(from, w, to, room)) {
		bpf_ringbuf_discard(rec, BPF_RB_NO_WAKEUP);
		return false;
	}
	/* With holes they stay as they are: it is rare, and the verifier would read all of it twice. */
	if (!from->is_stored && !holes)
		returns_restore(w, to, room);
	if (from->may_change && *(volatile __u64 *)&t->out_ns != shot->out_ns) {
		bpf_ringbuf_discard(rec, BPF_RB_NO_WAKEUP);
		return true;
	}
	if (from->is_stored) {
		rec->regs = t->out_regs;
	} else {
		const struct pt_regs *regs = task_regs(from->task);

		regs_copy(rec->regs.r, regs);
		regs_unstep(from->task, rec->regs.r);
	}
	shot->kernel_frames = frames;
	shot_seal(t, shot, rec);
	ring_submit(rec, false);
	return true;
}

static __always_inline struct wire_snapshot *shot_reserve_holes(__u32 bytes, __u32 *ret_room)
{
	SHOT_CLASS(SHOT_HOLES_SMALL);
	SHOT_CLASS(SHOT_HOLES_LARGE);
	return NULL;
}

static __always_inline void shot_send(struct thread *t, struct shot *shot,
				      const struct shot_source *from)
{
	struct wire_snapshot *rec;
	__u32 room = 0;

	rec = shot_reserve(shot->window.bytes, &room);
	if (rec && shot_finish(t, shot, from, rec, room, false))
		return;
	if (rec && !from->is_stored)
		rec = shot_reserve_holes(shot->window.bytes, &room);
	else
		rec = NULL;
	if (rec)
		shot_finish(t, shot, from, rec, room, true);
	else
		spans_lost(t, shot->mask);
}

/* Its window. Read as a number: the verifier would read all that follows for each map that it may be in. */
static __always_inline void blocked_window(struct task_struct *task, const struct thread *t,
					   struct shot *shot, struct shot_source *from)
{
	bool is_large = t->window == THREAD_WINDOW_LARGE || t->spare;
	struct window *w;
	__u32 room;

	if (is_large && knob_max_window > WINDOW_MIDDLE)
		w = (struct window *)window_large(task, t);
	else
		w = window_storage(task, 0, &room);
	if (w)
		shot->window = *w;
	bpf_probe_read_kernel(&from->stored, sizeof(from->stored), &w);
	/* Empty without a reason: no span was to be profiled yet when it was switched out. */
	if (!w || shot->window.bytes > knob_max_window ||
	    !(shot->window.bytes | shot->window.flags))
		window_drop(&shot->window);
}

/* What a switch-out has left behind of a thread, for its snapshot. */
static __always_inline void blocked_shot(struct task_struct *task, struct thread *t,
					 struct shot *shot, struct shot_source *from)
{
	blocked_window(task, t, shot, from);
	if (t->is_preempted)
		shot->flags |= WIRE_SNAP_F_PREEMPTED;
	if (t->is_iowait)
		shot->flags |= WIRE_SNAP_F_IOWAIT;
	shot->prev_state = t->prev_state;
	shot->syscall_nr = t->out_syscall;
	from->task = task;
	from->is_stored = true;
	from->task_stack = true;
}

#endif
