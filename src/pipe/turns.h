/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turns.h: when functions are probed, so that what this costs the processes stays below a share of their
 * CPU time. Pure.
 *
 * Probes are on for a turn. What they cost is owed, and a share of the CPU time that is used pays for it;
 * while more is owed than was paid, no turn begins. Behind a turn calls are drained: none is looked at
 * that begins, those that are open may end. Then the probes are off until the debt is paid, and another turn
 * like that ahead, so that at any time behind the first turns not more than the share has been spent. Who
 * is within the budget, or nearly idle, is probed all the time.
 */
#ifndef SPANPROF_PIPE_TURNS_H
#define SPANPROF_PIPE_TURNS_H

#include <stdbool.h>
#include <stdint.h>

enum turns_state {
	TURNS_ON,
	TURNS_DRAIN, /* entries are off */
	TURNS_OFF,   /* all probes are */
};

/* The longest time for which calls are drained; what is open then is cut. */
#define TURNS_DRAIN_MAX_NS 10000000000ULL

/* Taking probes off and putting them back costs something, too: not for less than this. */
#define TURNS_REST_MIN_NS 1000000000ULL

struct turns {
	uint32_t share_ppm; /* of the CPU time: the budget; 0: none, probes are always on */
	enum turns_state state;
	uint64_t since_ns; /* the state began */
	uint64_t now_ns;   /* of the last look, and the sums then */
	uint64_t cost_ns;
	uint64_t cpu_ns;
	int64_t debt_ns;  /* below 0: paid ahead */
	int64_t ahead_ns; /* paid ahead before the next turn begins: what the last one has cost */
	int64_t limit_ns; /* a cost that ends a turn at once: so much is paid back in the longest rest */
	uint64_t begin_cpu_ns;  /* cpu_ns when the turn began */
	uint64_t begin_cost_ns; /* and cost_ns */
	uint64_t length_ns;     /* of the turn */
	uint64_t random;
	uint64_t on_ns; /* of the turns that are over */
	uint64_t n_turns;
};

/* What is known at a look. The sums are since turns_init and never shrink. */
struct turns_look {
	uint64_t now_ns;
	uint64_t cost_ns; /* what probing has cost the processes */
	uint64_t cpu_ns;  /* what they have used of their CPUs */
	bool is_calm;     /* no call is open; looked at in TURNS_DRAIN only */
	bool is_gone;     /* what was taken off is not in the processes any more */
};

/* The first turn begins. */
void turns_init(struct turns *t, uint32_t share_ppm, uint64_t now_ns);
/*
 * To be called at least each 100 ms. True: the state is another one. After TURNS_OFF has become TURNS_ON
 * the caller says how it went: turns_begin, when the probes are in, or turns_fail: tried again later.
 */
bool turns_update(struct turns *t, const struct turns_look *look);
void turns_begin(struct turns *t, uint64_t now_ns);
void turns_fail(struct turns *t, uint64_t now_ns);
/* After turns_update: nothing may be taken off now. The state is the one before, from now on. */
void turns_hold(struct turns *t, uint64_t now_ns);

/* For how long calls that began were looked at. */
uint64_t turns_probed_ns(const struct turns *t, uint64_t now_ns);

#endif
