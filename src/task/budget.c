/* SPDX-License-Identifier: Apache-2.0 */
#include "task/budget.h"

#define SMOOTHING 0.5 /* weight of the newest update: two or three updates to react */

static enum budget_change tighten(struct budget *b)
{
	b->calm = 0;
	if (b->factor < BUDGET_FACTOR_MAX) {
		b->factor *= 2;
		b->n_raised++;
		return BUDGET_RAISED;
	}
	if (b->refuse)
		return BUDGET_SAME;
	b->refuse = true;
	b->n_refused++;
	return BUDGET_REFUSES;
}

static enum budget_change loosen(struct budget *b)
{
	if (++b->calm < BUDGET_CALM_UPDATES)
		return BUDGET_SAME;
	b->calm = 0;
	if (b->refuse) {
		b->refuse = false;
		return BUDGET_ACCEPTS;
	}
	if (b->factor == 1)
		return BUDGET_SAME;
	b->factor /= 2;
	b->n_lowered++;
	return BUDGET_LOWERED;
}

enum budget_change budget_update(struct budget *b, uint64_t cpu_ns, uint64_t wall_ns,
				 unsigned int n_cpus)
{
	double now;

	if (!b->factor)
		b->factor = 1;
	if (!wall_ns || !n_cpus)
		return BUDGET_SAME;
	now = 1000.0 * (double)cpu_ns / ((double)wall_ns * n_cpus);
	b->permille += SMOOTHING * (now - b->permille);
	if (!b->limit_permille) {
		/* The budget was taken away by a reload: back to normal at once. */
		bool was_tight = b->factor > 1 || b->refuse;

		b->factor = 1;
		b->refuse = false;
		return was_tight ? BUDGET_LOWERED : BUDGET_SAME;
	}
	if (b->permille > b->limit_permille)
		return tighten(b);
	if (b->permille < b->limit_permille / 2.0)
		return loosen(b);
	b->calm = 0;
	return BUDGET_SAME;
}

uint64_t budget_period(const struct budget *b, uint64_t period_ns)
{
	uint32_t factor = b->factor ? b->factor : 1;

	return period_ns > UINT64_MAX / factor ? UINT64_MAX : period_ns * factor;
}
