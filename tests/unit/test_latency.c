/* SPDX-License-Identifier: Apache-2.0 */
#include "model/latency.h"
#include "tests/unit/unit.h"

/* The rule of bpf/wire.h, written out. */
static void bucket_follows_the_wire_rule(void **state)
{
	assert_int_equal(latency_bucket(0), 0);
	assert_int_equal(latency_bucket(15), 15);
	assert_int_equal(latency_bucket(16), 16);
	assert_int_equal(latency_bucket(31), 31);
	assert_int_equal(latency_bucket(32), 32);
	assert_int_equal(latency_bucket(33), 32);
	assert_int_equal(latency_bucket(34), 33);
	assert_int_equal(latency_bucket(1ULL << 43), 640);
	assert_int_equal(latency_bucket((1ULL << 44) - 1), 655);
	assert_int_equal(latency_bucket(UINT64_MAX), 655);
}

static void bucket_low_is_the_first_value_of_its_bucket(void **state)
{
	for (unsigned int i = 0; i < WIRE_HIST_BUCKETS; i++) {
		assert_int_equal(latency_bucket(latency_bucket_low(i)), i);
		if (i)
			assert_int_equal(latency_bucket(latency_bucket_low(i) - 1), i - 1);
	}
	assert_int_equal(latency_bucket_low(WIRE_HIST_BUCKETS), 1ULL << 44);
}

static void quantile_of_nothing_is_zero(void **state)
{
	struct latency l = {};

	assert_int_equal(latency_quantile(&l, 0.5), 0);
}

static void quantile_is_near_the_true_one(void **state)
{
	static struct latency l;

	for (uint64_t us = 1; us <= 10000; us++) {
		l.bucket[latency_bucket(us * 1000)]++;
		l.n_leave++;
	}
	l.max_ns = 10000000;
	for (int percent = 1; percent < 100; percent++) {
		uint64_t truth = percent * 100000ULL;
		uint64_t got = latency_quantile(&l, percent / 100.0);

		assert_in_range(got, truth - truth / 50, truth + truth / 50);
	}
}

static void quantile_is_at_most_the_maximum(void **state)
{
	struct latency l = {.max_ns = 1000001};

	l.bucket[latency_bucket(1000001)] = 1;
	assert_int_equal(latency_quantile(&l, 0.999), 1000001);
}

static void quantile_of_one_call_is_that_call(void **state)
{
	struct latency l = {.sum_ns = 501100000, .max_ns = 501100000};

	l.bucket[latency_bucket(501100000)] = 1;
	assert_int_equal(latency_quantile(&l, 0.01), 501100000);
	assert_int_equal(latency_quantile(&l, 0.5), 501100000);
	assert_int_equal(latency_quantile(&l, 0.99), 501100000);
}

/* Of two calls the sum tells the shorter one, which bounds the median. */
static void quantile_is_at_least_the_minimum(void **state)
{
	struct latency l = {.sum_ns = 501000000 + 500000000, .max_ns = 501000000};

	l.bucket[latency_bucket(500000000)]++;
	l.bucket[latency_bucket(501000000)]++;
	assert_in_range(latency_quantile(&l, 0.5), 500000000, 501000000);
	assert_int_equal(latency_quantile(&l, 0.99), 501000000);
}

static void wire_histograms_add_up(void **state)
{
	static struct wire_latency a = {.n_enter = 3, .n_leave = 2, .n_slow = 1, .sum_ns = 50};
	static struct wire_latency b = {
		.n_enter = 4, .n_leave = 4, .n_unknown = 2, .n_unwound = 1, .max_ns = 9};
	struct latency l = {};

	a.bucket[7] = 0xffffffff;
	b.bucket[7] = 2;
	latency_add_wire(&l, &a);
	latency_add_wire(&l, &b);
	assert_int_equal(l.n_enter, 7);
	assert_int_equal(l.n_leave, 6);
	assert_int_equal(l.n_slow, 1);
	assert_int_equal(l.n_unknown, 2);
	assert_int_equal(l.n_unwound, 1);
	assert_int_equal(l.sum_ns, 50);
	assert_int_equal(l.max_ns, 9);
	assert_true(l.bucket[7] == 0x100000001ULL);
}

static void difference_has_the_later_calls_only(void **state)
{
	struct latency now = {.n_enter = 10, .n_leave = 9, .sum_ns = 900, .max_ns = 5000000};
	struct latency before = {.n_enter = 4, .n_leave = 4, .sum_ns = 500, .max_ns = 5000000};

	now.bucket[latency_bucket(100)] = 8;
	now.bucket[latency_bucket(5000000)] = 1;
	before.bucket[latency_bucket(100)] = 3;
	before.bucket[latency_bucket(5000000)] = 1;
	latency_sub(&now, &before);
	assert_int_equal(now.n_enter, 6);
	assert_int_equal(now.n_leave, 5);
	assert_int_equal(now.sum_ns, 400);
	assert_int_equal(now.bucket[latency_bucket(100)], 5);
	assert_int_equal(now.bucket[latency_bucket(5000000)], 0);
	/* The long call was earlier: the maximum is bounded by the bucket that is left. */
	assert_in_range(now.max_ns, 100, 110);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bucket_follows_the_wire_rule),
		cmocka_unit_test(bucket_low_is_the_first_value_of_its_bucket),
		cmocka_unit_test(quantile_of_nothing_is_zero),
		cmocka_unit_test(quantile_is_near_the_true_one),
		cmocka_unit_test(quantile_is_at_most_the_maximum),
		cmocka_unit_test(quantile_of_one_call_is_that_call),
		cmocka_unit_test(quantile_is_at_least_the_minimum),
		cmocka_unit_test(wire_histograms_add_up),
		cmocka_unit_test(difference_has_the_later_calls_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
