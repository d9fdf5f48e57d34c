/* SPDX-License-Identifier: Apache-2.0 */
/*
 * costly.h: tells once that the probes cost the processes of a run more than they should, while no limit
 * is set.
 */
#ifndef SPANPROF_APP_COSTLY_H
#define SPANPROF_APP_COSTLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pipe/engine.h"

/* All-zero at first. */
struct costly {
	bool is_told;
	uint64_t next_ns;
	uint64_t n_calls; /* at the last look */
	uint64_t cpu_ns;
};

/* To be called in the loop: a look each second. */
void costly_look(struct costly *c, struct engine *e, uint64_t now_ns);

#endif
