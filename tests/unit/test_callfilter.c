/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/callfilter.h"
#include "tests/unit/unit.h"

#define CHECK(condition)                           \
	do {                                       \
		if (!(condition))                  \
			_exit(__LINE__ % 200 + 1); \
	} while (0)

/* The filter is for good: each test is a child of its own, whose exit status says which line failed. */
static void in_child(void (*fn)(void))
{
	struct errmsg e = {};
	pid_t pid = fork();
	int status;

	if (!pid) {
		if (freopen("/dev/null", "w", stderr) == NULL || callfilter_load(&e))
			_exit(255);
		fn();
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void *add_one(void *arg)
{
	++*(int *)arg;
	return NULL;
}

static void use(void)
{
	pthread_t thread;
	char c;
	int n = 0, fds[2], fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0 && read(fd, &c, 1) == 1 && close(fd) == 0);
	CHECK(pthread_create(&thread, NULL, add_one, &n) == 0);
	CHECK(pthread_join(thread, NULL) == 0 && n == 1);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	CHECK(write(fds[0], "x", 1) == 1 && read(fds[1], &c, 1) == 1 && c == 'x');
	CHECK(callfilter_n_refused() == 0);
}

static void misuse(void)
{
	char *argv[] = {"true", NULL};

	CHECK(execve("/bin/true", argv, argv + 1) == -1 && errno == ENOSYS);
	CHECK(callfilter_n_refused() == 1);
	CHECK(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == -1 && errno == ENOSYS);
	CHECK(syscall(SYS_fork) == -1 && errno == ENOSYS);
	CHECK(syscall(SYS_vfork) == -1 && errno == ENOSYS);
	CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == -1 && errno == ENOSYS);
	CHECK(mount("none", "/", "tmpfs", 0, NULL) == -1 && errno == ENOSYS);
	CHECK(socket(AF_PACKET, SOCK_RAW, 0) == -1 && errno == ENOSYS);
	CHECK(syscall(SYS_setuid, 1) == -1 && errno == ENOSYS);
	CHECK(syscall(SYS_kill, getppid(), SIGKILL) == -1 && errno == ENOSYS);
	CHECK(syscall(SYS_process_vm_writev, getppid(), 0, 0, 0, 0, 0) == -1 && errno == ENOSYS);
	CHECK(syscall(5000) == -1 && errno == ENOSYS);
	CHECK(callfilter_n_refused() == 11);
	/* Refused without a word: the C library tries it for every thread. */
	CHECK(syscall(SYS_clone3, NULL, 0) == -1 && errno == ENOSYS);
	CHECK(callfilter_n_refused() == 11);
}

static void what_the_daemon_does_is_allowed(void **state)
{
	in_child(use);
}

static void the_rest_is_refused_and_counted(void **state)
{
	in_child(misuse);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_daemon_does_is_allowed),
		cmocka_unit_test(the_rest_is_refused_and_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
