/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.h: samples merged into a tree of frames. Pure.
 *
 * Nodes are keyed by the path of frames (inlined frames are nodes of their own). The tree's root
 * stands for the endpoint: its total is the sum of the samples' wall time, which for one span is
 * its duration. Its child is the endpoint's function, several when the endpoint names several.
 */
#ifndef SPANPROF_MODEL_TREE_H
#define SPANPROF_MODEL_TREE_H

#include "model/profile.h"

struct tree_node {
	uint32_t frame;  /* index into profile.frames; 0 for the root */
	uint32_t parent; /* node index */
	uint32_t
		first_child; /* node index, 0: none; children are ordered by total, largest first */
	uint32_t next_sibling;
	uint64_t total_ns;
	uint64_t self_ns;
	uint64_t count; /* snapshots that have this node in their stack */
	uint64_t self_by_kind[SAMPLE_KIND_MAX];
	uint64_t total_by_kind[SAMPLE_KIND_MAX];
	uint64_t self_by_cause[BLOCK_CAUSE_MAX];
	uint64_t incomplete_ns; /* of total_ns: in stacks that end before the endpoint's frame */
};

enum tree_key {
	TREE_BY_LINE,     /* every distinct frame is a node: lines of one function are told apart */
	TREE_BY_FUNCTION, /* the default of the text output: the line shown is the hottest one */
};

struct tree {
	VEC(struct tree_node) nodes; /* [0] is the root */
	VEC(uint32_t)
	hot_line; /* TREE_BY_FUNCTION: the frame with the largest total of each node */
};

/* Merges the samples of the spans for which keep() says true (NULL: all). 0 or -ENOMEM. */
int tree_build(const struct profile *p, enum tree_key key,
	       bool (*keep)(const struct profile_span *span, void *ctx), void *ctx,
	       struct tree *ret);
void tree_deinit(struct tree *t);

#endif
