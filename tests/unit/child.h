/* SPDX-License-Identifier: Apache-2.0 */
/* child.h: tests of what a process does to itself for good: in a child, whose exit status says which line failed. */
#ifndef SPANPROF_TESTS_UNIT_CHILD_H
#define SPANPROF_TESTS_UNIT_CHILD_H

#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"

#define CHILD_CHECK(condition)                     \
	do {                                       \
		if (!(condition))                  \
			_exit(__LINE__ % 200 + 1); \
	} while (0)

static inline void in_child(void (*fn)(void))
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		fn();
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

#endif
