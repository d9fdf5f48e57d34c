/* SPDX-License-Identifier: Apache-2.0 */
/* What the watcher tells of processes that start, fork and end, and what it leaves out. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipe/watch.h"
#include "tests/unit/unit.h"

/* Other processes of the machine come and go as well: only those of this test are looked at. */
struct heard {
	struct watch *w;
	pid_t pid;
	int n[WATCH_EXIT + 1];
	struct watch_event last;
};

static void on_event(void *ctx, const struct watch_event *event)
{
	struct heard *h = ctx;

	if ((pid_t)event->tgid != h->pid)
		return;
	h->n[event->kind]++;
	h->last = *event;
}

static void open_watch(struct watch **ret, const struct watch_options *options)
{
	struct errmsg e = {};

	if (geteuid()) {
		print_message("needs root\n");
		skip();
	}
	if (watch_new(ret, options, &e))
		fail_msg("%s", e.text);
}

static const struct watch_options generous = {.per_second = 100000, .burst = 100000};

/* Runs /bin/true with this environment, and hears what is told of it. */
static struct heard run_true(struct watch *w, char *const *env)
{
	struct heard h = {.w = w};
	char *argv[] = {"true", NULL};

	h.pid = fork();
	if (!h.pid) {
		execve("/bin/true", argv, env);
		_exit(1);
	}
	waitpid(h.pid, NULL, 0);
	watch_poll(w, on_event, &h);
	return h;
}

static void ruled_out_files_are_told_for_their_environment_only(void **state)
{
	static char long_text[5000] = "LONG=", big[3000] = "NAME_OF_IT=x"; /* cut by its NUL */
	char *none[] = {"PATH=/bin", "A=b", "NAMES=x", NULL};
	char *with[] = {"PATH=/bin", long_text, "NAME=x", NULL};
	char *with_long[] = {long_text, big, NULL};
	const char *short_name[] = {"NAME"}, *long_name[] = {"OTHER", "NAME_OF_IT"};
	struct watch *w;
	struct heard h;

	memset(long_text + 5, 'x', sizeof(long_text) - 6);
	open_watch(&w, &generous);
	watch_filter(w, short_name, 1);
	h = run_true(w, none);
	assert_int_equal(h.n[WATCH_EXEC], 1);
	assert_true(h.last.file.ino != 0 && h.last.file.dev != 0);
	watch_rule_out(w, &h.last.file);
	assert_int_equal(run_true(w, none).n[WATCH_EXEC], 0);
	assert_int_equal(run_true(w, with).n[WATCH_EXEC], 1);
	assert_int_equal(run_true(w, with_long).n[WATCH_EXEC], 0);

	watch_filter(w, long_name, 2);
	assert_int_equal(run_true(w, none).n[WATCH_EXEC], 1); /* forgotten */
	watch_rule_out(w, &h.last.file);
	assert_int_equal(run_true(w, none).n[WATCH_EXEC], 0);
	assert_int_equal(run_true(w, with_long).n[WATCH_EXEC], 1);

	watch_filter(w, NULL, 0);
	watch_rule_out(w, &h.last.file);
	assert_int_equal(run_true(w, none).n[WATCH_EXEC], 1);
	watch_free(w);
}

static void followed_processes_tell_of_forks_and_ends(void **state)
{
	struct heard h = {}, child = {};
	struct watch *w;
	int status;

	open_watch(&w, &generous);
	h.pid = fork();
	if (!h.pid) {
		raise(SIGSTOP);
		if (fork())
			wait(NULL);
		_exit(0);
	}
	assert_int_equal(waitpid(h.pid, &status, WUNTRACED), h.pid);
	assert_int_equal(watch_follow(w, h.pid), 0);
	kill(h.pid, SIGCONT);
	waitpid(h.pid, NULL, 0);
	watch_poll(w, on_event, &h);
	assert_int_equal(h.n[WATCH_FORK], 1);
	assert_int_equal(h.n[WATCH_EXIT], 1);
	assert_int_equal(h.last.kind, WATCH_EXIT);

	/* Nobody else's. */
	child.pid = fork();
	if (!child.pid)
		_exit(0);
	waitpid(child.pid, NULL, 0);
	watch_poll(w, on_event, &child);
	assert_int_equal(child.n[WATCH_EXIT], 0);
	watch_free(w);
}

static void more_than_the_limit_is_counted(void **state)
{
	const struct watch_options stingy = {.per_second = 1, .burst = 3};
	char *none[] = {NULL};
	struct watch *w;
	int told = 0;

	open_watch(&w, &stingy);
	watch_filter(w, NULL, 0);
	for (int i = 0; i < 200; i++)
		told += run_true(w, none).n[WATCH_EXEC];
	assert_true(told < 150);
	assert_true(watch_n_unsent(w) >= (uint64_t)(200 - told));
	watch_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ruled_out_files_are_told_for_their_environment_only),
		cmocka_unit_test(followed_processes_tell_of_forks_and_ends),
		cmocka_unit_test(more_than_the_limit_is_counted),
	};

	return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
