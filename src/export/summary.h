/* SPDX-License-Identifier: Apache-2.0 */
/* summary.h: what the exporters say of the spans of one endpoint. Pure. */
#ifndef SPANPROF_EXPORT_SUMMARY_H
#define SPANPROF_EXPORT_SUMMARY_H

#include "model/profile.h"

struct summary_name {
	uint32_t name;       /* string */
	uint64_t n_slow;     /* spans longer than the endpoint's threshold */
	uint64_t n_profiled; /* spans with samples */
	uint64_t max_ns;
};

struct summary {
	VEC(uint32_t) spans;            /* indexes of spans, longest first */
	VEC(struct summary_name) names; /* the one with the longest span first */
	uint64_t n_slow; /* calls above the threshold: returned, left otherwise, or still open */
	uint64_t n_slow_left; /* spans above it that did not return, or whose end was lost */
	uint64_t max_ns;      /* of them all */
	uint64_t n_unseen;    /* calls whose end was not seen, without those left by an exception */
	uint64_t n_profiled;
	uint64_t n_returned; /* spans */
	uint64_t n_unfinished;
	uint16_t max_reason; /* enum wire_end_reason of the longest call, if a span tells */
	uint64_t n_due;      /* snapshots, over all spans */
	uint64_t n_kept;
	uint64_t n_incomplete;
};

/* ret is all-zero before. 0 or -ENOMEM. */
int summary_init(struct summary *ret, const struct profile *p, uint32_t endpoint);
/* The same without spans and names, which stay empty. */
void summary_counts(struct summary *ret, const struct profile *p, uint32_t endpoint);
/* The figures of spans over all endpoints. */
void summary_totals(struct summary *ret, const struct profile *p);
void summary_deinit(struct summary *s);

/*
 * The q-quantile (0 < q < 1) of the calls that returned, of which l is the histogram: by the spans where each of
 * them has one, else by the histogram, which is off by up to 6 %. 0: none has returned.
 */
uint64_t summary_quantile(const struct summary *s, const struct profile *p, const struct latency *l,
			  double q);
/* 1 when none were due. */
double summary_completeness(const struct summary *s);

uint64_t summary_span_ns(const struct profile_span *s);

#endif
