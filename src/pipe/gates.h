/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gates.h: what the gate of an endpoint asks for in one instance. BPF has a copy of its own.
 *
 * The engine knows by them how often the clock must tick, the pipeline what the spans of an instance are
 * measured by when they end. Instances differ: one may be profiled by a task that another has not.
 */
#ifndef SPANPROF_PIPE_GATES_H
#define SPANPROF_PIPE_GATES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "bpf/wire.h"

struct gate_terms {
	uint64_t threshold_ns;    /* shorter spans are dropped */
	uint64_t sample_after_ns; /* 0: snapshots are taken from the start */
	uint64_t period_ns;       /* the dump period */
};

struct gate_entry {
	struct wire_gate_key key;
	struct gate_terms terms;
};

/* All zero: empty. */
struct gates {
	VEC(struct gate_entry) all;
};

void gates_deinit(struct gates *g);
/* 0, -ENOMEM: nothing changed. */
int gates_set(struct gates *g, const struct wire_gate_key *key, const struct gate_terms *terms);
/* False: there was none. */
bool gates_remove(struct gates *g, const struct wire_gate_key *key);
/* Borrowed until the next change; NULL: there is none. */
const struct gate_terms *gates_get(const struct gates *g, const struct wire_gate_key *key);
/* The smallest dump period; 0: there is no gate. */
uint64_t gates_period(const struct gates *g);
/* The period of the clock that a dump period needs; 0 for 0. */
uint64_t gates_tick(uint64_t period_ns);

#endif
