/* SPDX-License-Identifier: Apache-2.0 */
/*
 * budget.h: keeps the profiler's own CPU time within a share of the machine. Pure.
 *
 * Fed with what was used since the last update, it first raises the dump periods by powers of two
 * and, when the largest factor is not enough, refuses new spans. It goes back in small steps, after
 * the use has been low for a while, so that it does not swing.
 */
#ifndef SPANPROF_TASK_BUDGET_H
#define SPANPROF_TASK_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

enum { BUDGET_FACTOR_MAX = 64, BUDGET_CALM_UPDATES = 10 };

struct budget {
	uint32_t limit_permille; /* of all CPUs together; 0: no budget */
	uint32_t factor;         /* 1, 2, 4 ...: dump periods are multiplied by it; 0 means 1 */
	bool refuse;             /* no new spans */
	uint32_t calm;           /* updates in a row with low use */
	double permille;         /* smoothed use */
	uint64_t n_raised;
	uint64_t n_lowered;
	uint64_t n_refused; /* times that refusing began */
};

enum budget_change {
	BUDGET_SAME,
	BUDGET_RAISED, /* longer dump periods */
	BUDGET_LOWERED,
	BUDGET_REFUSES, /* no new spans from now on */
	BUDGET_ACCEPTS,
};

/* cpu_ns used in wall_ns on a machine of n_cpus: our threads and our BPF programs together. */
enum budget_change budget_update(struct budget *b, uint64_t cpu_ns, uint64_t wall_ns,
				 unsigned int n_cpus);

/* A dump period under the budget. */
uint64_t budget_period(const struct budget *b, uint64_t period_ns);

#endif
