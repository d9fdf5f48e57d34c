/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arch.h: the facts of the one architecture that spanprof is for, x86-64 (System V psABI). What a
 * port needs besides is listed in docs/design.md, "Architecture".
 */
#ifndef SPANPROF_BASE_ARCH_H
#define SPANPROF_BASE_ARCH_H

#include <elf.h>

#include "bpf/wire.h"

#define ARCH_NAME "x86-64"

enum {
	ARCH_ELF_MACHINE = EM_X86_64,
	ARCH_SP = WIRE_REG_RSP, /* stack pointer */
	ARCH_FP = WIRE_REG_RBP, /* frame pointer, where code keeps one */
	ARCH_PC = WIRE_REG_RIP, /* the return address's column in call frame rules */
	ARCH_RETURN_BYTES = 8,  /* of the return address that a call pushes */
	ARCH_FRAME_BYTES = 16, /* saved frame pointer and return address, above the frame pointer */
	/* Relocations of the dynamic linker's table that a PLT entry jumps through. */
	ARCH_R_JUMP_SLOT = R_X86_64_JUMP_SLOT,
	ARCH_R_GLOB_DAT = R_X86_64_GLOB_DAT,
};

/* What a function may begin with where indirect branches are checked (endbr64). */
#define ARCH_LANDING_PAD               \
	{                              \
		0xf3, 0x0f, 0x1e, 0xfa \
	}

/* The usual name of an ELF machine (e_machine), such as "aarch64"; "unknown" for rare ones. */
const char *arch_machine_name(unsigned int elf_machine);

#endif
