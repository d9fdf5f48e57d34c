/* SPDX-License-Identifier: Apache-2.0 */
#include "code/dies.h"

#include <dwarf.h>

enum {
	ASK_EVERY = 1 << 16,
	ATTRIBUTES_OF_STEP = 16,
	NULLS_OF_STEP = 16,
};

bool dies_spend(struct dies_budget *b, uint64_t n_steps)
{
	if (b->left < n_steps) {
		b->left = 0;
		return false;
	}
	b->left -= n_steps;
	b->n_spent += n_steps;
	if (b->shall_stop && b->n_spent - b->asked_at >= ASK_EVERY) {
		b->asked_at = b->n_spent;
		if (b->shall_stop(b->ctx))
			b->left = 0;
	}
	return b->left > 0;
}

static bool spend(struct dies *w, uint64_t n_steps)
{
	if (w->steps_left < n_steps) {
		w->steps_left = 0;
		return false;
	}
	w->steps_left -= n_steps;
	return dies_spend(w->budget, n_steps);
}

/*
 * Where the unit ends, in memory; NULL: the section is shorter than the unit says. The unit may be one of
 * .debug_types, whose offsets mean other places in .debug_info: so the unit that is found must be its own.
 */
static const uint8_t *unit_end(Dwarf_Die *root)
{
	Dwarf *dwarf = dwarf_cu_getdwarf(root->cu);
	Dwarf_Off off = dwarf_dieoffset(root), unit = off - dwarf_cuoffset(root), next;
	Dwarf_Die last;
	uint64_t signature;
	size_t header;

	if (dwarf_nextcu(dwarf, unit, &next, &header, NULL, NULL, NULL) == 0 && next > off &&
	    dwarf_offdie(dwarf, next - 1, &last) && last.cu == root->cu)
		return (const uint8_t *)root->addr + (next - off);
	if (dwarf_next_unit(dwarf, unit, &next, &header, NULL, NULL, NULL, NULL, &signature,
			    NULL) == 0 &&
	    next > off && dwarf_offdie_types(dwarf, next - 1, &last) && last.cu == root->cu)
		return (const uint8_t *)root->addr + (next - off);
	return NULL;
}

void dies_begin(struct dies *w, Dwarf_Die *root, struct dies_budget *budget, uint64_t max_steps)
{
	*w = (struct dies){
		.die = *root,
		.budget = budget,
		.end = unit_end(root),
		.steps_left = max_steps ? max_steps : UINT64_MAX,
	};
}

/* An abbreviation may have any number of attributes, each of no bytes: libdw looks at them all. */
static uint64_t steps_of(const Dwarf_Die *die)
{
	size_t n = 0;

	dwarf_getattrcnt(die->abbrev, &n);
	return 1 + n / ATTRIBUTES_OF_STEP;
}

/* From the end of a list of siblings to what follows it, some levels up. */
static bool ascend(struct dies *w, const uint8_t *at)
{
	const uint8_t *first = at;

	for (; at < w->end && *at == 0; at++)
		if (--w->depth == 0)
			return false;
	if (at >= w->end || !spend(w, (uint64_t)(at - first) / NULLS_OF_STEP))
		return false;
	w->die.addr = (void *)at;
	w->die.abbrev = NULL;
	return true;
}

/* To the next DIE of the file, or to the sibling if DW_AT_sibling says where it is. */
static bool step(struct dies *w)
{
	const uint8_t *at = w->die.addr;
	Dwarf_Die next = {};
	int r;

	/* Looks the abbreviation up. */
	if (dwarf_tag(&w->die) == DW_TAG_invalid || !spend(w, steps_of(&w->die)))
		return false;
	if (dwarf_haschildren(&w->die) == 1 &&
	    !(w->skipped && dwarf_hasattr(&w->die, DW_AT_sibling))) {
		r = dwarf_child(&w->die, &next);
		if (r == 0) {
			w->depth++;
			w->die = next;
			return (const uint8_t *)next.addr > at &&
			       (const uint8_t *)next.addr < w->end;
		}
		if (r < 0)
			return false;
	}
	if (w->depth == 0)
		return false;
	/* There is nothing below it by now: this takes one step. */
	r = dwarf_siblingof(&w->die, &next);
	if (r < 0 || !next.addr || (const uint8_t *)next.addr <= at ||
	    (const uint8_t *)next.addr >= w->end)
		return false;
	if (r == 1)
		return ascend(w, next.addr);
	w->die = next;
	return true;
}

bool dies_next(struct dies *w)
{
	do {
		if (!w->end || !step(w)) {
			w->end = NULL;
			return false;
		}
	} while (w->skipped && w->depth > w->skipped);
	w->skipped = 0;
	return true;
}

void dies_skip(struct dies *w)
{
	w->skipped = w->depth;
}

bool dies_are_cut(const struct dies *w)
{
	return w->steps_left == 0;
}
