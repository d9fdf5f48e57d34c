/* SPDX-License-Identifier: Apache-2.0 */
#include "task/watermark.h"
#include "tests/unit/unit.h"

static void test_only_forward(void **state)
{
	struct watermarks w = {};
	uint64_t a = watermark_key("oap", "svc", "i1"), b = watermark_key("oap", "svc", "i2");

	assert_int_not_equal(a, b);
	assert_int_equal(watermarks_get(&w, a), -1);
	assert_true(watermarks_move(&w, a, 1000, 5000));
	assert_false(watermarks_move(&w, a, 1000, 5000));
	assert_false(watermarks_move(&w, a, 999, 5000));
	assert_true(watermarks_move(&w, b, 1, 5000));
	assert_true(watermarks_move(&w, a, 1001, 5000));
	assert_int_equal(watermarks_get(&w, a), 1001);
	assert_int_equal(watermarks_get(&w, b), 1);
	watermarks_deinit(&w);
}

static void test_names_do_not_run_together(void **state)
{
	assert_int_not_equal(watermark_key("a", "bc", "d"), watermark_key("ab", "c", "d"));
	assert_int_not_equal(watermark_key("a", "bc", "d"), watermark_key("a", "b", "cd"));
}

static void test_wrong_clock_of_the_server(void **state)
{
	struct watermarks w = {};

	assert_false(watermarks_move(&w, 7, INT64_MAX, 5000));
	assert_false(watermarks_move(&w, 7, INT64_MIN, 5000));
	assert_int_equal(watermarks_get(&w, 7), -1);
	watermarks_deinit(&w);
}

static void test_bounded(void **state)
{
	struct watermarks w = {.max = 8};

	for (int i = 0; i < 100; i++)
		assert_true(watermarks_move(&w, (uint64_t)i * 0x9e3779b97f4a7c15ULL, i, i));
	assert_int_equal(w.marks.n, 8);
	for (int i = 92; i < 100; i++)
		assert_int_equal(watermarks_get(&w, (uint64_t)i * 0x9e3779b97f4a7c15ULL), i);
	watermarks_deinit(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_forward),
		cmocka_unit_test(test_names_do_not_run_together),
		cmocka_unit_test(test_wrong_clock_of_the_server),
		cmocka_unit_test(test_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
