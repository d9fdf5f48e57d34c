/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trapcost.h: what it costs a program to meet a probe, on this machine.
 *
 * In a server that is busy with other things the kernel's way to a probe and back is not in the caches, and
 * takes several times as long as in a loop. So it is timed where caches are cold, and what our
 * programs take on top is added. It is to be too much rather than too little: budgets are kept by it.
 */
#ifndef SPANPROF_PROBE_TRAPCOST_H
#define SPANPROF_PROBE_TRAPCOST_H

#include <stdint.h>

#include "probe/attach.h"

/* Nanoseconds for each time. */
struct trapcost {
	uint64_t hit_ns;
	uint64_t dear_ns; /* on an instruction that is single-stepped */
};

/* Takes about 30 ms. Where nothing can be measured the figures are those of a slow machine. */
void trapcost_measure(const struct attach_source *source, struct trapcost *ret);

#endif
