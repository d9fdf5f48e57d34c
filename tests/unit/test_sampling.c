/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/sampling.h"
#include "tests/unit/unit.h"

enum { MS = 1000000 };

static void set(struct sampling *s, uint32_t ep_id, uint64_t period_ns, bool enabled)
{
	const struct sampling_gate g = {{ep_id, 1}, period_ns, enabled};

	assert_int_equal(sampling_set(s, &g), 0);
}

static void test_smallest_enabled_period(void **state)
{
	struct sampling s = {};

	assert_int_equal(sampling_period(&s), 0);
	set(&s, 0, 10 * MS, true);
	set(&s, 1, 2 * MS, false);
	assert_int_equal(sampling_period(&s), 10 * MS);
	set(&s, 1, 2 * MS, true);
	assert_int_equal(s.gates.n, 2);
	assert_int_equal(sampling_period(&s), 2 * MS);
	assert_true(sampling_remove(&s, &(struct wire_gate_key){1, 1}));
	assert_false(sampling_remove(&s, &(struct wire_gate_key){1, 1}));
	assert_false(sampling_remove(&s, &(struct wire_gate_key){0, 2}));
	assert_int_equal(sampling_period(&s), 10 * MS);
	sampling_deinit(&s);
}

/* Faster than what is due, but not below a millisecond, nor slower than the period itself. */
static void test_tick(void **state)
{
	assert_int_equal(sampling_tick(0), 0);
	assert_int_equal(sampling_tick(80 * MS), 10 * MS);
	assert_int_equal(sampling_tick(8 * MS), 1 * MS);
	assert_int_equal(sampling_tick(4 * MS), 1 * MS);
	assert_int_equal(sampling_tick(1 * MS), 1 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_smallest_enabled_period),
		cmocka_unit_test(test_tick),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
