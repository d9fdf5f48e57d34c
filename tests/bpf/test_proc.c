/* SPDX-License-Identifier: Apache-2.0 */
/* Membership follows fork, exec and exit; what was open ends with the right reason. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"
#include "tests/unit/unit.h"

#define MS       1000000ULL
#define ENDPOINT __attribute__((noinline, noclone))

static ENDPOINT long quick(void *arg)
{
	__asm__ volatile("");
	return 0;
}

static ENDPOINT long slow_exit(void *arg)
{
	rig_sleep(3 * MS);
	_exit(5);
}

static ENDPOINT long slow_exec(void *arg)
{
	rig_sleep(3 * MS);
	execl("/bin/true", "true", NULL);
	return 0;
}

static ENDPOINT long slow_kill(void *arg)
{
	rig_sleep(3 * MS);
	raise(SIGKILL);
	return 0;
}

static int child_quick(void *arg)
{
	rig_call(quick, NULL);
	rig_call(quick, NULL);
	return 3;
}

static int child_of(void *arg)
{
	return (int)rig_call((long (*)(void *))arg, NULL);
}

static void member(struct rig *rig, uint32_t flags)
{
	const struct wire_member m = {.instance_id = RIG_INSTANCE, .as_id = RIG_AS, .flags = flags};

	assert_int_equal(kern_member_set(rig->kern, getpid(), &m), 0);
}

static void children_are_followed_on_request(void **state)
{
	const struct event *fork, *exit;
	struct wire_member m;
	struct rig rig;
	pid_t pid;

	rig_open(&rig, NULL);
	rig_endpoint(&rig, 0, quick, NULL);
	rig_child(child_quick, NULL);
	assert_int_equal(rig_latency(&rig, 0).n_enter, 0);
	member(&rig, WIRE_MEMBER_F_FOLLOW_FORK);
	pid = rig_child(child_quick, NULL);
	assert_int_equal(rig_latency(&rig, 0).n_enter, 2);
	assert_int_equal(rig_latency(&rig, 0).n_leave, 2);
	rig_drain(&rig);
	fork = rig_event(&rig, WIRE_K_FORK, 0);
	assert_non_null(fork);
	assert_int_equal(fork->h->tgid, getpid());
	assert_int_equal(fork->proc->child_tgid, pid);
	assert_int_equal(fork->proc->as_id, RIG_AS);
	assert_int_equal(fork->proc->instance_id, RIG_INSTANCE);
	exit = rig_event_of(&rig, WIRE_K_EXIT, (uint32_t)pid);
	assert_non_null(exit);
	assert_int_equal(WEXITSTATUS((int)exit->proc->exit_code), 3);
	assert_int_equal(kern_member_get(rig.kern, pid, &m), -ENOENT);
	rig_close(&rig);
}

/* Each record leads to another one, as long as there are less than a hundred. */
static int fork_again(void *ctx, const void *data, size_t bytes)
{
	int *n = ctx;

	if (++*n < 100)
		rig_child(child_quick, NULL);
	return 0;
}

static void a_poll_ends_though_records_keep_coming(void **state)
{
	struct rig rig;
	int n = 0;

	rig_open(&rig, NULL);
	rig_endpoint(&rig, 0, quick, NULL);
	member(&rig, WIRE_MEMBER_F_FOLLOW_FORK);
	rig_child(child_quick, NULL);
	assert_true(kern_poll(rig.kern, 0, fork_again, &n) > 0);
	if (n > 20)
		fail_msg("%d records in one poll", n);
	while (kern_poll(rig.kern, 0, fork_again, &n) > 0)
		;
	assert_true(n >= 100);
	rig_close(&rig);
}

/* A slow span in a child that ends with it. */
static void assert_child_ends(long (*fn)(void *arg), enum wire_end_reason reason, int status)
{
	const struct event *end, *exit;
	struct rig rig;
	pid_t pid;
	int got;

	rig_open(&rig, NULL);
	rig_gate(&rig, 0, MS, 10 * MS);
	rig_endpoint(&rig, 0, fn, NULL);
	member(&rig, WIRE_MEMBER_F_FOLLOW_FORK);
	pid = fork();
	if (!pid)
		_exit(child_of((void *)fn));
	assert_int_equal(waitpid(pid, &got, 0), pid);
	assert_int_equal(got, status);
	rig_drain(&rig);
	end = rig_event_of(&rig, WIRE_K_END, (uint32_t)pid);
	assert_non_null(end);
	assert_int_equal(end->end->reason, reason);
	assert_true(rig_duration(end) >= 3 * MS);
	assert_int_equal(rig_latency(&rig, 0).n_unknown, 1);
	exit = rig_event_of(&rig, WIRE_K_EXIT, (uint32_t)pid);
	if (reason == WIRE_END_EXEC) {
		/* Told of, and nobody's since then. */
		assert_non_null(rig_event_of(&rig, WIRE_K_EXEC, (uint32_t)pid));
		assert_null(exit);
	} else {
		assert_non_null(exit);
		assert_int_equal(exit->proc->exit_code, status);
	}
	rig_close(&rig);
}

static void exit_ends_spans(void **state)
{
	assert_child_ends(slow_exit, WIRE_END_PROCESS_EXIT, 5 << 8);
}

static void kill_ends_spans(void **state)
{
	assert_child_ends(slow_kill, WIRE_END_PROCESS_EXIT, SIGKILL);
}

static void exec_ends_spans(void **state)
{
	assert_child_ends(slow_exec, WIRE_END_EXEC, 0);
}

static void exec_of_a_watched_file_joins(void **state)
{
	const struct wire_member m = {.instance_id = 77, .flags = WIRE_MEMBER_F_FOLLOW_FORK};
	struct wire_file_key file;
	const struct event *exec;
	struct rig rig;
	int fd = open("/bin/true", O_RDONLY | O_CLOEXEC);
	pid_t pid;

	assert_true(fd >= 0);
	rig_open(&rig, NULL);
	assert_int_equal(kern_file_key(fd, &file), 0);
	assert_int_equal(kern_watch_exe(rig.kern, &file, &m), 0);
	pid = rig_child(child_of, (void *)slow_exec);
	rig_drain(&rig);
	exec = rig_event_of(&rig, WIRE_K_EXEC, (uint32_t)pid);
	assert_non_null(exec);
	assert_int_equal(exec->proc->instance_id, 77);
	assert_true(exec->proc->as_id >= KERN_AS_ID_BPF);
	assert_int_equal(exec->proc->exe_ino, file.ino);
	assert_int_equal(exec->proc->exe_dev, file.dev);
	assert_string_equal(exec->proc->comm, "true");
	assert_non_null(rig_event_of(&rig, WIRE_K_EXIT, (uint32_t)pid));
	assert_int_equal(kern_unwatch_exe(rig.kern, &file), 0);
	pid = rig_child(child_of, (void *)slow_exec);
	rig_drain(&rig);
	assert_null(rig_event_of(&rig, WIRE_K_EXEC, (uint32_t)pid));
	close(fd);
	rig_close(&rig);
}

/* A process that forks inside a call: the child's return is nobody's. */
static ENDPOINT long fork_inside(void *arg)
{
	return fork();
}

static void fork_inside_a_call(void **state)
{
	struct rig rig;
	pid_t pid;
	int status;

	rig_open(&rig, NULL);
	rig_endpoint(&rig, 0, fork_inside, NULL);
	member(&rig, WIRE_MEMBER_F_FOLLOW_FORK);
	pid = (pid_t)rig_call(fork_inside, NULL);
	if (!pid)
		_exit(9);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 9);
	assert_int_equal(rig_latency(&rig, 0).n_enter, 1);
	assert_int_equal(rig_latency(&rig, 0).n_leave, 1);
	assert_int_equal(rig_latency(&rig, 0).n_unknown, 0);
	rig_close(&rig);
}

static void full_table_is_counted(void **state)
{
	const struct kern_options options = {.max_members = 1};
	struct rig rig;

	rig_open(&rig, &options);
	rig_endpoint(&rig, 0, quick, NULL);
	member(&rig, WIRE_MEMBER_F_FOLLOW_FORK);
	rig_child(child_quick, NULL);
	assert_int_equal(rig_counter(&rig, WIRE_C_MEMBER_FULL), 1);
	assert_int_equal(rig_latency(&rig, 0).n_enter, 0);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(children_are_followed_on_request),
		cmocka_unit_test(a_poll_ends_though_records_keep_coming),
		cmocka_unit_test(exit_ends_spans),
		cmocka_unit_test(kill_ends_spans),
		cmocka_unit_test(exec_ends_spans),
		cmocka_unit_test(exec_of_a_watched_file_joins),
		cmocka_unit_test(fork_inside_a_call),
		cmocka_unit_test(full_table_is_counted),
	};

	return cmocka_run_group_tests_name("proc", tests, NULL, NULL);
}
