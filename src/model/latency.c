/* SPDX-License-Identifier: Apache-2.0 */
/*
 * latency.c: arithmetic on logarithmic latency histograms (the bucket rule is in bpf/wire.h).
 *
 * A bucket is at most 1/16 as wide as its values, so a quantile is off by at most 6 %; it is
 * interpolated inside its bucket and never above the largest duration seen.
 */
#include "model/latency.h"

#include <assert.h>

enum { LAST_BUCKET = WIRE_HIST_BUCKETS - 1 };

unsigned int latency_bucket(uint64_t ns)
{
	uint64_t log2, bucket;

	if (ns < WIRE_HIST_SUB)
		return ns;
	log2 = 63 - __builtin_clzll(ns);
	bucket = (log2 - 3) * WIRE_HIST_SUB + ((ns >> (log2 - 4)) & (WIRE_HIST_SUB - 1));
	return bucket < LAST_BUCKET ? bucket : LAST_BUCKET;
}

uint64_t latency_bucket_low(unsigned int bucket)
{
	unsigned int log2;

	if (bucket < WIRE_HIST_SUB)
		return bucket;
	assert(bucket <= WIRE_HIST_BUCKETS);
	log2 = bucket / WIRE_HIST_SUB + 3;
	return (uint64_t)(WIRE_HIST_SUB + bucket % WIRE_HIST_SUB) << (log2 - 4);
}

void latency_add_wire(struct latency *to, const struct wire_latency *from)
{
	to->n_enter += from->n_enter;
	to->n_leave += from->n_leave;
	to->n_slow += from->n_slow;
	to->n_unknown += from->n_unknown;
	to->sum_ns += from->sum_ns;
	if (to->max_ns < from->max_ns)
		to->max_ns = from->max_ns;
	for (unsigned int i = 0; i < WIRE_HIST_BUCKETS; i++)
		to->bucket[i] += from->bucket[i];
}

static void sub(uint64_t *to, uint64_t from)
{
	*to = *to > from ? *to - from : 0;
}

void latency_sub(struct latency *to, const struct latency *from)
{
	uint64_t high = 0;

	sub(&to->n_enter, from->n_enter);
	sub(&to->n_leave, from->n_leave);
	sub(&to->n_slow, from->n_slow);
	sub(&to->n_unknown, from->n_unknown);
	sub(&to->sum_ns, from->sum_ns);
	for (unsigned int i = 0; i < WIRE_HIST_BUCKETS; i++) {
		sub(&to->bucket[i], from->bucket[i]);
		if (to->bucket[i])
			high = i + 1 < WIRE_HIST_BUCKETS ? latency_bucket_low(i + 1) - 1
							 : to->max_ns;
	}
	/* The largest duration may be of an earlier call: then the highest bucket bounds it. */
	if (to->max_ns > high)
		to->max_ns = high;
}

uint64_t latency_quantile(const struct latency *l, double q)
{
	uint64_t population = 0, below = 0, low, high, value;
	double rank;

	for (unsigned int i = 0; i < WIRE_HIST_BUCKETS; i++)
		population += l->bucket[i];
	if (!population)
		return 0;
	rank = q * population;
	for (unsigned int i = 0; i < WIRE_HIST_BUCKETS; i++) {
		if (!l->bucket[i] || below + l->bucket[i] < rank) {
			below += l->bucket[i];
			continue;
		}
		low = latency_bucket_low(i);
		high = latency_bucket_low(i + 1);
		value = low + (uint64_t)((high - low) * ((rank - below) / l->bucket[i]));
		return value < l->max_ns ? value : l->max_ns;
	}
	return l->max_ns;
}
