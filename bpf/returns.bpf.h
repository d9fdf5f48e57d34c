/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * returns.bpf.h: the true return addresses of calls that a uretprobe, of whatever program, waits for.
 *
 * A uretprobe puts the address of the kernel's trampoline where a call's return address was. The thread
 * keeps a list of what was there, innermost call first. Calls that were left by a jump stay in it for a
 * while: they tell by their place, where the trampoline's address is no more.
 */
#ifndef SPANPROF_RETURNS_BPF_H
#define SPANPROF_RETURNS_BPF_H

#include "kernel.h"

#include "common.bpf.h"
#include "maps.bpf.h"
#include "unstep.bpf.h"

/* The kernel lets no more calls of a thread wait (MAX_URETPROBE_DEPTH). */
#define RETURNS_MAX 64

/* A walk through the calls of the current thread that have their return addresses in a window. */
struct returns {
	__u64 start; /* of the window */
	__u64 bytes;
	__u64 trampoline;
	__u64 next; /* struct return_instance; 0: the end */
	__u64 address;
};

/* With the copy that is mended: no global function may see the pointer, or the verifier forgets it. */
struct returns_copy {
	struct returns r;
	__u8 *to;
	__u64 room;
};

/* The list of a thread, its innermost call first; 0: there is none, which costs next to nothing. */
static __always_inline __u64 returns_pending(const struct task_struct *task)
{
	if (!bpf_core_field_exists(struct task_struct, utask) ||
	    !bpf_core_field_exists(struct uprobe_task, return_instances) ||
	    !bpf_core_field_exists(struct return_instance, orig_ret_vaddr))
		return 0;
	return task->utask ? (__u64)task->utask->return_instances : 0;
}

/* Global functions of returns.bpf.c. */

/* Begins with the innermost call of the current thread; 0: none waits. */
int returns_begin(struct returns *r);
/* Goes on to the next one, with its true return address; its offset in the window, ~0: it is not there. */
__u64 returns_next(struct returns *r);
/* The true return address of the call whose slot has `found`. */
__u64 returns_find(__u64 slot, __u64 found);

static long returns_step(__u32 i, struct returns_copy *c)
{
	__u64 off = returns_next(&c->r);

	opaque(off);
	if (off <= c->room - sizeof(__u64))
		*(__u64 *)(c->to + off) = c->r.address;
	return !c->r.next;
}

/*
 * Puts the true return addresses into the copied window of the current thread; `to` has `room` bytes, at
 * least 8. By bpf_loop: the verifier would walk a loop anew for each size of a record. Not inlined, so that
 * its stack is not needed by what else its caller calls.
 */
static __noinline __attribute__((unused)) int returns_restore(const struct window *w, __u8 *to,
							      __u32 room)
{
	struct returns_copy c = {
		.r = {.start = w->start, .bytes = w->bytes}, .to = to, .room = room};

	if (returns_begin(&c.r))
		bpf_loop(RETURNS_MAX, returns_step, &c, 0);
	return 0;
}

/* As returns_find; most return addresses cannot be the trampoline's. */
static __always_inline __u64 returns_true(__u64 slot, __u64 found)
{
	return found < UNSTEP_LOW ? found : returns_find(slot, found);
}

#endif
