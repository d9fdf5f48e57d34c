/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ahead.h: leave probes behind the calls that lead to an endpoint, before one of them is made: the direct
 * calls in the code of all modules of the process, and those of functions that end by jumping there.
 *
 * Calls that are not found (through pointers, by a JIT compiler) are reported when they are made.
 */
#ifndef SPANPROF_PROBE_AHEAD_H
#define SPANPROF_PROBE_AHEAD_H

#include <stdbool.h>

#include "probe/resolve.h"
#include "probe/retsites.h"

/*
 * vaddr: the first byte of the function that is called, of f or around it. all: every caller; otherwise
 * some, as each probe takes long to attach.
 */
void ahead_attach(struct retsites *t, const struct retsites_scope *scope,
		  const struct resolve_input *in, const struct resolved *f, uint64_t vaddr,
		  bool all);

#endif
