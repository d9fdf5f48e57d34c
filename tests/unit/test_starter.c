/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/starter.h"
#include "base/cleanup.h"
#include "tests/unit/unit.h"

/* Words that other programs take are in the integration tests, too. */
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

/* Whether a process that has got this word may start something. */
static bool may_start(const char *word)
{
	int fds[2];
	char c;
	pid_t pid;
	bool is;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		execl("/proc/self/exe", "waits", word, (char *)NULL);
		_exit(1);
	}
	assert_true(pid > 0);
	close(fds[1]);
	assert_int_equal(read(fds[0], &c, 1), 0); /* it has called exec */
	close(fds[0]);
	is = starter_is(pid);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return is;
}

static void a_word_may_be_a_program(void **state)
{
	assert_true(may_start("/bin/ls"));
	assert_true(may_start("ls"));
	assert_false(may_start("/etc/passwd"));
	assert_false(may_start("/bin"));
	assert_false(may_start("no-such-program"));
}

/* Somebody may wait for a reader of it. */
static void a_pipe_is_not_opened(void **state)
{
	AUTO_CLOSE int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	char dir[] = "/tmp/spanprof-XXXXXX", path[64], event[512];

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/pipe", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(chmod(path, 0755), 0);
	assert_true(inotify_add_watch(fd, path, IN_OPEN) >= 0);
	assert_false(may_start(path));
	assert_int_equal(read(fd, event, sizeof(event)), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(unlink(path) | rmdir(dir), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_shell_may_start_anything),
		cmocka_unit_test(a_process_that_is_gone_starts_nothing),
		cmocka_unit_test(a_word_may_be_a_program),
		cmocka_unit_test(a_pipe_is_not_opened),
	};

	if (argc > 1)
		for (;;)
			pause();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
