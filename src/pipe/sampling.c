/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/sampling.h"

enum { TICKS_PER_PERIOD = 8, TICK_MIN_NS = 1000000 };

void sampling_deinit(struct sampling *s)
{
	vec_free(&s->gates);
}

static struct sampling_gate *find(const struct sampling *s, const struct wire_gate_key *key)
{
	for (size_t i = 0; i < s->gates.n; i++)
		if (s->gates.at[i].key.ep_id == key->ep_id &&
		    s->gates.at[i].key.instance_id == key->instance_id)
			return &s->gates.at[i];
	return NULL;
}

int sampling_set(struct sampling *s, const struct sampling_gate *gate)
{
	struct sampling_gate *g = find(s, &gate->key);

	if (!g)
		return vec_push(&s->gates, *gate);
	*g = *gate;
	return 0;
}

bool sampling_remove(struct sampling *s, const struct wire_gate_key *key)
{
	struct sampling_gate *g = find(s, key);

	if (!g)
		return false;
	*g = s->gates.at[--s->gates.n];
	return true;
}

uint64_t sampling_period(const struct sampling *s)
{
	uint64_t period_ns = 0;

	for (size_t i = 0; i < s->gates.n; i++) {
		const struct sampling_gate *g = &s->gates.at[i];

		if (g->enabled && (!period_ns || g->period_ns < period_ns))
			period_ns = g->period_ns;
	}
	return period_ns;
}

/*
 * Snapshots are due by the on-CPU time of a thread. The clock that looks whether one is ticks by the
 * time of day, so it must be faster, or threads that run in short bursts are met late and unevenly.
 */
uint64_t sampling_tick(uint64_t period_ns)
{
	uint64_t tick_ns = period_ns / TICKS_PER_PERIOD;

	if (tick_ns < TICK_MIN_NS)
		tick_ns = TICK_MIN_NS;
	return tick_ns < period_ns ? tick_ns : period_ns;
}
