/* SPDX-License-Identifier: Apache-2.0 */
#include "app/ratelog.h"
#include "tests/unit/unit.h"

#define SECOND 1000000000ULL

static int allowed(struct ratelog *r, uint64_t now_ns, int n, uint64_t *ret_suppressed)
{
	int n_allowed = 0;

	for (int i = 0; i < n; i++)
		n_allowed += ratelog_allow(r, now_ns, ret_suppressed);
	return n_allowed;
}

static void a_burst_passes_and_a_flood_is_cut(void **state)
{
	struct ratelog r = {};
	uint64_t suppressed = 7;

	assert_int_equal(allowed(&r, 5 * SECOND, RATELOG_BURST, &suppressed), RATELOG_BURST);
	assert_int_equal(suppressed, 0);
	assert_int_equal(allowed(&r, 5 * SECOND, 1000, &suppressed), 0);
	assert_int_equal(allowed(&r, 6 * SECOND, 1, &suppressed), 1);
	assert_int_equal(suppressed, 1000);
	assert_int_equal(allowed(&r, 6 * SECOND, 1000, &suppressed), RATELOG_PER_SECOND - 1);
}

static void credit_is_bounded(void **state)
{
	struct ratelog r = {};
	uint64_t suppressed;

	assert_true(ratelog_allow(&r, 0, &suppressed));
	assert_int_equal(allowed(&r, UINT64_MAX, 1000, &suppressed), RATELOG_BURST);
}

static void a_clock_that_stands_or_goes_back_gives_nothing(void **state)
{
	struct ratelog r = {};
	uint64_t suppressed;

	allowed(&r, 9 * SECOND, RATELOG_BURST, &suppressed);
	assert_false(ratelog_allow(&r, 9 * SECOND, &suppressed));
	assert_false(ratelog_allow(&r, SECOND, &suppressed));
	assert_true(ratelog_allow(&r, 2 * SECOND, &suppressed));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_burst_passes_and_a_flood_is_cut),
		cmocka_unit_test(credit_is_bounded),
		cmocka_unit_test(a_clock_that_stands_or_goes_back_gives_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
