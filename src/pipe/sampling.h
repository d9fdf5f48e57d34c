/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampling.h: how often the clock must tick for the dump periods of all gates.
 */
#ifndef SPANPROF_PIPE_SAMPLING_H
#define SPANPROF_PIPE_SAMPLING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "bpf/wire.h"

struct sampling_gate {
	struct wire_gate_key key;
	uint64_t period_ns;
	bool enabled;
};

/* All zero: no gates. */
struct sampling {
	VEC(struct sampling_gate) gates;
};

void sampling_deinit(struct sampling *s);
/* 0, -ENOMEM: nothing changed. */
int sampling_set(struct sampling *s, const struct sampling_gate *gate);
/* False: there was none. */
bool sampling_remove(struct sampling *s, const struct wire_gate_key *key);
/* The smallest dump period of an enabled gate; 0: none is enabled. */
uint64_t sampling_period(const struct sampling *s);
/* The period of the clock that a dump period needs; 0 for 0. */
uint64_t sampling_tick(uint64_t period_ns);

#endif
