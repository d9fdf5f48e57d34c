/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "task/instances.h"
#include "tests/unit/unit.h"

/* Of this program, as it was started. */
static char *title;

/* Children of the test are the processes: they match by the variable that they are started with. */
struct world {
	struct rules *rules;
	struct instances *t;
	char log[4096];
	int n_up, n_down, n_process_up, n_process_down;
};

static void on_up(void *ctx, const struct instance *i, bool accepts)
{
	struct world *w = ctx;

	w->n_up++;
	snprintf(w->log + strlen(w->log), sizeof(w->log) - strlen(w->log), "+%s/%s ", i->service,
		 i->name);
}

static void on_down(void *ctx, const struct instance *i)
{
	struct world *w = ctx;

	w->n_down++;
	snprintf(w->log + strlen(w->log), sizeof(w->log) - strlen(w->log), "-%s/%s ", i->service,
		 i->name);
}

static void on_process_up(void *ctx, const struct instance *i, pid_t pid)
{
	((struct world *)ctx)->n_process_up++;
}

static void on_process_down(void *ctx, const struct instance *i, pid_t pid)
{
	((struct world *)ctx)->n_process_down++;
}

static void on_accepts(void *ctx, const struct instance *i, bool accepts)
{
	struct world *w = ctx;

	snprintf(w->log + strlen(w->log), sizeof(w->log) - strlen(w->log), "%s%s ",
		 accepts ? "allow " : "deny ", i->name);
}

static struct rules *rules_of(const char *text)
{
	struct rules *r = NULL;
	struct errmsg e;

	if (parse_rules(text, strlen(text), "t", &r, &e))
		fail_msg("%s", e.text);
	return r;
}

static void setup(struct world *w, const char *rules)
{
	const struct instances_options o = {.hostname = "h",
					    .up = on_up,
					    .down = on_down,
					    .process_up = on_process_up,
					    .process_down = on_process_down,
					    .accepts = on_accepts,
					    .ctx = w};

	memset(w, 0, sizeof(*w));
	w->rules = rules_of(rules);
	assert_int_equal(instances_new(&w->t, w->rules, &o, NULL), 0);
}

static void reload(struct world *w, const char *rules)
{
	struct rules *next = rules_of(rules);

	assert_int_equal(instances_reload(w->t, next), 0);
	rules_free(w->rules);
	w->rules = next;
}

static void teardown(struct world *w)
{
	instances_free(w->t);
	rules_free(w->rules);
}

static void variable_name(char v[32])
{
	snprintf(v, 32, "SPANPROF_UNIT_%d", getpid());
}

/*
 * Starts `sleep` with NAME in its environment; it is there under its final name when this returns.
 */
static pid_t start(const char *name)
{
	char v[32], variable[64], *argv[] = {"sleep", "1000", NULL}, *env[] = {variable, NULL};
	int ready[2];
	char byte;
	pid_t pid;

	variable_name(v);
	snprintf(variable, sizeof(variable), "%s=%s", v, name);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		execve("/bin/sleep", argv, env);
		_exit(127);
	}
	close(ready[1]);
	/* The pipe is closed by exec: end of file means that the new program runs. */
	assert_int_equal(read(ready[0], &byte, 1), 0);
	close(ready[0]);
	return pid;
}

static void stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Matches the children of this run of the test only: others may run at the same time. */
static const char *by_env(const char *prefix)
{
	static char text[512];
	char v[32];

	variable_name(v);
	snprintf(text, sizeof(text),
		 "%sservices: [{name: svc, match: [{env: [\"%s=one\", %s]}, {env: [\"%s=two\"]}],"
		 " instance: \"i-{env:%s}\"}]\n",
		 prefix, v, v, v, v);
	return text;
}

static void test_up_and_down(void **state)
{
	struct world w;
	pid_t a, b;
	const pid_t *pids;

	setup(&w, by_env(""));
	a = start("one");
	b = start("two");
	assert_int_equal(instances_scan(w.t), 0);
	assert_string_equal(w.log, a < b ? "+svc/i-one +svc/i-two " : "+svc/i-two +svc/i-one ");
	assert_int_equal(instances_scan(w.t), 0);
	assert_int_equal(w.n_process_up, 2);
	assert_int_equal(instances_pids(w.t, instances_at(w.t, 0)->id, &pids), 1);
	assert_null(instances_at(w.t, 2));
	w.log[0] = 0;
	stop(a);
	instances_scan(w.t);
	assert_string_equal(w.log, "-svc/i-one ");
	stop(b);
	instances_on_exit(w.t, b);
	assert_int_equal(w.n_down, 2);
	teardown(&w);
}

/* A fork of this test that forks again: parent and children are one instance. */
static pid_t start_prefork(int n, int *ret_fd)
{
	int ready[2];
	char byte = 1;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		for (int i = 0; i < n; i++) {
			if (!fork()) {
				if (write(ready[1], &byte, 1) == 1)
					pause();
				_exit(0);
			}
		}
		pause();
		_exit(0);
	}
	for (int i = 0; i < n; i++)
		assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[1]);
	*ret_fd = ready[0];
	return pid;
}

static void test_prefork_is_one_instance_and_survives_its_parent(void **state)
{
	char rules[4400], exe[4096] = "";
	struct world w;
	const pid_t *pids;
	uint32_t id;
	pid_t pid;
	int fd;

	/* This very program is matched: it is the root, its child and grandchildren follow. */
	assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	snprintf(rules, sizeof(rules), "services: [{name: pre, match: [{exe: \"%s\"}]}]\n", exe);
	setup(&w, rules);
	pid = start_prefork(3, &fd);
	instances_scan(w.t);
	assert_int_equal(w.n_up, 1);
	assert_int_equal(w.n_process_up, 5);
	id = instances_at(w.t, 0)->id;
	assert_int_equal(instances_pids(w.t, id, &pids), 5);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (int i = 0; i < 40; i++)
		instances_scan(w.t);
	assert_int_equal(w.n_up, 1); /* orphans stay in their instance */
	assert_int_equal(w.n_down, 0);
	assert_int_equal(instances_pids(w.t, id, &pids), 4);
	for (int i = 3; i >= 0; i--)
		if (pids[i] != getpid())
			kill(pids[i], SIGKILL);
	close(fd);
	teardown(&w);
}

/* A fork of the test writes over its arguments, then makes a fork that does so as well. */
static pid_t start_retitled(int *ret_fd)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		if (fork()) {
			memset(title, 'p', strlen(title));
			pause();
			_exit(0);
		}
		memset(title, 'w', strlen(title));
		if (write(ready[1], "x", 1) == 1)
			pause();
		_exit(0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[1]);
	*ret_fd = ready[0];
	return pid;
}

static void test_forks_that_change_their_title(void **state)
{
	char rules[8400], exe[4096] = "";
	const pid_t *pids;
	struct world w;
	size_t n;
	pid_t pid;
	int fd;

	assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	snprintf(rules, sizeof(rules),
		 "services: [{name: t, match: [{exe: \"%s\", cmdline: \"%s*\"}]}]\n", exe, title);
	setup(&w, rules);
	pid = start_retitled(&fd);
	for (int i = 0; i < 20; i++)
		instances_scan(w.t);
	assert_string_equal(strchr(w.log, ' '), " ");
	n = instances_pids(w.t, instances_at(w.t, 0)->id, &pids);
	assert_int_equal(n, 3);
	/* The grandchild has no parent any more that says what it is. */
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (int i = 0; i < 20; i++)
		instances_scan(w.t);
	n = instances_pids(w.t, instances_at(w.t, 0)->id, &pids);
	assert_int_equal(n, 2);
	/* The same service with other words: what the orphan was, it is. */
	snprintf(
		rules, sizeof(rules),
		"services: [{name: u, match: [{exe: /nonexistent}]}, {name: t, match: [{exe: \"%s\", cmdline: \"%s*\"}], deny: [x]}]\n",
		exe, title);
	reload(&w, rules);
	assert_int_equal(instances_pids(w.t, instances_at(w.t, 0)->id, &pids), 2);
	for (size_t i = 0; i < n; i++)
		if (pids[i] != getpid())
			kill(pids[i], SIGKILL);
	close(fd);

	/* Another program is no fork of the same. */
	pid = start("one");
	instances_on_fork(w.t, getpid(), pid);
	assert_int_equal(instances_of_pid(w.t, pid), 0);
	stop(pid);

	/* Rules that know none of them. */
	reload(&w, "services: [{name: t, match: [{exe: /nonexistent, cmdline: x}]}]\n");
	assert_null(instances_at(w.t, 0));
	teardown(&w);
}

static void test_short_lived_processes_leave_nothing(void **state)
{
	struct instances_stats before, after;
	struct world w;

	setup(&w, by_env(""));
	instances_scan(w.t);
	instances_stats(w.t, &before);
	for (int i = 0; i < 300; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		if (i % 10 == 0)
			instances_scan(w.t);
		instances_on_fork(w.t, getpid(), pid);
		waitpid(pid, NULL, 0);
	}
	instances_scan(w.t);
	instances_stats(w.t, &after);
	/* Others of the machine come and go meanwhile. */
	assert_true(after.n_watched <= before.n_watched + 150);
	assert_int_equal(after.n_processes, 0);
	teardown(&w);
}

static void test_held_instance_outlives_its_processes(void **state)
{
	struct world w;
	pid_t a;
	uint32_t id;

	setup(&w, by_env(""));
	a = start("one");
	instances_scan(w.t);
	id = instances_at(w.t, 0)->id;
	instances_hold(w.t, id);
	stop(a);
	instances_scan(w.t);
	assert_int_equal(w.n_down, 1);
	assert_null(instances_at(w.t, 0));
	assert_string_equal(instances_find(w.t, id)->name, "i-one");
	instances_release(w.t, id);
	assert_null(instances_find(w.t, id));
	teardown(&w);
}

static void test_reload(void **state)
{
	struct world w;
	char v[32], text[256];
	uint32_t id;
	pid_t a;

	variable_name(v);
	setup(&w, by_env(""));
	a = start("one");
	instances_scan(w.t);
	id = instances_at(w.t, 0)->id;
	w.log[0] = 0;

	/* Same names from another rule: nothing happens but what has changed. */
	snprintf(text, sizeof(text),
		 "services: [{name: svc, match: [{exe: \"*/sleep\", env: [%s]}], instance: i-one,"
		 " deny: [\"i-*\"]}]\n",
		 v);
	reload(&w, text);
	assert_string_equal(w.log, "deny i-one ");
	assert_int_equal(instances_at(w.t, 0)->id, id);
	assert_false(instances_accepts(w.t, id));
	w.log[0] = 0;

	snprintf(text, sizeof(text),
		 "services: [{name: other, match: [{env: [%s]}], instance: x}]\n", v);
	reload(&w, text);
	assert_string_equal(w.log, "-svc/i-one +other/x ");
	assert_int_not_equal(instances_at(w.t, 0)->id, id);
	stop(a);
	teardown(&w);
}

static void test_limit_of_instances(void **state)
{
	struct instances_stats stats;
	struct world w;
	pid_t a, b;

	setup(&w, by_env("limits: {instances: 1}\n"));
	a = start("one");
	b = start("two");
	instances_scan(w.t);
	instances_stats(w.t, &stats);
	assert_int_equal(stats.n_instances, 1);
	assert_true(stats.n_refused >= 1);
	stop(a);
	stop(b);
	teardown(&w);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_up_and_down),
		cmocka_unit_test(test_prefork_is_one_instance_and_survives_its_parent),
		cmocka_unit_test(test_short_lived_processes_leave_nothing),
		cmocka_unit_test(test_held_instance_outlives_its_processes),
		cmocka_unit_test(test_reload),
		cmocka_unit_test(test_limit_of_instances),
		cmocka_unit_test(test_forks_that_change_their_title),
	};

	title = argv[0];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
