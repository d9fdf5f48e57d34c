/* SPDX-License-Identifier: Apache-2.0 */
#include "base/search.h"
#include "tests/unit/unit.h"

static void finds_the_border_wherever_it_is(void **state)
{
	int at[9];

	for (size_t n = 0; n <= 9; n++)
		for (size_t border = 0; border <= n; border++) {
			for (size_t i = 0; i < n; i++)
				at[i] = i < border ? 3 : 7;
			assert_int_equal(search_first(at, n, it, *it < 7), border);
		}
	assert_int_equal(search_first((int *)NULL, 0, it, *it < 7), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_the_border_wherever_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
