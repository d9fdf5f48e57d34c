/* SPDX-License-Identifier: Apache-2.0 */
#include "code/inlined.h"

#include <dwarf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/vec.h"
#include "code/pcranges.h"

enum {
	DEPTH_MAX = 64,
	STEPS_MAX = 1 << 18, /* while one function is read */
	NODES_MAX = 1 << 16,
	NODES_OF_STEP = 16,
};

/* An inlined call, or a block; those inside of it follow it. */
struct node {
	uint64_t die;
	uint32_t first_range;
	uint32_t n_ranges;
	uint32_t next; /* the first one that is not inside */
	unsigned int depth;
	bool is_inlined;
};

struct inlined {
	VEC(struct node) nodes; /* in the order of the file */
	struct pcranges ranges;
};

DEFINE_CLEANUP(struct inlined *, inlined_free)

struct inlined *inlined_free(struct inlined *f)
{
	if (!f)
		return NULL;
	vec_free(&f->nodes);
	vec_free(&f->ranges.v);
	free(f);
	return NULL;
}

size_t inlined_bytes(const struct inlined *f)
{
	return f->nodes.cap * sizeof(f->nodes.at[0]) + f->ranges.v.cap * sizeof(f->ranges.v.at[0]);
}

static void count(uint64_t *n_cut, bool is_cut)
{
	if (n_cut)
		*n_cut += is_cut;
}

/* Nodes that are as deep as this one, or deeper, have ended. */
static void end_nodes(struct inlined *f, size_t *last, size_t *n_open, unsigned int depth)
{
	while (*n_open && f->nodes.at[last[*n_open - 1]].depth >= depth)
		f->nodes.at[last[--*n_open]].next = (uint32_t)f->nodes.n;
}

/* The ranges of a DIE if it is one whose code counts; their number, or -ENOMEM. */
static int add_ranges(struct inlined *f, struct dies *w, int tag, uint64_t *n_cut)
{
	bool is_cut = false;
	int n = 0;

	if (tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block)
		n = pcranges_add_die(&f->ranges, &w->die, w->budget, &is_cut);
	count(n_cut, is_cut);
	return n;
}

/* Inlined calls and blocks, with their code. */
static int fill(struct inlined *f, struct dies *w, uint64_t *n_cut)
{
	size_t open[DEPTH_MAX + 1], n_open = 0;
	bool too_deep = false;

	while (f->nodes.n < NODES_MAX && dies_next(w)) {
		int tag = dwarf_tag(&w->die);
		struct node node = {.die = dwarf_dieoffset(&w->die),
				    .first_range = (uint32_t)f->ranges.v.n,
				    .depth = w->depth,
				    .is_inlined = tag == DW_TAG_inlined_subroutine};
		int n;

		end_nodes(f, open, &n_open, w->depth);
		n = add_ranges(f, w, tag, n_cut);
		if (n < 0)
			return n;
		if (n > 0) {
			node.n_ranges = (uint32_t)n;
			open[n_open++] = f->nodes.n;
			if (vec_push(&f->nodes, node))
				return -ENOMEM;
		}
		if (n == 0 || w->depth > DEPTH_MAX)
			dies_skip(w);
		too_deep |= n > 0 && w->depth > DEPTH_MAX;
	}
	end_nodes(f, open, &n_open, 0);
	count(n_cut, too_deep || f->nodes.n == NODES_MAX || dies_are_cut(w));
	return 0;
}

int inlined_read(struct inlined **ret, Dwarf_Die *function, struct dies_budget *budget,
		 uint64_t *n_cut)
{
	CLEANUP(inlined_freep) struct inlined *f = calloc(1, sizeof(*f));
	struct dies w;
	int r;

	if (!f)
		return -ENOMEM;
	dies_begin(&w, function, budget, STEPS_MAX);
	r = fill(f, &w, n_cut);
	if (r)
		return r;
	*ret = TAKE_PTR(f);
	return 0;
}

static bool node_holds(const struct inlined *f, const struct node *n, uint64_t addr)
{
	for (uint32_t i = 0; i < n->n_ranges; i++) {
		const struct pcrange *r = &f->ranges.v.at[n->first_range + i];

		if (addr >= r->lo && addr < r->hi)
			return true;
	}
	return false;
}

size_t inlined_find(const struct inlined *f, uint64_t addr, struct dies_budget *budget,
		    uint64_t *n_cut, uint64_t *ret_dies, size_t max)
{
	size_t i = 0, end = f->nodes.n, n_seen = 0, n_found = 0;

	while (i < end && n_found < max) {
		const struct node *n = &f->nodes.at[i];

		n_seen += 1 + n->n_ranges;
		if (!node_holds(f, n, addr)) {
			i = n->next;
			continue;
		}
		if (n->is_inlined)
			ret_dies[n_found++] = n->die;
		end = n->next;
		i++;
	}
	count(n_cut, i < end);
	dies_spend(budget, n_seen / NODES_OF_STEP);
	return n_found;
}
