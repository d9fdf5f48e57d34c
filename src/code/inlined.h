/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inlined.h: the calls that are inlined in a function, by address. For src/code only.
 *
 * All of a function is read at once, each DIE once, and paid for out of a budget. What its own limits leave
 * out is counted in n_cut, which may be NULL.
 */
#ifndef SPANPROF_CODE_INLINED_H
#define SPANPROF_CODE_INLINED_H

#include <elfutils/libdw.h>
#include <stddef.h>
#include <stdint.h>

#include "code/dies.h"

struct inlined;

/* 0 or -ENOMEM. */
int inlined_read(struct inlined **ret, Dwarf_Die *function, struct dies_budget *budget,
		 uint64_t *n_cut);
struct inlined *inlined_free(struct inlined *f);
/* What it holds in memory. */
size_t inlined_bytes(const struct inlined *f);

/* The calls that hold addr, one in another, the outermost first: offsets of their DIEs. Their number, at most max. */
size_t inlined_find(const struct inlined *f, uint64_t addr, struct dies_budget *budget,
		    uint64_t *n_cut, uint64_t *ret_dies, size_t max);

#endif
