/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/gates.h"

#include <stddef.h>

enum { TICKS_PER_PERIOD = 8, TICK_MIN_NS = 1000000 };

static struct gate_entry *find(const struct gates *g, const struct wire_gate_key *key)
{
	for (size_t i = 0; i < g->all.n; i++)
		if (g->all.at[i].key.ep_id == key->ep_id &&
		    g->all.at[i].key.instance_id == key->instance_id)
			return &g->all.at[i];
	return NULL;
}

void gates_deinit(struct gates *g)
{
	vec_free(&g->all);
}

int gates_set(struct gates *g, const struct wire_gate_key *key, const struct gate_terms *terms)
{
	struct gate_entry *e = find(g, key);

	if (!e)
		return vec_push(&g->all, (struct gate_entry){.key = *key, .terms = *terms});
	e->terms = *terms;
	return 0;
}

bool gates_remove(struct gates *g, const struct wire_gate_key *key)
{
	struct gate_entry *e = find(g, key);

	if (!e)
		return false;
	*e = g->all.at[--g->all.n];
	return true;
}

const struct gate_terms *gates_get(const struct gates *g, const struct wire_gate_key *key)
{
	const struct gate_entry *e = find(g, key);

	return e ? &e->terms : NULL;
}

uint64_t gates_period(const struct gates *g)
{
	uint64_t period_ns = 0;

	for (size_t i = 0; i < g->all.n; i++) {
		const struct gate_terms *t = &g->all.at[i].terms;

		if (!period_ns || t->period_ns < period_ns)
			period_ns = t->period_ns;
	}
	return period_ns;
}

/*
 * Snapshots are due by the on-CPU time of a thread. The clock that looks whether one is ticks by the
 * time of day, so it must be faster, or threads that run in short bursts are met late and unevenly.
 */
uint64_t gates_tick(uint64_t period_ns)
{
	uint64_t tick_ns = period_ns / TICKS_PER_PERIOD;

	if (tick_ns < TICK_MIN_NS)
		tick_ns = TICK_MIN_NS;
	return tick_ns < period_ns ? tick_ns : period_ns;
}
