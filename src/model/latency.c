/* SPDX-License-Identifier: Apache-2.0 */
/*
 * latency.c: arithmetic on logarithmic latency histograms (the bucket rule is in bpf/wire.h).
 *
 * A bucket is at most 1/16 as wide as its values, so a quantile is off by at most 6 %; it is
 * interpolated inside its bucket and never beyond what is known of the largest and smallest one.
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
	to->n_unwound += from->n_unwound;
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
	sub(&to->n_unwound, from->n_unwound);
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

/* What the smallest of n durations is at least: the sum, were all others the largest. */
static uint64_t at_least(const struct latency *l, uint64_t n)
{
	uint64_t others;

	if (__builtin_mul_overflow(n - 1, l->max_ns, &others) || others > l->sum_ns)
		return 0;
	return l->sum_ns - others;
}

/* The rank-th smallest (from 1) of the n durations in a bucket, as if they lay evenly in it. */
static uint64_t inside(unsigned int bucket, uint64_t rank, uint64_t n)
{
	uint64_t low = latency_bucket_low(bucket), width = latency_bucket_low(bucket + 1) - low;

	return low + (uint64_t)(width * ((rank - 0.5) / n));
}

uint64_t latency_quantile(const struct latency *l, double q)
{
	uint64_t population = 0, below = 0, rank, value = 0, min;

	for (unsigned int i = 0; i < WIRE_HIST_BUCKETS; i++)
		population += l->bucket[i];
	if (!population)
		return 0;
	rank = (uint64_t)(q * population);
	rank += rank < q * population;
	if (rank >= population)
		return l->max_ns;
	for (unsigned int i = 0; i < WIRE_HIST_BUCKETS; i++) {
		if (below + l->bucket[i] >= rank) {
			value = inside(i, rank ? rank - below : 1, l->bucket[i]);
			break;
		}
		below += l->bucket[i];
	}
	min = at_least(l, population);
	value = value > min ? value : min;
	return value < l->max_ns ? value : l->max_ns;
}
