/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "app/callfilter.h"
#include "probe/apart.h"
#include "tests/unit/child.h"

static void load(void)
{
	struct errmsg e = {};

	CHILD_CHECK(freopen("/dev/null", "w", stderr) && callfilter_load(&e) == 0);
}

static void *add_one(void *arg)
{
	++*(int *)arg;
	return NULL;
}

static int add_two(void *arg)
{
	*(int *)arg += 2;
	return 7;
}

static void use(void)
{
	pthread_t thread;
	char c;
	int n = 0, fds[2], fd;

	load();
	fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	CHILD_CHECK(fd >= 0 && read(fd, &c, 1) == 1 && close(fd) == 0);
	CHILD_CHECK(pthread_create(&thread, NULL, add_one, &n) == 0);
	CHILD_CHECK(pthread_join(thread, NULL) == 0 && n == 1);
	CHILD_CHECK(apart_run(add_two, &n) == 7 && n == 3);
	CHILD_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	CHILD_CHECK(write(fds[0], "x", 1) == 1 && read(fds[1], &c, 1) == 1 && c == 'x');
	fd = memfd_create("map", MFD_CLOEXEC);
	CHILD_CHECK(fd >= 0 && close(fd) == 0);
	CHILD_CHECK(callfilter_n_refused() == 0);
}

static void misuse(void)
{
	char *argv[] = {"true", NULL};

	load();
	CHILD_CHECK(execve("/bin/true", argv, argv + 1) == -1 && errno == ENOSYS);
	CHILD_CHECK(callfilter_n_refused() == 1);
	CHILD_CHECK(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == -1 && errno == ENOSYS);
	CHILD_CHECK(syscall(SYS_fork) == -1 && errno == ENOSYS);
	CHILD_CHECK(syscall(SYS_vfork) == -1 && errno == ENOSYS);
	CHILD_CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == -1 && errno == ENOSYS);
	CHILD_CHECK(mount("none", "/", "tmpfs", 0, NULL) == -1 && errno == ENOSYS);
	CHILD_CHECK(socket(AF_PACKET, SOCK_RAW, 0) == -1 && errno == ENOSYS);
	CHILD_CHECK(syscall(SYS_setuid, 1) == -1 && errno == ENOSYS);
	CHILD_CHECK(syscall(SYS_kill, getppid(), SIGKILL) == -1 && errno == ENOSYS);
	CHILD_CHECK(syscall(SYS_process_vm_writev, getppid(), 0, 0, 0, 0, 0) == -1 &&
		    errno == ENOSYS);
	CHILD_CHECK(syscall(5000) == -1 && errno == ENOSYS);
	CHILD_CHECK(callfilter_n_refused() == 11);
	/* Refused without a word: the C library tries it for every thread. */
	CHILD_CHECK(syscall(SYS_clone3, NULL, 0) == -1 && errno == ENOSYS);
	CHILD_CHECK(callfilter_n_refused() == 11);
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
