/* SPDX-License-Identifier: Apache-2.0 */
/* test_limits.c: which endpoints an instance is probed for. */
#include "pipe/limits.h"
#include "tests/unit/unit.h"

static void all_endpoints_without_a_limit(void **state)
{
	struct limits l = {};

	assert_int_equal(limits_get(&l, 1), UINT64_MAX);
	assert_int_equal(limits_set(&l, 1, 0), 0);
	assert_int_equal(limits_get(&l, 1), 0);
	assert_int_equal(limits_get(&l, 2), UINT64_MAX);
	limits_deinit(&l);
}

static void the_last_limit_counts(void **state)
{
	struct limits l = {};

	for (uint32_t i = 1; i <= 100; i++)
		assert_int_equal(limits_set(&l, i, i), 0);
	assert_int_equal(limits_set(&l, 50, 1ULL << 63), 0);
	assert_int_equal(l.all.n, 100);
	for (uint32_t i = 1; i <= 100; i++)
		assert_int_equal(limits_get(&l, i), i == 50 ? 1ULL << 63 : i);
	limits_deinit(&l);
}

/* The first, the last, the only one, and one that is not there. */
static void removed_ones_have_none(void **state)
{
	struct limits l = {};

	limits_remove(&l, 1);
	for (uint32_t i = 1; i <= 3; i++)
		assert_int_equal(limits_set(&l, i, i), 0);
	limits_remove(&l, 1);
	limits_remove(&l, 1);
	assert_int_equal(limits_get(&l, 1), UINT64_MAX);
	assert_int_equal(limits_get(&l, 2), 2);
	assert_int_equal(limits_get(&l, 3), 3);
	limits_remove(&l, 2);
	assert_int_equal(limits_get(&l, 2), UINT64_MAX);
	assert_int_equal(limits_get(&l, 3), 3);
	limits_remove(&l, 3);
	assert_int_equal(limits_get(&l, 3), UINT64_MAX);
	assert_int_equal(l.all.n, 0);
	limits_deinit(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_endpoints_without_a_limit),
		cmocka_unit_test(the_last_limit_counts),
		cmocka_unit_test(removed_ones_have_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
