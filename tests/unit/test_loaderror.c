/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/loaderror.h"
#include "tests/unit/unit.h"

static void the_reason_is_the_last_line(void **state)
{
	char log[] = "0: R1=ctx()\n1: (85) call foo#7\nunknown func foo#7\n"
		     "processed 2 insns (limit 1000000)\nverification time 9 usec\n";

	assert_string_equal(loaderror_reason(log), "unknown func foo#7");
}

/* A log that was too small for its end: not its first line, which says nothing. */
static void a_log_without_an_end(void **state)
{
	char log[] = "func#0 @0\n0: R1=ctx()\n1: (85) call foo#7\n";

	assert_string_equal(loaderror_reason(log), "1: (85) call foo#7");
}

static void no_log(void **state)
{
	char none[] = "", empty[] = "\n\n";

	assert_string_equal(loaderror_reason(none), "no reason given");
	assert_string_equal(loaderror_reason(empty), "no reason given");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_reason_is_the_last_line),
		cmocka_unit_test(a_log_without_an_end),
		cmocka_unit_test(no_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
