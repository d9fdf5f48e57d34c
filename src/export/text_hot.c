/* SPDX-License-Identifier: Apache-2.0 */
#include "export/text_hot.h"

#include <assert.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "export/escape.h"
#include "export/text_node.h"

enum {
	ROWS = 8,
	NUMBERS_WIDTH = 10 + 10 + 2,
	NAME_WIDTH_MAX = 48,
	NAME_MIN = 16,
	STATE_MIN = 16,
	GAP = 2
};

/* Nodes of a tree that is flat: only frame and what is their own count. */
struct hot {
	VEC(struct tree_node) functions;
	uint64_t total_ns;
};

static void hot_deinit(struct hot *h)
{
	vec_free(&h->functions);
}

static void add(struct tree_node *to, const struct tree_node *from)
{
	to->self_ns += from->self_ns;
	for (int i = 0; i < SAMPLE_KIND_MAX; i++)
		to->self_by_kind[i] += from->self_by_kind[i];
	for (int i = 0; i < BLOCK_CAUSE_MAX; i++)
		to->self_by_cause[i] += from->self_by_cause[i];
}

static int compare(const void *a, const void *b)
{
	const struct tree_node *x = a, *y = b;

	if (x->self_ns != y->self_ns)
		return x->self_ns > y->self_ns ? -1 : 1;
	return x->frame < y->frame ? -1 : x->frame > y->frame;
}

static int collect(struct hot *h, const struct profile *p, const struct tree *tree,
		   const uint32_t *modules)
{
	CLEANUP(hash_deinit) struct hash index;
	int r = 0;

	hash_init(&index);
	for (size_t i = 0; i < tree->nodes.n && !r; i++) {
		const struct tree_node *n = &tree->nodes.at[i];
		uint64_t key = (uint64_t)p->frames.at[n->frame].function << 32 | modules[n->frame];
		uint64_t *found = hash_get(&index, key);

		h->total_ns += n->self_ns;
		if (!n->self_ns)
			continue;
		if (!found) {
			r = vec_push(&h->functions, (struct tree_node){.frame = n->frame});
			if (!r)
				r = hash_set(&index, key, h->functions.n - 1);
		}
		if (r)
			break;
		assert(h->functions.at);
		add(&h->functions.at[found ? *found : h->functions.n - 1], n);
	}
	if (!r && h->functions.n)
		qsort(h->functions.at, h->functions.n, sizeof(*h->functions.at), compare);
	return r;
}

static const char *name_of(const struct profile *p, const struct tree_node *n)
{
	return strpool_get(p->strings, p->frames.at[n->frame].function);
}

static void print_function(const struct profile *p, const struct tree_node *n,
			   const uint32_t *modules, double share, unsigned int name_width,
			   struct line *l)
{
	char buf[512], where[512];
	enum line_style style;

	snprintf(buf, sizeof(buf), "%.1f", n->self_ns / 1e6);
	line_right(l, LINE_BOLD, buf, 10);
	snprintf(buf, sizeof(buf), "%.1f %%", share * 100);
	line_right(l, LINE_PLAIN, buf, 10);
	line_pad(l, GAP);
	line_cell(l, LINE_PLAIN, name_of(p, n), name_width);
	line_pad(l, GAP);
	style = text_node_state(n, line_room(l), buf, sizeof(buf));
	line_text(l, style, buf);
	if (p->frames.at[n->frame].flags & (PROFILE_FRAME_SYNTHETIC | PROFILE_FRAME_UNKNOWN)) {
		line_end(l);
		return;
	}
	snprintf(where, sizeof(where), "(%s)",
		 text_node_where(p, n->frame, modules[n->frame], buf, sizeof(buf)));
	if (escape_width(where, l->limit) + GAP <= line_room(l)) {
		line_pad(l, GAP);
		line_text(l, LINE_DIM, where);
	}
	line_end(l);
}

int text_hot_print(const struct profile *p, const struct tree *tree, const uint32_t *modules,
		   struct line *l)
{
	CLEANUP(hot_deinit) struct hot h = {};
	unsigned int width = NAME_MIN, room;
	int r = collect(&h, p, tree, modules);

	if (r)
		return r;
	if (h.functions.n > ROWS)
		h.functions.n = ROWS;
	for (size_t i = 0; i < h.functions.n; i++) {
		unsigned int w = escape_width(name_of(p, &h.functions.at[i]), NAME_WIDTH_MAX);

		width = w > width ? w : width;
	}
	room = l->limit > NUMBERS_WIDTH + GAP + STATE_MIN
		       ? l->limit - NUMBERS_WIDTH - GAP - STATE_MIN
		       : 0;
	width = width > NAME_WIDTH_MAX ? NAME_WIDTH_MAX : width;
	width = width > room && room >= NAME_MIN ? room : width;
	line_text(l, LINE_DIM, "   self ms     share  function, wherever it was called from");
	line_end(l);
	for (size_t i = 0; i < h.functions.n; i++)
		print_function(p, &h.functions.at[i], modules,
			       (double)h.functions.at[i].self_ns / h.total_ns, width, l);
	return 0;
}
