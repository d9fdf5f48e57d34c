/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dies.h: a walk over the DIEs below another one whose cost is known. For src/code only.
 *
 * dwarf_siblingof steps over all that is below a DIE without DW_AT_sibling, and follows what such DIEs
 * say about their own siblings, backwards, too: one call of it may take any time, and a walk that
 * goes down level by level steps over the same DIEs once for each level. Here all DIEs come once, in the
 * order of the file, and each that is stepped over is paid for, wanted or not.
 */
#ifndef SPANPROF_CODE_DIES_H
#define SPANPROF_CODE_DIES_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

/* What is left to spend, in steps: a DIE of usual size, or what takes about the same time. */
struct dies_budget {
	uint64_t left;
	uint64_t n_spent;
	bool (*shall_stop)(void *ctx); /* asked now and then: true ends the budget; may be NULL */
	void *ctx;
	uint64_t asked_at; /* n_spent, then */
};

struct dies {
	Dwarf_Die die;      /* the one at hand */
	unsigned int depth; /* below the root: its children have 1 */
	struct dies_budget *budget;
	const uint8_t *end;
	uint64_t steps_left;  /* of this walk alone */
	unsigned int skipped; /* what is deeper is not wanted; 0: all is */
};

/* False: it is used up. */
bool dies_spend(struct dies_budget *b, uint64_t n_steps);

/* max_steps: of this walk; 0: what the budget has. The budget is borrowed. */
void dies_begin(struct dies *w, Dwarf_Die *root, struct dies_budget *budget, uint64_t max_steps);
/* Goes on to the next DIE: false when there is none, the DWARF is broken, or the budget is used up. */
bool dies_next(struct dies *w);
/* The walk has ended because of its own limit, before its end. */
bool dies_are_cut(const struct dies *w);
/* What is below the DIE at hand is left out. */
void dies_skip(struct dies *w);

#endif
