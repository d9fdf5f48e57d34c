/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/ticker.h"
#include "tests/unit/unit.h"

static void end_of_a_list_of_cpus(void **state)
{
	assert_int_equal(parse_cpus_end("0\n"), 1);
	assert_int_equal(parse_cpus_end("0-3\n"), 4);
	assert_int_equal(parse_cpus_end("0-3,8-11,127\n"), 128);
	assert_int_equal(parse_cpus_end("0-1,4-63"), 64);
}

static void what_is_no_list(void **state)
{
	assert_int_equal(parse_cpus_end(""), 0);
	assert_int_equal(parse_cpus_end("\n"), 0);
	assert_int_equal(parse_cpus_end("0-"), 0);
	assert_int_equal(parse_cpus_end("all"), 0);
	assert_int_equal(parse_cpus_end("0-99999999999999999999"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(end_of_a_list_of_cpus),
		cmocka_unit_test(what_is_no_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
