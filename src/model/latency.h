/* SPDX-License-Identifier: Apache-2.0 */
/*
 * latency.h: the latency histogram of an endpoint: counts and quantiles. Pure.
 */
#ifndef SPANPROF_MODEL_LATENCY_H
#define SPANPROF_MODEL_LATENCY_H

#include <stdint.h>

#include "bpf/wire.h"

/* The sum over CPUs of struct wire_latency, with 64-bit buckets. */
struct latency {
	uint64_t n_enter;
	uint64_t n_leave;
	uint64_t n_slow;
	uint64_t n_unknown;
	uint64_t n_unwound; /* of n_unknown: left by an exception or longjmp */
	uint64_t sum_ns;
	uint64_t max_ns;
	uint64_t bucket[WIRE_HIST_BUCKETS];
};

void latency_add_wire(struct latency *to, const struct wire_latency *from);

/* to -= from, for the calls of an interval; from is an earlier state of the same histogram. */
void latency_sub(struct latency *to, const struct latency *from);

/* Index of the bucket that holds ns, and the bucket's [low, high) in ns. */
unsigned int latency_bucket(uint64_t ns);
uint64_t latency_bucket_low(unsigned int bucket);

/*
 * The q-quantile (0 < q < 1), interpolated inside its bucket and never beyond the largest duration
 * or below what the sum leaves for the smallest; 0 when empty. Of one call it is that call.
 */
uint64_t latency_quantile(const struct latency *l, double q);

#endif
