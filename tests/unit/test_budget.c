/* SPDX-License-Identifier: Apache-2.0 */
#include "task/budget.h"
#include "tests/unit/unit.h"

#define SECOND 1000000000ULL

/* Uses this share of a machine with two CPUs for some seconds; counts the changes. */
static int use(struct budget *b, unsigned int permille, int seconds, enum budget_change what)
{
	int n = 0;

	for (int i = 0; i < seconds; i++)
		n += budget_update(b, permille * SECOND / 1000 * 2, SECOND, 2) == what;
	return n;
}

static void test_without_budget(void **state)
{
	struct budget b = {};

	assert_int_equal(use(&b, 1000, 100, BUDGET_SAME), 100);
	assert_int_equal(budget_period(&b, 10), 10);
	assert_in_range((uint64_t)b.permille, 999, 1000);
}

static void test_raises_then_refuses_then_goes_back(void **state)
{
	struct budget b = {.limit_permille = 10};

	assert_int_equal(use(&b, 8, 100, BUDGET_SAME), 100);
	assert_int_equal(use(&b, 40, 6, BUDGET_RAISED), 6);
	assert_int_equal(budget_period(&b, 10), 640);
	assert_false(b.refuse);
	assert_int_equal(use(&b, 40, 10, BUDGET_REFUSES), 1);
	assert_true(b.refuse);
	assert_int_equal(b.n_refused, 1);
	assert_int_equal(use(&b, 8, 100, BUDGET_SAME), 98 + 2); /* neither high nor low */
	assert_int_equal(use(&b, 1, 15, BUDGET_ACCEPTS), 1);
	assert_int_equal(use(&b, 1, 60, BUDGET_LOWERED), 6);
	assert_int_equal(b.factor, 1);
}

static void test_one_spike_does_not_refuse(void **state)
{
	struct budget b = {.limit_permille = 10};

	use(&b, 1, 10, BUDGET_SAME);
	assert_int_equal(use(&b, 200, 1, BUDGET_RAISED), 1);
	use(&b, 1, 100, BUDGET_SAME);
	assert_false(b.refuse);
	assert_int_equal(b.n_refused, 0);
	assert_int_equal(b.factor, 1);
}

static void test_budget_taken_away(void **state)
{
	struct budget b = {.limit_permille = 10};

	use(&b, 100, 20, BUDGET_SAME);
	assert_true(b.refuse);
	b.limit_permille = 0;
	assert_int_equal(use(&b, 100, 2, BUDGET_LOWERED), 1);
	assert_false(b.refuse);
	assert_int_equal(b.factor, 1);
}

static void test_period_does_not_overflow(void **state)
{
	const struct budget b = {.factor = 64};

	assert_int_equal(budget_period(&b, UINT64_MAX / 2), UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_budget),
		cmocka_unit_test(test_raises_then_refuses_then_goes_back),
		cmocka_unit_test(test_one_spike_does_not_refuse),
		cmocka_unit_test(test_budget_taken_away),
		cmocka_unit_test(test_period_does_not_overflow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
