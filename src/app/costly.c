/* SPDX-License-Identifier: Apache-2.0 */
#include "app/costly.h"

#include <stdio.h>

#include "proc/process.h"

enum { LOOK_NS = 1000000000, TOO_MUCH_PERCENT = 5 };

/* Less CPU time than this in a second is not missed. */
enum { IDLE_NS = 100000000 };

/* Two probes seldom cost more than this; only then it is worth to measure what they do here. */
enum { PAIR_MAX_NS = 12000 };

static uint64_t count_calls(struct engine *e)
{
	uint64_t n = 0;
	struct counters c;
	struct latency l;

	for (uint32_t i = 0; engine_endpoint(e, i); i++)
		n += engine_latency(e, i, &l) ? 0 : l.n_enter;
	if (!engine_counters(e, &c))
		n += c.v[WIRE_C_CONDITION_SKIP] + c.v[WIRE_C_NESTED_SKIP];
	return n;
}

static uint64_t cpu_time(const struct engine *e)
{
	uint64_t sum = 0, ns;

	for (size_t i = 0; i < engine_n_processes(e); i++)
		sum += process_cpu_ns(engine_process(e, i), &ns) ? 0 : ns;
	return sum;
}

static bool is_too_much(uint64_t n_calls, uint64_t pair_ns, uint64_t cpu_ns)
{
	return n_calls * pair_ns > cpu_ns / 100 * TOO_MUCH_PERCENT;
}

/* What probing takes is part of the CPU time: an estimate for cold caches that is larger is too large. */
static bool estimate(struct costly *c, struct engine *e, uint64_t n_calls, uint64_t cpu_ns)
{
	uint64_t pair_ns = 2 * engine_trapcost(e)->hit_ns;
	uint64_t cost_ns = n_calls * pair_ns < cpu_ns ? n_calls * pair_ns : cpu_ns;

	if (!is_too_much(n_calls, pair_ns, cpu_ns))
		return false;
	snprintf(
		c->text, sizeof(c->text),
		"the probes take up to %.0f %% of the CPU time of what is profiled (%lu calls in a second, up to %.1f us each)",
		100.0 * (double)cost_ns / (double)cpu_ns, (unsigned long)n_calls,
		(double)cost_ns / (double)n_calls / 1000);
	return true;
}

bool costly_look(struct costly *c, struct engine *e, uint64_t now_ns)
{
	uint64_t n_calls, cpu_ns;
	bool is_first = !c->next_ns;

	if (c->is_told || now_ns < c->next_ns)
		return false;
	c->next_ns = now_ns + LOOK_NS;
	n_calls = count_calls(e);
	cpu_ns = cpu_time(e);
	/* Less than before: a process has ended. */
	if (!is_first && n_calls > c->n_calls && cpu_ns > c->cpu_ns + IDLE_NS &&
	    is_too_much(n_calls - c->n_calls, PAIR_MAX_NS, cpu_ns - c->cpu_ns))
		c->is_told = estimate(c, e, n_calls - c->n_calls, cpu_ns - c->cpu_ns);
	c->n_calls = n_calls;
	c->cpu_ns = cpu_ns;
	return c->is_told;
}
