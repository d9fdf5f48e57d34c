/* SPDX-License-Identifier: Apache-2.0 */
#include "task/gate.h"

#include <string.h>

#include "base/glob.h"
#include "base/hash.h"

static bool name_matches(const char *want, bool local, const char *name)
{
	return !strcmp(want, name) || (local && glob_match(want, name));
}

enum gate_match gate_match(const struct task *t, bool local, const struct gate_endpoint *ep)
{
	if (name_matches(t->endpoint, local, ep->display) || !strcmp(t->endpoint, ep->spec) ||
	    (local && !strcmp(t->endpoint, "*")) ||
	    (ep->pattern && !ep->has_name && glob_match(ep->pattern, t->endpoint)))
		return GATE_WHOLE;
	return ep->has_name ? GATE_BY_NAME : GATE_NO;
}

bool gate_takes_span(const struct task *t, bool local, const struct gate_endpoint *ep,
		     const char *span_name, uint64_t duration_ns)
{
	if (duration_ns < t->threshold_ns)
		return false;
	switch (gate_match(t, local, ep)) {
	case GATE_WHOLE:
		return true;
	case GATE_BY_NAME:
		return name_matches(t->endpoint, local, span_name);
	default:
		return false;
	}
}

static uint32_t add_limits(uint32_t a, uint32_t b)
{
	return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

void gate_plan_add(struct gate_plan *plan, const struct task *t, enum gate_match match,
		   uint32_t default_parallel)
{
	uint64_t after = t->from_start ? 0 : t->threshold_ns;
	uint32_t parallel = t->max_parallel ? t->max_parallel : default_parallel;
	struct wire_gate *g = &plan->gate;

	if (match == GATE_NO)
		return;
	if (!plan->n_tasks || t->threshold_ns < g->threshold_ns)
		g->threshold_ns = t->threshold_ns;
	if (!plan->n_tasks || after < g->sample_after_ns)
		g->sample_after_ns = after;
	if (!plan->n_tasks || t->period_ns < g->period_ns)
		g->period_ns = t->period_ns;
	/* 0 is no limit, and wins. */
	if (!plan->n_tasks)
		g->max_parallel = parallel;
	else
		g->max_parallel =
			g->max_parallel && parallel ? add_limits(g->max_parallel, parallel) : 0;
	g->max_spans = t->max_spans;
	g->enabled = 1;
	/* Sampled from the start, only its end tells whether a span counts. */
	plan->by_name |= match == GATE_BY_NAME || t->from_start;
	plan->tasks = hash_bytes(t->id, strlen(t->id), plan->tasks + 1);
	plan->n_tasks++;
}

void gate_plan_finish(struct gate_plan *plan)
{
	/* Spans that are left out by name, or belong to one of several tasks, are counted later. */
	if (plan->n_tasks != 1 || plan->by_name)
		plan->gate.max_spans = 0;
}
