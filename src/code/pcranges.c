/* SPDX-License-Identifier: Apache-2.0 */
#include "code/pcranges.h"

#include <errno.h>
#include <stdlib.h>

#include "base/search.h"

enum {
	RANGES_OF_STEP = 4,
	ALL_MAX = 1 << 19, /* of all units, of all functions of one, or inside one */
	OF_ONE_MAX = 4096, /* of one DIE */
};

static int compare_ranges(const void *a, const void *b)
{
	const struct pcrange *x = a, *y = b;

	if (x->lo != y->lo)
		return x->lo < y->lo ? -1 : 1;
	return x->hi < y->hi ? -1 : x->hi > y->hi;
}

void pcranges_sort(struct pcranges *r)
{
	if (r->v.n > 1)
		qsort(r->v.at, r->v.n, sizeof(r->v.at[0]), compare_ranges);
}

const struct pcrange *pcranges_find(const struct pcranges *r, uint64_t addr)
{
	const struct pcrange *best = NULL;
	size_t n = search_first(r->v.at, r->v.n, p, p->lo <= addr);

	for (size_t i = n; i > 0 && n - i < 64; i--) {
		const struct pcrange *x = &r->v.at[i - 1];

		if (addr < x->hi && (!best || x->hi - x->lo < best->hi - best->lo))
			best = x;
	}
	return best;
}

int pcranges_add_die(struct pcranges *r, Dwarf_Die *die, struct dies_budget *budget, bool *is_cut)
{
	Dwarf_Addr base, lo, hi;
	uint64_t off = dwarf_dieoffset(die);
	ptrdiff_t next = 0;
	int n = 0;

	for (int seen = 0;; seen++) {
		if (seen % RANGES_OF_STEP == RANGES_OF_STEP - 1 && !dies_spend(budget, 1))
			break;
		next = dwarf_ranges(die, next, &base, &lo, &hi);
		if (next <= 0)
			break;
		if (seen == OF_ONE_MAX || r->v.n == ALL_MAX) {
			*is_cut = true;
			break;
		}
		/* Code that the linker threw away begins at 0. */
		if (lo == 0 || hi <= lo)
			continue;
		if (vec_push(&r->v, (struct pcrange){lo, hi, off}))
			return -ENOMEM;
		n++;
	}
	return n;
}
