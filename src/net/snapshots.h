/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshots.h: a finished span as the thread dumps that SkyWalking's servers analyse. Pure.
 *
 * A server gives a frame the time between two dumps in a row that both hold it, and nothing before
 * the first and after the last of such a run. So the span is laid out as runs of one stack each; a
 * run is opened and closed by a dump and has one per dump period in between, and every frame gets in
 * the server's analysis what it has in our exact tree, within one period. Dump times are whole
 * milliseconds inside the segment; the number of a dump is its index: no holes.
 */
#ifndef SPANPROF_NET_SNAPSHOTS_H
#define SPANPROF_NET_SNAPSHOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strpool.h"
#include "base/vec.h"
#include "model/profile.h"

struct snapshots_options {
	uint64_t period_ns;     /* dump period of the task; 0: 10 ms */
	uint32_t max_snapshots; /* 0: 12000, what a server analyses; above, the period is doubled */
	uint32_t max_depth;     /* frames of one stack; 0: 500 */
	bool no_lines;          /* "function" instead of "function:line" */
};

struct snapshot {
	int64_t time_ms; /* epoch */
	uint32_t path;   /* index into paths */
};

/* A distinct stack: a run in texts of string ids, outermost frame first. */
struct snapshot_path {
	uint32_t first;
	uint32_t n;
};

struct snapshots {
	struct strpool *strings; /* owned */
	VEC(uint32_t) texts;
	VEC(struct snapshot_path) paths;
	VEC(struct snapshot) list; /* never empty: at least one dump a span */
	int64_t start_ms;          /* epoch: of the segment */
	int64_t end_ms;
	uint64_t period_ns; /* in force; larger than asked for when there were too many */
	uint32_t n_deep;    /* distinct stacks whose middle was left out */
};

/* 0 or -ENOMEM; ret is set only on success. span: index into p->spans. */
int snapshots_of_span(const struct profile *p, uint32_t span, const struct snapshots_options *o,
		      struct snapshots *ret);
void snapshots_deinit(struct snapshots *s);

/* Text of frame i of a path, outermost first. */
static inline const char *snapshots_text(const struct snapshots *s, uint32_t path, uint32_t i)
{
	return strpool_get(s->strings, s->texts.at[s->paths.at[path].first + i]);
}

#endif
