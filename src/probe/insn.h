/* SPDX-License-Identifier: Apache-2.0 */
/*
 * insn.h: what one x86-64 instruction means for a probe on it. The only user of Zydis. Pure; fuzzed.
 *
 * "Cheap" is what the kernel's uprobes emulate instead of single-stepping: push of a register, jmp,
 * jcc and call with a relative target, and nops (arch/x86/kernel/uprobes.c: branch_setup_xol_ops,
 * push_setup_xol_ops). "Refused" is what the kernel does not accept a probe on (is_prefix_bad,
 * good_insns_64).
 */
#ifndef SPANPROF_PROBE_INSN_H
#define SPANPROF_PROBE_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum insn_flow {
	INSN_PLAIN,         /* goes on with the next instruction */
	INSN_JCC,           /* relative, conditional */
	INSN_JMP,           /* relative */
	INSN_CALL,          /* relative */
	INSN_CALL_INDIRECT, /* through a register or memory */
	INSN_JMP_INDIRECT,
	INSN_RET,
	INSN_SYSCALL,
	INSN_STOP, /* traps, halts, and whatever else does not simply go on */
};

struct insn {
	uint8_t bytes;
	uint8_t flow; /* enum insn_flow */
	bool cheap;
	bool long_nop; /* a nop of more than one byte: cheap on newer kernels only */
	bool refused;  /* the kernel does not accept a probe here, or it would harm the program */
	bool nop5; /* refused for this only: Linux 6.18 makes a call of it, which writes below SP */
	bool push; /* pushes: SP goes down, but only after a probe has run */
	bool endbr;
	bool stores;       /* writes memory that is not addressed through RSP or RBP */
	bool stores_frame; /* writes memory that is */
	bool sp_known;     /* sp_delta is what the instruction does to RSP */
	bool sp_rises;     /* RSP changes by an unknown amount, upwards (leave) */
	int32_t sp_delta;
	uint32_t writes; /* bit i: enum wire_reg i, RSP and RIP left out */
	uint32_t reads;  /* the same; a register that is set to zero by xor or sub is not read */
	uint32_t sets;   /* of `writes`, those of which no old bit is left */
	int8_t copy_to;  /* enum wire_reg: all 64 bits of copy_from go here; -1: no such copy */
	int8_t copy_from;
	uint64_t
		target; /* JCC, JMP, CALL: absolute; JMP_INDIRECT, CALL_INDIRECT through [rip+d]: the slot */
	bool target_known;
	bool notrack;       /* JMP_INDIRECT: compilers mark jump tables so, with -fcf-protection */
	bool through_field; /* JMP_INDIRECT: through memory at a fixed place or a fixed offset */
};

/* 0, or -EINVAL when the bytes at code are no instruction (or it is cut off). */
int decode_insn(const uint8_t *code, size_t n, uint64_t vaddr, struct insn *ret);

/*
 * What a function of the form "return p ? p->field : 0" does: the offset and size (4 or 8) of the
 * field that it loads from its first argument into RAX; size 0: it returns the field's address.
 * False for anything else.
 */
bool insn_find_getter(const uint8_t *code, size_t n, int64_t *ret_offset, uint8_t *ret_size);

/* True when a call instruction ends exactly at code + n: some decoding backwards says so. */
bool insn_call_ends(const uint8_t *code, size_t n);

/* Text of the instruction in Intel's syntax, for people. buf is returned. */
const char *format_insn(const uint8_t *code, size_t n, uint64_t vaddr, char *buf, size_t buf_bytes);

#endif
