/* SPDX-License-Identifier: Apache-2.0 */
/*
 * textpaths.h: the stacks of one span as paths of texts, as a SkyWalking server compares them. Pure.
 *
 * A server merges stacks by equal texts from the outermost frame on. So every path of a span starts
 * with the same text, the endpoint's function without a line; a stack that does not reach it is put
 * below it with a frame that says why; and of a stack that is too deep the middle is left out, not
 * the root. Two stacks with the same texts are one path. Used by snapshots.c only.
 */
#ifndef SPANPROF_NET_TEXTPATHS_H
#define SPANPROF_NET_TEXTPATHS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/strpool.h"
#include "base/vec.h"
#include "model/profile.h"

/* One text below one parent. */
struct textpath_node {
	uint32_t text; /* string */
	uint32_t parent;
	int64_t deficit_ns; /* for the user of the paths; 0 at first */
};

struct textpath {
	uint32_t first; /* of node_runs: [0] is the root */
	uint32_t n;
	int64_t deficit_ns; /* the same, for time spent in the last frame itself */
	bool synthetic;     /* made up by us: no dump was taken */
};

struct textpaths {
	const struct profile *profile;   /* borrowed */
	struct strpool *strings;         /* owned */
	VEC(struct textpath_node) nodes; /* [0] is the root */
	VEC(uint32_t) node_runs;
	VEC(struct textpath) list;
	struct hash children; /* parent << 32 | text -> node */
	struct hash by_leaf;  /* last node -> path */
	struct hash by_stack; /* stack -> path */
	struct hash frames;   /* module << 32 | frame -> text */
	VEC(uint32_t) scratch;
	const char *root_function; /* borrowed from the profile */
	uint32_t max_depth;
	bool no_lines;
	uint32_t n_deep;
};

int textpaths_init(struct textpaths *ret, const struct profile *p, uint32_t span,
		   uint32_t max_depth, bool no_lines);
void textpaths_deinit(struct textpaths *ps);

/* The path of a stack of the profile; 0 or -ENOMEM. */
int textpaths_of_stack(struct textpaths *ps, uint32_t stack, uint32_t *ret_path);

#endif
