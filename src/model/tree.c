/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.c: samples merged into a tree of frames.
 *
 * A node is found by (parent, key of the frame), where the key is the frame itself or, by function,
 * the first frame seen of the same function. Samples are walked root first, so that the time of a
 * node is always that of all samples that pass through it; those with the same stack and state are
 * added up first, and walked once. The order of children depends on the samples only, never on
 * hash order.
 */
#include "model/tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"

/* Samples that differ in span and time only. */
struct entry {
	uint32_t stack;
	uint32_t kind_cause; /* kind << 8 | cause */
	uint64_t wall_ns;
	uint64_t count;
};

struct builder {
	const struct profile *p;
	enum tree_key key;
	struct tree tree;
	uint32_t *canonical;       /* owned; frame -> first frame of the same function */
	struct hash children;      /* parent << 32 | key frame -> node */
	VEC(struct entry) entries; /* in the order in which the samples bring them */
	struct hash entry_ids;     /* stack << 32 | kind_cause -> index into entries */
	struct hash lines;         /* node << 32 | frame -> total ns; TREE_BY_FUNCTION */
};

static void builder_deinit(struct builder *b)
{
	tree_deinit(&b->tree);
	free(b->canonical);
	hash_deinit(&b->children);
	hash_deinit(&b->lines);
	hash_deinit(&b->entry_ids);
	vec_free(&b->entries);
}

static bool same_function(const struct profile_frame *a, const struct profile_frame *b)
{
	return a->function == b->function && a->system_name == b->system_name &&
	       a->start_line == b->start_line && a->flags == b->flags;
}

static int fill_canonical(struct builder *b)
{
	const struct profile *p = b->p;
	CLEANUP(hash_deinit) struct hash seen;
	uint64_t *found;
	int r;

	hash_init(&seen);
	b->canonical = calloc(p->frames.n, sizeof(*b->canonical));
	if (!b->canonical)
		return -ENOMEM;
	for (uint32_t i = 1; i < p->frames.n; i++) {
		const struct profile_frame *f = &p->frames.at[i];
		const uint32_t id[] = {f->function, f->system_name, f->start_line, f->flags};
		uint64_t h = hash_bytes(id, sizeof(id), seen.seed);

		while ((found = hash_get(&seen, h)) && !same_function(f, &p->frames.at[*found]))
			h++;
		if (found) {
			b->canonical[i] = *found;
			continue;
		}
		b->canonical[i] = i;
		r = hash_set(&seen, h, i);
		if (r)
			return r;
	}
	return 0;
}

/* The child of `parent` for the frame, made when it is new. */
static int child(struct builder *b, uint32_t parent, uint32_t frame, uint32_t *ret_node)
{
	uint32_t key_frame = b->key == TREE_BY_FUNCTION ? b->canonical[frame] : frame;
	uint64_t key = (uint64_t)parent << 32 | key_frame, *found;
	struct tree_node node = {.frame = frame, .parent = parent};
	int r;

	found = hash_get(&b->children, key);
	if (found) {
		*ret_node = *found;
		return 0;
	}
	if (b->tree.nodes.n >= UINT32_MAX)
		return -ENOMEM;
	node.next_sibling = b->tree.nodes.at[parent].first_child;
	r = vec_push(&b->tree.nodes, node);
	if (r)
		return r;
	r = hash_set(&b->children, key, b->tree.nodes.n - 1);
	if (r)
		return r;
	*ret_node = b->tree.nodes.n - 1;
	b->tree.nodes.at[parent].first_child = *ret_node;
	return 0;
}

static int add_line(struct builder *b, uint32_t node, uint32_t frame, uint64_t wall_ns)
{
	uint64_t key = (uint64_t)node << 32 | frame, *found;

	if (b->key != TREE_BY_FUNCTION)
		return 0;
	found = hash_get(&b->lines, key);
	if (!found)
		return hash_set(&b->lines, key, wall_ns);
	*found += wall_ns;
	return 0;
}

static int add_sample(struct builder *b, const struct profile_sample *s)
{
	uint32_t kind_cause = (uint32_t)s->kind << 8 | s->cause;
	uint64_t key = (uint64_t)s->stack << 32 | kind_cause;
	uint64_t *found = hash_get(&b->entry_ids, key);
	struct entry *e;
	int r;

	if (!found) {
		r = vec_push(&b->entries, (struct entry){s->stack, kind_cause});
		if (!r)
			r = hash_set(&b->entry_ids, key, b->entries.n - 1);
		if (r)
			return r;
	}
	e = &b->entries.at[found ? *found : b->entries.n - 1];
	e->wall_ns += s->wall_ns;
	e->count += s->count;
	return 0;
}

static void add_total(struct tree_node *n, const struct entry *e, enum stack_stop stop)
{
	n->total_ns += e->wall_ns;
	n->count += e->count;
	n->total_by_kind[e->kind_cause >> 8] += e->wall_ns;
	if (stop != STACK_STOP_ENDPOINT && stop != STACK_STOP_NONE)
		n->incomplete_ns += e->wall_ns;
}

static int walk_entry(struct builder *b, const struct entry *e)
{
	const struct profile *p = b->p;
	const struct profile_stack *stack = &p->stacks.at[e->stack];
	struct tree_node *leaf;
	uint32_t node = 0;
	int r;

	add_total(&b->tree.nodes.at[0], e, stack->stop);
	for (uint32_t i = stack->n; i-- > 0;) {
		const struct profile_location *l =
			&p->locations.at[p->stack_runs.at[stack->first + i]];

		for (uint32_t j = l->n_frames; j-- > 0;) {
			uint32_t frame = p->frame_runs.at[l->first_frame + j];

			r = child(b, node, frame, &node);
			if (!r)
				r = add_line(b, node, frame, e->wall_ns);
			if (r)
				return r;
			add_total(&b->tree.nodes.at[node], e, stack->stop);
		}
	}
	leaf = &b->tree.nodes.at[node];
	leaf->self_ns += e->wall_ns;
	leaf->self_by_kind[e->kind_cause >> 8] += e->wall_ns;
	leaf->self_by_cause[e->kind_cause & 0xff] += e->wall_ns;
	return 0;
}

/* Largest total first; equal ones in the order in which the samples brought them. */
static int compare_nodes(const void *a, const void *b, void *ctx)
{
	const struct tree_node *nodes = ctx;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	if (nodes[x].total_ns != nodes[y].total_ns)
		return nodes[x].total_ns > nodes[y].total_ns ? -1 : 1;
	return x < y ? -1 : x > y;
}

static int sort_children(struct tree *t)
{
	VEC(uint32_t) order = {};
	int r = 0;

	for (uint32_t i = 0; i < t->nodes.n && !r; i++) {
		struct tree_node *n = &t->nodes.at[i];

		order.n = 0;
		for (uint32_t c = n->first_child; c && !r; c = t->nodes.at[c].next_sibling)
			r = vec_push(&order, c);
		if (r || !order.n)
			continue;
		qsort_r(order.at, order.n, sizeof(*order.at), compare_nodes, t->nodes.at);
		n->first_child = order.at[0];
		for (size_t j = 0; j < order.n; j++)
			t->nodes.at[order.at[j]].next_sibling =
				j + 1 < order.n ? order.at[j + 1] : 0;
	}
	vec_free(&order);
	return r;
}

static int fill_hot_lines(struct builder *b)
{
	struct tree *t = &b->tree;
	uint64_t key, total, *best;
	size_t pos = 0;
	int r;

	r = vec_reserve(&t->hot_line, t->nodes.n);
	if (r)
		return r;
	for (t->hot_line.n = 0; t->hot_line.n < t->nodes.n; t->hot_line.n++)
		t->hot_line.at[t->hot_line.n] = t->nodes.at[t->hot_line.n].frame;
	while (hash_next(&b->lines, &pos, &key, &total)) {
		uint32_t node = key >> 32, frame = key;

		best = hash_get(&b->lines, (uint64_t)node << 32 | t->hot_line.at[node]);
		if (total > *best || (total == *best && frame < t->hot_line.at[node]))
			t->hot_line.at[node] = frame;
	}
	return 0;
}

int tree_build(const struct profile *p, enum tree_key key,
	       bool (*keep)(const struct profile_span *span, void *ctx), void *ctx,
	       struct tree *ret)
{
	CLEANUP(builder_deinit) struct builder b = {.p = p, .key = key};
	int r;

	hash_init(&b.children);
	hash_init(&b.lines);
	hash_init(&b.entry_ids);
	r = vec_push(&b.tree.nodes, (struct tree_node){});
	if (!r && key == TREE_BY_FUNCTION)
		r = fill_canonical(&b);
	for (size_t i = 1; i < p->spans.n && !r; i++) {
		const struct profile_span *span = &p->spans.at[i];

		if (keep && !keep(span, ctx))
			continue;
		for (uint32_t j = 0; j < span->n_samples && !r; j++)
			r = add_sample(&b, &p->samples.at[span->first_sample + j]);
	}
	for (size_t i = 0; i < b.entries.n && !r; i++)
		r = walk_entry(&b, &b.entries.at[i]);
	if (!r)
		r = sort_children(&b.tree);
	if (!r && key == TREE_BY_FUNCTION)
		r = fill_hot_lines(&b);
	if (r)
		return r;
	*ret = b.tree;
	b.tree = (struct tree){};
	return 0;
}

void tree_deinit(struct tree *t)
{
	vec_free(&t->nodes);
	vec_free(&t->hot_line);
}
