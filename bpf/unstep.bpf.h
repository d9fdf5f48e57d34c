/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * unstep.bpf.h: a thread that is at the kernel's copy of a probed instruction.
 *
 * What the kernel cannot emulate it lets the thread run in a copy, in a page of its own. A thread that
 * is preempted there, before the instruction or after it, has a PC in no file: the place of the
 * original says where it is, and how its stack is walked.
 */
#ifndef SPANPROF_UNSTEP_BPF_H
#define SPANPROF_UNSTEP_BPF_H

#include "kernel.h"

#include "common.bpf.h"
#include "wire.h"

/* The page is as high as possible; what is below this is code or data of the program. */
#define UNSTEP_LOW 0x7fffff000000ULL
#define UNSTEP_MAX 15 /* bytes of an instruction */

/* Not inlined: it is rare, and its stack would be its callers'. */
static __noinline int regs_unstep_there(struct task_struct *task, __u64 *r)
{
	struct uprobe_task *utask;
	__u64 into;

	if (!bpf_core_field_exists(struct task_struct, utask) ||
	    !bpf_core_field_exists(struct uprobe_task, xol_vaddr))
		return 0;
	utask = BPF_CORE_READ(task, utask);
	if (!utask)
		return 0;
	into = r[WIRE_REG_RIP] - BPF_CORE_READ(utask, xol_vaddr);
	if (into <= UNSTEP_MAX)
		r[WIRE_REG_RIP] = BPF_CORE_READ(utask, vaddr) + into;
	return 0;
}

/* Puts the place of the original into the registers. */
static __always_inline void regs_unstep(struct task_struct *task, __u64 *r)
{
	if (r[WIRE_REG_RIP] >= UNSTEP_LOW)
		regs_unstep_there(task, r);
}

#endif
