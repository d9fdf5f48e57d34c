/* SPDX-License-Identifier: Apache-2.0 */
/*
 * callers.h: the direct callers of a function in one module, found in its code ahead of time.
 *
 * Code is searched for "call rel32" to the function or to a PLT stub that leads to it, and for
 * "call *[rip+slot]" through its GOT slot. Each hit is verified by decoding from the first byte of
 * the function around it, so that data or the middle of an instruction is never taken for a call.
 *
 * A function that always ends by a jump to the wanted one (a tail call) returns where the wanted one
 * does: it is told of, and its own callers lead there, too. One that also returns by itself, or may jump
 * to others, is not: probes behind all its calls would cost those that never lead there.
 */
#ifndef SPANPROF_PROBE_CALLERS_H
#define SPANPROF_PROBE_CALLERS_H

#include <stddef.h>
#include <stdint.h>

#include "probe/binary.h"

enum { CALLERS_MAX = 256, JUMPERS_MAX = 8 };

struct callers_input {
	struct binary *binary; /* where to look for calls */
	uint64_t vaddr;        /* of the function in this module; 0: it is in another one */
	const char *symbol;    /* by which other modules call it; "" or NULL: only direct calls */
};

struct callers {
	uint64_t ret_addr[CALLERS_MAX]; /* ELF addresses behind the calls */
	size_t n;
	bool more; /* there are more than CALLERS_MAX */
	uint64_t jumpers
		[JUMPERS_MAX]; /* first bytes of functions that always end by jumping there */
	size_t n_jumpers;
};

/* 0 or -ENOMEM. */
int find_callers(const struct callers_input *in, struct callers *ret);

/*
 * True when decoding from the start of the function around it meets a call that ends at ret_addr. What
 * a program puts in place of a return address may be anywhere, and a probe inside an instruction makes
 * another one of it, in each process of the file.
 */
bool caller_is_real(struct binary *b, uint64_t ret_addr);

#endif
