/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oap_analysis.h: how a SkyWalking server turns snapshots into trees, written down a second time.
 *
 * For each range: the lowest and highest sequence inside it, then everything between those; at most
 * `limit` sequences of each range; equal sequences once. Stacks merge from the outermost frame. A
 * node's duration is the time from first to last hit of each run of consecutive sequences.
 */
#ifndef SPANPROF_TESTS_OAP_ANALYSIS_H
#define SPANPROF_TESTS_OAP_ANALYSIS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

struct oap_dump {
	int64_t time_ms;
	int sequence;
	const char *const *frames; /* outermost first */
	size_t n_frames;
};

struct oap_node {
	const char *text;
	size_t parent; /* 0: none; node 0 is above all trees */
	int count;
	int64_t duration_ms;
	int64_t self_ms;
	int last_sequence;
	int64_t last_ms;
};

struct oap_tree {
	VEC(struct oap_node) nodes;
};

struct oap_range {
	int64_t start_ms, end_ms;
};

static inline size_t oap_child(struct oap_tree *t, size_t parent, const char *text)
{
	for (size_t i = 1; i < t->nodes.n; i++)
		if (t->nodes.at[i].parent == parent && strcmp(t->nodes.at[i].text, text) == 0)
			return i;
	if (vec_push(&t->nodes, (struct oap_node){.text = text, .parent = parent}))
		abort();
	return t->nodes.n - 1;
}

static inline bool oap_wanted(const struct oap_dump *d, size_t n, int sequence,
			      const struct oap_range *ranges, size_t n_ranges, int limit)
{
	for (size_t r = 0; r < n_ranges; r++) {
		int low = -1, high = -1;

		for (size_t i = 0; i < n; i++) {
			if (d[i].time_ms < ranges[r].start_ms || d[i].time_ms > ranges[r].end_ms)
				continue;
			if (low < 0 || d[i].sequence < low)
				low = d[i].sequence;
			if (d[i].sequence > high)
				high = d[i].sequence;
		}
		if (low >= 0 && sequence >= low && sequence <= high && sequence < low + limit)
			return true;
	}
	return false;
}

static inline void oap_hit(struct oap_node *node, const struct oap_dump *d)
{
	if (node->count && node->last_sequence + 1 == d->sequence)
		node->duration_ms += d->time_ms - node->last_ms;
	node->count++;
	node->last_sequence = d->sequence;
	node->last_ms = d->time_ms;
}

/* The dumps must be ordered by sequence, each sequence once. */
static inline void oap_analyse(const struct oap_dump *d, size_t n, const struct oap_range *ranges,
			       size_t n_ranges, int limit, struct oap_tree *ret)
{
	*ret = (struct oap_tree){};
	if (vec_push(&ret->nodes, (struct oap_node){.text = ""}))
		abort();
	for (size_t i = 0; i < n; i++) {
		size_t node = 0;

		/* One range over all is the usual case; the check is quadratic. */
		if (n_ranges && !oap_wanted(d, n, d[i].sequence, ranges, n_ranges, limit))
			continue;
		for (size_t j = 0; j < d[i].n_frames; j++) {
			node = oap_child(ret, node, d[i].frames[j]);
			oap_hit(&ret->nodes.at[node], &d[i]);
		}
	}
	for (size_t i = 1; i < ret->nodes.n; i++)
		ret->nodes.at[i].self_ms += ret->nodes.at[i].duration_ms;
	for (size_t i = 1; i < ret->nodes.n; i++)
		ret->nodes.at[ret->nodes.at[i].parent].self_ms -= ret->nodes.at[i].duration_ms;
}

#endif
