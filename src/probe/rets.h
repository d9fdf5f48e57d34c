/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rets.h: the instructions by which a function is left: its returns, and the jumps that end it by
 * going to another function.
 *
 * The code of the function and of its cold part is decoded from one end to the other. At each place
 * found, before the instruction, SP is where it was at the function's first byte. What could be such
 * a place and could be something else makes the whole answer a refusal, never a guess.
 */
#ifndef SPANPROF_PROBE_RETS_H
#define SPANPROF_PROBE_RETS_H

#include <stddef.h>
#include <stdint.h>

#include "probe/binary.h"

enum { RETS_MAX = 64 };

struct rets {
	uint64_t at[RETS_MAX]; /* ELF addresses */
	size_t n;
	uint64_t trouble; /* where the reason for a refusal is */
};

enum rets_result {
	RETS_OK,
	RETS_E_SIZE = 1, /* its size is unknown, or it is larger than is decoded */
	RETS_E_DECODE,   /* bytes are no instructions */
	RETS_E_INDIRECT, /* a jump through a register may be a jump table or leave the function */
	RETS_E_CONDITIONAL, /* a conditional jump leaves the function */
	RETS_E_MANY,
	RETS_E_NONE,    /* it never returns */
	RETS_E_REFUSED, /* the kernel accepts no probe on one of them */
	RETS_E_MAX
};

/* enum rets_result, or -ENOMEM. bytes: of the function, 0 when they are not known. */
int find_rets(struct binary *b, uint64_t vaddr, uint64_t bytes, struct rets *ret);

/* Completes "its returns cannot be probed: ...". */
const char *rets_reason(enum rets_result r);

#endif
