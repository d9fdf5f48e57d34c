/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proc/process.h"
#include "tests/unit/unit.h"

static void test_this_process_is_described(void **state)
{
	struct process p;
	struct errmsg e = {};
	char path[PROCESS_PATH_MAX], shown[PROCESS_PATH_MAX];

	assert_int_equal(process_read(getpid(), &p, &e), 0);
	assert_int_equal(p.pid, getpid());
	assert_int_equal(p.parent, getppid());
	assert_true(p.start_ticks > 0);
	assert_true(p.exe_ino != 0);
	assert_int_equal(process_check_supported(&p, &e), 0);
	assert_true(process_is_alive(&p));
	process_exe_path(getpid(), path, sizeof(path));
	assert_non_null(strstr(path, "test_process"));
	process_shown_path(getpid(), shown, sizeof(shown));
	assert_string_equal(shown, path);
}

static void test_missing_process_is_named(void **state)
{
	struct process p;
	struct errmsg e = {};

	assert_int_equal(process_read(0x3fffffff, &p, &e), -ESRCH);
	assert_non_null(strstr(e.text, "1073741823"));
}

static void *report_tid(void *arg)
{
	int *fds = arg;
	pid_t tid = syscall(SYS_gettid);
	char c;

	if (write(fds[1], &tid, sizeof(tid)) != sizeof(tid) || read(fds[2], &c, 1) < 0)
		return arg;
	return NULL;
}

static void test_thread_id_is_refused_with_its_process(void **state)
{
	int to_main[2], to_thread[2], fds[3];
	struct errmsg e = {};
	struct process p;
	pthread_t thread;
	pid_t tid;

	assert_int_equal(pipe(to_main), 0);
	assert_int_equal(pipe(to_thread), 0);
	fds[1] = to_main[1];
	fds[2] = to_thread[0];
	assert_int_equal(pthread_create(&thread, NULL, report_tid, fds), 0);
	assert_int_equal(read(to_main[0], &tid, sizeof(tid)), sizeof(tid));
	assert_int_equal(process_read(tid, &p, &e), -ESRCH);
	assert_non_null(strstr(e.text, "is a thread of process"));
	assert_int_equal(write(to_thread[1], "x", 1), 1);
	pthread_join(thread, NULL);
	for (int i = 0; i < 2; i++) {
		close(to_main[i]);
		close(to_thread[i]);
	}
}

static void test_forked_child_is_a_worker(void **state)
{
	CLEANUP(process_list_deinit) struct process_list all = {};
	CLEANUP(process_list_deinit) struct process_list workers = {};
	struct process me, child;
	pid_t pid = fork();

	if (!pid) {
		pause();
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(process_scan(&all), 0);
	assert_int_equal(process_workers(&all, getpid(), &workers), 0);
	assert_int_equal(workers.n, 1);
	assert_int_equal(workers.at[0].pid, pid);
	assert_int_equal(process_read(getpid(), &me, NULL), 0);
	assert_int_equal(process_read(pid, &child, NULL), 0);
	assert_true(process_forks(&me));
	assert_true(process_forks(&child));
	assert_true(process_is_left(pid, child.start_ticks));
	assert_false(process_is_left(pid, child.start_ticks + 1)); /* it was there before */
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_false(process_is_alive(&child));
	assert_false(process_is_left(pid, child.start_ticks));
}

static void test_tracer(void **state)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		pause();
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(process_tracer(pid), 0);
	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0)
		assert_int_equal(process_tracer(pid), getpid());
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	assert_int_equal(process_tracer(pid), 0);
}

/* Whoever asks: of a process, or of a file that one may run later. */
static void test_foreign_programs(void **state)
{
	Elf64_Ehdr h = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64}, .e_machine = EM_AARCH64};
	struct errmsg e = {};
	int fd = memfd_create("program", MFD_CLOEXEC);

	assert_int_equal(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
	assert_int_equal(process_check_program(fd, "it", &e), -ENOEXEC);
	assert_string_equal(e.text,
			    "it has code for aarch64 (ELF machine 183): run an x86-64 build of it");
	h.e_machine = EM_X86_64;
	assert_int_equal(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
	assert_int_equal(process_check_program(fd, "it", &e), 0);
	assert_int_equal(ftruncate(fd, 30), 0);
	assert_int_equal(process_check_program(fd, "it", &e), -ENOEXEC);
	assert_non_null(strstr(e.text, "not an ELF file"));
	h.e_ident[EI_CLASS] = ELFCLASS32;
	assert_int_equal(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
	assert_int_equal(process_check_program(fd, "it", &e), -ENOEXEC);
	assert_non_null(strstr(e.text, "32-bit"));
	assert_int_equal(pwrite(fd, "#!", 2, 0), 2);
	assert_int_equal(process_check_program(fd, "it", &e), -ENOEXEC);
	assert_non_null(strstr(e.text, "script"));
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_this_process_is_described),
		cmocka_unit_test(test_missing_process_is_named),
		cmocka_unit_test(test_thread_id_is_refused_with_its_process),
		cmocka_unit_test(test_forked_child_is_a_worker),
		cmocka_unit_test(test_tracer),
		cmocka_unit_test(test_foreign_programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
