/* SPDX-License-Identifier: Apache-2.0 */
/*
 * costly.h: notices, once, that the probes cost the processes more than they should, while no limit is set.
 */
#ifndef SPANPROF_APP_COSTLY_H
#define SPANPROF_APP_COSTLY_H

#include <stdbool.h>
#include <stdint.h>

#include "pipe/engine.h"

/* All-zero at first, and again when the engine is another one. */
struct costly {
	bool is_told;
	uint64_t next_ns;
	uint64_t n_calls; /* at the last look */
	uint64_t cpu_ns;
	char text[160]; /* how much, once is_told */
};

/* To be called in the loop: a look each second. True, once: text says what the probes cost. */
bool costly_look(struct costly *c, struct engine *e, uint64_t now_ns);

#endif
