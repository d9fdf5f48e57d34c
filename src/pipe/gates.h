/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gates.h: what the gate of an endpoint asks for in one instance, as its spans need it when they end.
 * BPF has a copy of its own. Instances differ: one may be profiled by a task that another has not.
 */
#ifndef SPANPROF_PIPE_GATES_H
#define SPANPROF_PIPE_GATES_H

#include <stdint.h>

#include "base/vec.h"
#include "bpf/wire.h"

struct gate_terms {
	uint64_t threshold_ns;    /* shorter spans are dropped */
	uint64_t sample_after_ns; /* 0: snapshots are taken from the start */
	uint64_t period_ns;
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
/* 0, -ENOMEM. */
int gates_set(struct gates *g, const struct wire_gate_key *key, const struct gate_terms *terms);
void gates_remove(struct gates *g, const struct wire_gate_key *key);
/* Borrowed until the next change; NULL: there is none. */
const struct gate_terms *gates_get(const struct gates *g, const struct wire_gate_key *key);

#endif
