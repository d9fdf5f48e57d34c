/* SPDX-License-Identifier: Apache-2.0 */
/*
 * callers.h: the direct callers of a function in one module, found in its code ahead of time.
 *
 * Code is searched for "call rel32" to the function or to a PLT stub that leads to it, and for
 * "call *[rip+slot]" through its GOT slot. Each hit is verified by decoding from the first byte of
 * the function around it, so that data or the middle of an instruction is never taken for a call.
 */
#ifndef SPANPROF_PROBE_CALLERS_H
#define SPANPROF_PROBE_CALLERS_H

#include <stddef.h>
#include <stdint.h>

#include "probe/binary.h"

enum { CALLERS_MAX = 256 };

struct callers_input {
	struct binary *binary; /* where to look for calls */
	uint64_t vaddr;        /* of the function in this module; 0: it is in another one */
	const char *symbol;    /* by which other modules call it; "" or NULL: only direct calls */
};

struct callers {
	uint64_t ret_addr[CALLERS_MAX]; /* ELF addresses behind the calls */
	size_t n;
	bool more; /* there are more than CALLERS_MAX */
};

/* 0 or -ENOMEM. Appends to *ret. */
int find_callers(const struct callers_input *in, struct callers *ret);

/*
 * True when decoding from the start of the function around it meets a call that ends at ret_addr. What
 * a program puts in place of a return address may be anywhere, and a probe inside an instruction makes
 * another one of it, in each process of the file.
 */
bool caller_is_real(struct binary *b, uint64_t ret_addr);

#endif
