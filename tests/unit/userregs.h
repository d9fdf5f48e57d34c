/* SPDX-License-Identifier: Apache-2.0 */
/* userregs.h: the registers that ptrace reads, as the unwinder takes them. */
#ifndef SPANPROF_TESTS_UNIT_USERREGS_H
#define SPANPROF_TESTS_UNIT_USERREGS_H

#include <stdbool.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/user.h>

#include "bpf/wire.h"

/* Of a thread that is stopped and traced; false when they cannot be read. */
static inline bool userregs_read(pid_t tid, struct wire_regs *ret)
{
	struct user_regs_struct u;

	if (ptrace(PTRACE_GETREGS, tid, NULL, &u))
		return false;
	*ret = (struct wire_regs){.r = {
					  [WIRE_REG_RAX] = u.rax,
					  [WIRE_REG_RDX] = u.rdx,
					  [WIRE_REG_RCX] = u.rcx,
					  [WIRE_REG_RBX] = u.rbx,
					  [WIRE_REG_RSI] = u.rsi,
					  [WIRE_REG_RDI] = u.rdi,
					  [WIRE_REG_RBP] = u.rbp,
					  [WIRE_REG_RSP] = u.rsp,
					  [WIRE_REG_R8] = u.r8,
					  [WIRE_REG_R9] = u.r9,
					  [WIRE_REG_R10] = u.r10,
					  [WIRE_REG_R11] = u.r11,
					  [WIRE_REG_R12] = u.r12,
					  [WIRE_REG_R13] = u.r13,
					  [WIRE_REG_R14] = u.r14,
					  [WIRE_REG_R15] = u.r15,
					  [WIRE_REG_RIP] = u.rip,
				  }};
	return true;
}

#endif
