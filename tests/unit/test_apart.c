/* SPDX-License-Identifier: Apache-2.0 */
/* test_apart.c: what is done apart goes on when its process, or the whole group, is killed. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe/apart.h"
#include "unit.h"

static int add_pid(void *ctx)
{
	pid_t *pids = ctx;

	pids[0] = getpid();
	pids[1] = getpgrp();
	return dup(STDERR_FILENO);
}

static void memory_and_descriptors_are_shared(void **state)
{
	pid_t pids[2] = {0};
	int fd = apart_run(add_pid, pids);

	assert_true(fd > STDERR_FILENO && close(fd) == 0);
	assert_true(pids[0] > 0 && pids[0] != getpid());
	assert_int_equal(pids[1], pids[0]);
	assert_int_equal(waitpid(-1, NULL, __WALL), -1);
	assert_int_equal(errno, ECHILD);
}

/* Tells that it has begun, waits to be told to go on, and tells that it has. */
struct talk {
	int from[2];
	int to[2];
};

static int go_on_when_told(void *ctx)
{
	const struct talk *t = ctx;
	char c;

	return write(t->from[1], "1", 1) == 1 && read(t->to[0], &c, 1) == 1 &&
			       write(t->from[1], "2", 1) == 1
		       ? 0
		       : -EIO;
}

static void goes_on_when_the_group_is_killed(void **state)
{
	struct talk t;
	int status;
	pid_t pid;
	char c;

	assert_true(pipe(t.from) == 0 && pipe(t.to) == 0);
	pid = fork();
	if (pid == 0) {
		setpgid(0, 0);
		_exit(apart_run(go_on_when_told, &t) != 0);
	}
	assert_true(read(t.from[0], &c, 1) == 1 && c == '1');
	assert_int_equal(kill(-pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	close(t.from[1]);
	assert_int_equal(write(t.to[1], "x", 1), 1);
	assert_true(read(t.from[0], &c, 1) == 1 && c == '2');
	/* Then it ends, and nobody holds the pipe any more. */
	assert_int_equal(read(t.from[0], &c, 1), 0);
	close(t.from[0]);
	close(t.to[0]);
	close(t.to[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_and_descriptors_are_shared),
		cmocka_unit_test(goes_on_when_the_group_is_killed),
	};

	return cmocka_run_group_tests_name("apart", tests, NULL, NULL);
}
