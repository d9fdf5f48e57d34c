/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * window.bpf.h: registers, and which bytes of the user stack a snapshot needs; the copy of them at
 * a switch-out.
 *
 * Knows nothing of records. Invariant: a window starts WIRE_REDZONE bytes below SP and is a
 * multiple of 8 bytes, or is empty with a flag that says why.
 */
#ifndef SPANPROF_WINDOW_BPF_H
#define SPANPROF_WINDOW_BPF_H

#include "kernel.h"

#include "common.bpf.h"
#include "maps.bpf.h"
#include "wire.h"

/* A macro, because a program's context and a task's registers are different kinds of pointers. */
#define regs_copy(to, from)                       \
	do {                                      \
		(to)[WIRE_REG_RAX] = (from)->ax;  \
		(to)[WIRE_REG_RDX] = (from)->dx;  \
		(to)[WIRE_REG_RCX] = (from)->cx;  \
		(to)[WIRE_REG_RBX] = (from)->bx;  \
		(to)[WIRE_REG_RSI] = (from)->si;  \
		(to)[WIRE_REG_RDI] = (from)->di;  \
		(to)[WIRE_REG_RBP] = (from)->bp;  \
		(to)[WIRE_REG_RSP] = (from)->sp;  \
		(to)[WIRE_REG_R8] = (from)->r8;   \
		(to)[WIRE_REG_R9] = (from)->r9;   \
		(to)[WIRE_REG_R10] = (from)->r10; \
		(to)[WIRE_REG_R11] = (from)->r11; \
		(to)[WIRE_REG_R12] = (from)->r12; \
		(to)[WIRE_REG_R13] = (from)->r13; \
		(to)[WIRE_REG_R14] = (from)->r14; \
		(to)[WIRE_REG_R15] = (from)->r15; \
		(to)[WIRE_REG_RIP] = (from)->ip;  \
	} while (0)

static __always_inline struct pt_regs *task_regs(struct task_struct *task)
{
	return (struct pt_regs *)bpf_task_pt_regs(task);
}

/* The system call that the thread is in, -1: none. Exceptions and interrupts leave -1 there. */
static __always_inline __s32 regs_syscall(const struct pt_regs *regs)
{
	if ((regs->cs & 3) != 3)
		return -1;
	return (__s64)regs->orig_ax >= 0 ? (__s32)regs->orig_ax : -1;
}

/* The extent of the window at sp for the spans that may be profiled; at most `limit` bytes. */
int window_extent(struct thread *t, __u64 sp, __u32 limit, struct window *ret);

/*
 * Reads the last n bytes, less than a page, of a window; true when they cannot be had. The verifier
 * does not know that a variable offset and a variable size add up to the window's end. So the size
 * is read as the powers of two that it consists of, each with the one check that it understands.
 */
static __always_inline bool window_read_tail(__u8 *to, __u32 bytes, __u64 start, __u32 room,
					     __u32 n)
{
	for (__u32 bit = WIRE_PAGE / 2; bit; bit /= 2) {
		__u32 off = bytes - (n & (2 * bit - 1));

		if (!(n & bit))
			continue;
		opaque(off);
		if (room < bit || off > room - bit)
			break;
		if (bpf_probe_read_user(to + off, bit, (void *)(start + off)))
			return true;
	}
	return false;
}

/* Reads what there is, page by page; the mask of those that are not. */
static __always_inline __u32 window_read_pages(__u8 *to, __u32 bytes, __u64 start, __u32 room)
{
	__u32 skew = start & (WIRE_PAGE - 1), n = WIRE_PAGE - skew, off = n, holes;

	opaque(n);
	if (n > bytes)
		n = bytes;
	if (n > room)
		return 1;
	holes = (__u64)bpf_probe_read_user(to, n, (void *)start) >> 63;
	for (__u32 i = 1; i <= WIRE_WINDOW_MAX / WIRE_PAGE; i++) {
		off = i * WIRE_PAGE - skew;
		if (off >= bytes)
			break;
		if (bytes - off < WIRE_PAGE) {
			n = bytes - off;
			opaque(n);
			holes |= (__u32)window_read_tail(to, bytes, start, room, n) << i;
			break;
		}
		opaque(off);
		if (room < WIRE_PAGE || off > room - WIRE_PAGE)
			break;
		holes |= (__u32)((__u64)bpf_probe_read_user(to + off, WIRE_PAGE,
							    (void *)(start + off)) >>
				 63)
			 << i;
	}
	return holes;
}

static __always_inline void window_drop(struct window *w)
{
	w->bytes = 0;
	w->holes = 0;
	w->flags |= WIRE_SNAP_F_FAULT;
}

/*
 * Reads what there is of the window of the current thread. `to` has room for `room` bytes, a constant,
 * which are not fewer than w->bytes.
 */
static __always_inline void window_read_holes(struct window *w, __u8 *to, __u32 bytes, __u32 room)
{
	__u64 start = w->start;
	__u32 all;

	w->holes = window_read_pages(to, bytes, start, room);
	all = ((start & (WIRE_PAGE - 1)) + bytes + WIRE_PAGE - 1) / WIRE_PAGE;
	if (w->holes + 1 == 1U << (all & 31))
		window_drop(w);
}

/* The same, in one go if it can be. */
static __always_inline void window_read(struct window *w, __u8 *to, __u32 bytes, __u32 room)
{
	if (bpf_probe_read_user(to, bytes, (void *)w->start))
		window_read_holes(w, to, bytes, room);
}

/* Reads the window of the current thread that v->head says, and mends its return addresses; life.bpf.c. */
int window_read_large(struct windows_large_value *v);

/*
 * The storage for the window of a thread that has not the large one, made when flags say so, and the bytes
 * of a window that it takes. Branches for maps that do not exist are gone after the load; the empty asm
 * keeps the compiler from loading the address of such a map before the branch.
 */
static __always_inline struct window *window_storage(struct task_struct *task, __u64 flags,
						     __u32 *ret_room)
{
	*ret_room = knob_max_window;
	if (!knob_max_window)
		return NULL;
	if (knob_max_window <= WINDOW_SMALL) {
		asm volatile("" ::: "memory");
		return bpf_task_storage_get(&windows_small, task, 0, flags);
	}
	if (knob_max_window > WINDOW_MIDDLE)
		*ret_room = WINDOW_MIDDLE;
	return bpf_task_storage_get(&windows_middle, task, 0, flags);
}

/* That of a thread which borrows one, or has the large one. */
static __always_inline struct windows_large_value *window_large(struct task_struct *task,
								const struct thread *t)
{
	__u32 spare = t->spare - 1;

	if (knob_max_window <= WINDOW_MIDDLE)
		return NULL;
	asm volatile("" ::: "memory");
	if (!t->spare)
		return bpf_task_storage_get(&windows_large, task, 0, 0);
	return bpf_map_lookup_elem(&windows_spare, &spare);
}

/* The position of the only bit that is set, below 16; without branches. */
static __always_inline __u32 bit_position(__u32 bit)
{
	__u32 v = bit - 1;

	v -= (v >> 1) & 0x5555;
	v = (v & 0x3333) + ((v >> 2) & 0x3333);
	v = (v + (v >> 4)) & 0x0f0f;
	return (v + (v >> 8)) & 0x1f;
}

/* Borrows a large window for the current thread; false: all are taken. */
static __always_inline bool window_borrow(struct thread *t)
{
	for (int i = 0; i < 3; i++) {
		__u32 taken = *(volatile __u32 *)&spare_taken;
		__u32 bit = ~taken & (taken + 1);

		if (taken == (1U << WINDOWS_SPARE) - 1)
			return false;
		if (__sync_val_compare_and_swap(&spare_taken, taken, taken | bit) == taken) {
			t->spare = 1 + bit_position(bit);
			return true;
		}
	}
	return false;
}

/* Gives it back; nobody wants the thread's last window any more. */
static __always_inline void window_return(struct thread *t)
{
	__u32 spare = t->spare;

	if (!spare)
		return;
	t->spare = 0;
	if (t->out_gen == sched_gen)
		__sync_fetch_and_and(&spare_taken, ~(1U << ((spare - 1) & 31)));
}

/* Changes the storage of the current thread for the large one. Without memory it stays as it is. */
static __always_inline void window_enlarge(struct task_struct *task, struct thread *t)
{
	if (knob_max_window > WINDOW_MIDDLE) {
		asm volatile("" ::: "memory");
		if (!bpf_task_storage_get(&windows_large, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE))
			return;
		*(volatile __u32 *)&t->window = THREAD_WINDOW_LARGE;
		barrier();
		bpf_task_storage_delete(&windows_middle, task);
	}
}

#endif
