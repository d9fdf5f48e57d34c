/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe/warnings.h"
#include "tests/unit/unit.h"

static void each_is_told_once(void **state)
{
	struct warnings w = {};

	warnings_add(&w, "one");
	warnings_add(&w, "two");
	assert_string_equal(warnings_next(&w), "one");
	warnings_add(&w, "one");
	assert_string_equal(warnings_next(&w), "two");
	assert_null(warnings_next(&w));
	warnings_add(&w, "three");
	assert_string_equal(warnings_next(&w), "three");
	assert_null(warnings_next(&w));
	warnings_deinit(&w);
}

/* Whatever of the process is in the text; another endpoint is another matter, and so is what is unknown. */
static void what_is_missing_is_told_once_for_a_file(void **state)
{
	struct warnings w = {};
	pid_t child = fork();

	if (!child)
		pause();
	warnings_add_missing(&w, 1, getpid(), "-p 1 has none");
	warnings_add_missing(&w, 1, child, "-p 2 has none");
	warnings_add_missing(&w, 2, child, "-p 2 has no other");
	assert_string_equal(warnings_next(&w), "-p 1 has none");
	assert_string_equal(warnings_next(&w), "-p 2 has no other");
	assert_null(warnings_next(&w));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	warnings_add_missing(&w, 1, child, "-p 2 is gone");
	warnings_add_missing(&w, 1, child, "-p 3 is gone");
	assert_string_equal(warnings_next(&w), "-p 2 is gone");
	assert_string_equal(warnings_next(&w), "-p 3 is gone");
	warnings_deinit(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_is_told_once),
		cmocka_unit_test(what_is_missing_is_told_once_for_a_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
