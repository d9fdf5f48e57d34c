/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pcranges.h: which DIE's code holds an address: ranges from DWARF, sorted. For src/code only.
 */
#ifndef SPANPROF_CODE_PCRANGES_H
#define SPANPROF_CODE_PCRANGES_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "code/dies.h"

struct pcrange {
	uint64_t lo;
	uint64_t hi;
	uint64_t die; /* offset of the unit's or function's DIE */
};

struct pcranges {
	VEC(struct pcrange) v;
};

/* Adds all ranges of a DIE; the number added, or -ENOMEM. *is_cut is set when there are too many. */
int pcranges_add_die(struct pcranges *r, Dwarf_Die *die, struct dies_budget *budget, bool *is_cut);
void pcranges_sort(struct pcranges *r);
/* The narrowest range that holds addr among the nearest below it; NULL when there is none. */
const struct pcrange *pcranges_find(const struct pcranges *r, uint64_t addr);

#endif
