/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/prctl.h>
#include <unistd.h>

#include "app/starter.h"
#include "tests/unit/unit.h"

/* Which words count is in the integration tests: they take other programs. */
static void a_shell_may_start_anything(void **state)
{
	assert_false(starter_is(getpid()));
	prctl(PR_SET_NAME, "bash");
	assert_true(starter_is(getpid()));
	prctl(PR_SET_NAME, "bashful");
	assert_false(starter_is(getpid()));
}

static void a_process_that_is_gone_starts_nothing(void **state)
{
	assert_false(starter_is(1 << 22));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_shell_may_start_anything),
		cmocka_unit_test(a_process_that_is_gone_starts_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
