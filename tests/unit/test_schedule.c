/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/schedule_world.h"

static void test_local_task_from_start_to_finish(void **state)
{
	struct fixture f;
	struct task t = make("t1", "");

	setup(&f, NULL);
	up(&f, 1, "svc", "i1", true);
	up(&f, 2, "other", "i2", true);
	assert_int_equal(schedule_submit(f.s, &t, 0, f.now, NULL), TASK_ACCEPTED);
	expect_log(&f, "event received; start t1@i1; event started@i1");
	assert_int_equal(schedule_task_at(f.s, 0)->state, TASK_STATE_RUNNING);
	pass(&f, 59 * SECOND);
	expect_log(&f, "");
	assert_int_equal(schedule_deadline(f.s, f.now), f.now.mono_ns + SECOND);
	pass(&f, SECOND);
	expect_log(&f, "stop t1@i1; event finished@i1");
	schedule_flushed(f.s, schedule_task_at(f.s, 0), 1, f.now);
	expect_log(&f, "finished finished@i1");
	assert_int_equal(schedule_task_at(f.s, 0)->state, TASK_STATE_FINISHED);
	schedule_flushed(f.s, schedule_task_at(f.s, 0), 1, f.now);
	pass(&f, 600 * SECOND);
	expect_log(&f, "");
	teardown(&f);
}

static void test_finished_without_flush_report(void **state)
{
	struct fixture f;
	struct task t = make("t1", "");

	setup(&f, NULL);
	up(&f, 1, "svc", "i1", true);
	schedule_submit(f.s, &t, 0, f.now, NULL);
	pass(&f, 60 * SECOND);
	drain(&f);
	pass(&f, 2 * SECOND);
	expect_log(&f, "finished finished@i1");
	teardown(&f);
}

/* Each delivery is a run of its own; a task for another instance moves on without a run. */
static void test_delivered_to_one_instance_only(void **state)
{
	struct fixture f;
	struct task t = make("t1", "i2");

	setup(&f, NULL);
	up(&f, 1, "svc", "i1", true);
	up(&f, 2, "svc", "i2", true);
	assert_int_equal(schedule_submit(f.s, &t, 1, f.now, NULL), TASK_NOT_FOR_US);
	expect_log(&f, "event not_for_us@i1");
	assert_int_equal(schedule_n_tasks(f.s), 0);
	assert_int_equal(schedule_submit(f.s, &t, 2, f.now, NULL), TASK_ACCEPTED);
	expect_log(&f, "event received@i2; start t1@i2; event started@i2");
	teardown(&f);
}

static void test_delivered_runs_have_their_own_duration(void **state)
{
	struct fixture f;
	struct task t = make("t1", "");

	setup(&f, NULL);
	up(&f, 1, "svc", "i1", true);
	up(&f, 2, "svc", "i2", true);
	schedule_submit(f.s, &t, 1, f.now, NULL);
	pass(&f, 20 * SECOND);
	assert_int_equal(schedule_submit(f.s, &t, 2, f.now, NULL), TASK_ACCEPTED);
	drain(&f);
	pass(&f, 40 * SECOND);
	expect_log(&f, "stop t1@i1; event finished@i1");
	pass(&f, 2 * SECOND);
	expect_log(&f, "finished finished@i1");
	pass(&f, 18 * SECOND);
	expect_log(&f, "stop t1@i2; event finished@i2");
	teardown(&f);
}

static void test_delivered_again(void **state)
{
	struct fixture f;
	struct task t = make("t1", "");

	setup(&f, NULL);
	up(&f, 1, "svc", "i1", true);
	schedule_submit(f.s, &t, 1, f.now, NULL);
	drain(&f);
	assert_int_equal(schedule_submit(f.s, &t, 1, f.now, NULL), TASK_KNOWN);
	expect_log(&f, "");
	t.period_ns = 20000000;
	assert_int_equal(schedule_submit(f.s, &t, 1, f.now, NULL), TASK_KNOWN);
	expect_log(&f, "event note");
	assert_int_equal(schedule_submit(f.s, &t, 1, f.now, NULL), TASK_KNOWN);
	expect_log(&f, "");
	pass(&f, 60 * SECOND);
	pass(&f, 2 * SECOND);
	drain(&f);
	assert_int_equal(schedule_submit(f.s, &t, 1, f.now, NULL), TASK_KNOWN);
	expect_log(&f, "");
	teardown(&f);
}

static void test_start_in_the_past_runs_in_full(void **state)
{
	struct fixture f;
	struct task t = make("t1", "");

	setup(&f, NULL);
	up(&f, 1, "svc", "i1", true);
	t.start_ms = 1;
	schedule_submit(f.s, &t, 1, f.now, NULL);
	drain(&f);
	pass(&f, 59 * SECOND);
	expect_log(&f, "");
	pass(&f, SECOND);
	expect_log(&f, "stop t1@i1; event finished@i1");
	teardown(&f);
}

static void test_overlap(void **state)
{
	struct fixture f;
	struct task a = make("a", ""), b = make("b", ""), c = make("c", "i2"), d = make("d", "");
	struct errmsg e = {};

	setup(&f, NULL);
	up(&f, 1, "svc", "i1", true);
	up(&f, 2, "svc", "i2", true);
	snprintf(a.instance, sizeof(a.instance), "i1");
	assert_int_equal(schedule_submit(f.s, &a, 0, f.now, &e), TASK_ACCEPTED);
	assert_int_equal(schedule_submit(f.s, &b, 0, f.now, &e), TASK_REFUSED);
	assert_non_null(strstr(e.text, "overlaps with task 'a'"));
	/* another instance, another endpoint, another source, a later time: no overlap */
	assert_int_equal(schedule_submit(f.s, &c, 0, f.now, &e), TASK_ACCEPTED);
	snprintf(d.endpoint, sizeof(d.endpoint), "GET:/b");
	assert_int_equal(schedule_submit(f.s, &d, 0, f.now, &e), TASK_ACCEPTED);
	b.start_ms = f.now.real_ms + 60001;
	assert_int_equal(schedule_submit(f.s, &b, 0, f.now, &e), TASK_ACCEPTED);
	snprintf(a.source, sizeof(a.source), "control");
	assert_int_equal(schedule_submit(f.s, &a, 0, f.now, &e), TASK_ACCEPTED);
	teardown(&f);
}

static void test_max_running_makes_others_wait(void **state)
{
	const struct schedule_limits limits = {.max_running = 1};
	struct fixture f;
	struct task a = make("a", ""), b = make("b", "");

	setup(&f, &limits);
	up(&f, 1, "svc", "i1", true);
	snprintf(b.endpoint, sizeof(b.endpoint), "GET:/b");
	schedule_submit(f.s, &a, 0, f.now, NULL);
	schedule_submit(f.s, &b, 0, f.now, NULL);
	expect_log(&f, "event received; start a@i1; event started@i1; event received");
	pass(&f, 60 * SECOND);
	schedule_tick(f.s, f.now);
	expect_log(&f, "stop a@i1; event finished@i1; start b@i1; event started@i1");
	teardown(&f);
}

static void test_count_of_spans(void **state)
{
	struct fixture f;
	struct task t = make("t1", "");
	struct schedule_task *st;

	setup(&f, NULL);
	up(&f, 1, "svc", "i1", true);
	t.end_by_count = true;
	schedule_submit(f.s, &t, 0, f.now, NULL);
	drain(&f);
	st = schedule_task_at(f.s, 0);
	assert_true(schedule_take_span(f.s, st, 1, f.now));
	assert_true(schedule_take_span(f.s, st, 1, f.now));
	expect_log(&f, "");
	assert_true(schedule_take_span(f.s, st, 1, f.now));
	expect_log(&f, "stop t1@i1; event finished@i1");
	assert_false(schedule_take_span(f.s, st, 1, f.now));
	assert_false(schedule_take_span(f.s, st, 2, f.now));
	assert_int_equal(st->n_spans, 3);
	teardown(&f);
}

static void test_cancel(void **state)
{
	struct fixture f;
	struct task t = make("t1", ""), q = make("t2", "");
	struct errmsg e;

	setup(&f, NULL);
	up(&f, 1, "svc", "i1", true);
	schedule_submit(f.s, &t, 0, f.now, NULL);
	q.start_ms = f.now.real_ms + 3600000;
	schedule_submit(f.s, &q, 0, f.now, NULL);
	drain(&f);
	assert_int_equal(schedule_cancel(f.s, "oap", "nope", f.now, &e), -ENOENT);
	assert_int_equal(schedule_cancel(f.s, "oap", "t2", f.now, &e), 0);
	expect_log(&f, "event cancelled@i1"); /* was never started: nothing to report */
	assert_int_equal(schedule_cancel(f.s, "oap", "t1", f.now, &e), 0);
	expect_log(&f, "stop t1@i1; event cancelled@i1");
	pass(&f, 2 * SECOND);
	expect_log(&f, "finished cancelled@i1");
	assert_int_equal(schedule_cancel(f.s, "oap", "t1", f.now, &e), -EALREADY);
	teardown(&f);
}

static void test_loss_of_all_processes(void **state)
{
	struct fixture f;
	struct task t = make("t1", "");

	setup(&f, NULL);
	up(&f, 1, "svc", "i1", true);
	schedule_submit(f.s, &t, 0, f.now, NULL);
	drain(&f);
	schedule_instance_down(f.s, 1, f.now);
	expect_log(&f, "stop t1@i1; event lost@i1");
	pass(&f, 2 * SECOND);
	expect_log(&f, "finished lost@i1");
	assert_int_equal(schedule_task_at(f.s, 0)->state, TASK_STATE_FINISHED);
	teardown(&f);
}

/* A permanent task follows its instances for ever, with bounded memory. */
static void test_permanent_task_and_churn(void **state)
{
	struct fixture f;
	struct task t = make("t1", "");
	char name[32];

	setup(&f, NULL);
	t.duration_ns = 0;
	assert_int_equal(schedule_submit(f.s, &t, 0, f.now, NULL), TASK_NOT_FOR_US);
	for (uint32_t i = 1; i <= 1000; i++) {
		snprintf(name, sizeof(name), "i%u", i);
		up(&f, i, "svc", name, true);
		pass(&f, SECOND);
		schedule_instance_down(f.s, i, f.now);
		pass(&f, 2 * SECOND);
		drain(&f);
		assert_non_null(strstr(f.log, "finished lost"));
	}
	assert_int_equal(schedule_task_at(f.s, 0)->state, TASK_STATE_QUEUED);
	assert_int_equal(schedule_task_at(f.s, 0)->runs.n, 64);
	assert_int_equal(schedule_task_at(f.s, 0)->n_old_runs, 936);
	up(&f, 2000, "svc", "new", true);
	drain(&f);
	assert_string_equal(f.log, "start t1@new; event started@new");
	teardown(&f);
}

static void test_rules_deny(void **state)
{
	struct fixture f;
	struct task t = make("t1", "");
	struct errmsg e = {};

	setup(&f, NULL);
	up(&f, 1, "svc", "i1", false);
	assert_int_equal(schedule_submit(f.s, &t, 1, f.now, &e), TASK_NOT_FOR_US);
	assert_non_null(strstr(e.text, "rules do not let"));
	assert_int_equal(schedule_submit(f.s, &t, 0, f.now, &e), TASK_NOT_FOR_US);
	drain(&f);
	schedule_instance_accepts(f.s, 1, true, f.now);
	expect_log(&f, "start t1@i1; event started@i1");
	schedule_instance_accepts(f.s, 1, false, f.now);
	expect_log(&f, "stop t1@i1; event cancelled@i1");
	teardown(&f);
}

static void test_unmatched_local_task_ends(void **state)
{
	struct fixture f;
	struct task t = make("t1", "nobody");

	setup(&f, NULL);
	assert_int_equal(schedule_submit(f.s, &t, 0, f.now, NULL), TASK_NOT_FOR_US);
	drain(&f);
	pass(&f, 59 * SECOND);
	expect_log(&f, "");
	pass(&f, SECOND);
	expect_log(&f, "event finished");
	assert_int_equal(schedule_task_at(f.s, 0)->state, TASK_STATE_FINISHED);
	teardown(&f);
}

/* A million tasks: bounded, and the finished ones are forgotten in order. */
static void test_bounds(void **state)
{
	const struct schedule_limits limits = {.max_tasks = 4, .max_finished = 2};
	struct fixture f;
	struct errmsg e = {};
	char id[32];

	setup(&f, &limits);
	up(&f, 1, "svc", "i1", true);
	for (int i = 0; i < 10; i++) {
		struct task t;

		snprintf(id, sizeof(id), "t%d", i);
		t = make(id, "");
		snprintf(t.endpoint, sizeof(t.endpoint), "e%d", i);
		assert_int_equal(schedule_submit(f.s, &t, 0, f.now, &e),
				 i < 4 ? TASK_ACCEPTED : TASK_REFUSED);
	}
	assert_non_null(strstr(e.text, "which is the limit"));
	pass(&f, 60 * SECOND);
	pass(&f, 2 * SECOND);
	pass(&f, SECOND);
	drain(&f);
	assert_non_null(strstr(f.log, "forget t0; forget t1"));
	assert_int_equal(schedule_n_tasks(f.s), 2);
	teardown(&f);
}

static void test_flood_of_refused_tasks(void **state)
{
	const struct schedule_limits limits = {.max_tasks = 1};
	struct fixture f;
	struct schedule_action a;
	size_t n = 0;

	setup(&f, &limits);
	up(&f, 1, "svc", "i1", true);
	for (int i = 0; i < 5000; i++) {
		char id[32];
		struct task t;

		snprintf(id, sizeof(id), "t%d", i);
		t = make(id, "");
		snprintf(t.endpoint, sizeof(t.endpoint), "e%d", i);
		schedule_submit(f.s, &t, 1, f.now, NULL);
	}
	while (schedule_next(f.s, &a))
		n++;
	assert_true(n <= 1024);
	assert_int_equal(n - 3 + schedule_n_untold(f.s), 4999);
	teardown(&f);
}

static void restore(struct fixture *f, enum task_state run_state, int64_t started_ms)
{
	struct schedule_task st = {.task = make("t1", ""), .state = TASK_STATE_RUNNING};
	struct schedule_run r = {.instance = "i1", .state = run_state, .started_ms = started_ms};

	st.started_ms = started_ms;
	assert_int_equal(schedule_restore_task(f->s, &st, f->now), 0);
	assert_int_equal(schedule_restore_run(f->s, schedule_task_at(f->s, 0), &r, f->now), 0);
	schedule_tick(f->s, f->now);
}

static void test_restart_resumes_the_rest(void **state)
{
	struct fixture f;

	setup(&f, NULL);
	restore(&f, TASK_STATE_RUNNING, f.now.real_ms - 20000);
	expect_log(&f, "");
	up(&f, 9, "svc", "i1", true);
	expect_log(&f, "start t1@i1; event resumed@i1");
	pass(&f, 39 * SECOND);
	expect_log(&f, "");
	pass(&f, SECOND);
	expect_log(&f, "stop t1@i1; event finished@i1");
	teardown(&f);
}

static void test_restart_too_late_or_alone(void **state)
{
	struct fixture f;

	setup(&f, NULL);
	restore(&f, TASK_STATE_RUNNING, f.now.real_ms - 60000);
	up(&f, 9, "svc", "i1", true);
	expect_log(&f, "event interrupted@i1; finished interrupted@i1");
	teardown(&f);

	setup(&f, NULL);
	restore(&f, TASK_STATE_RUNNING, f.now.real_ms - 1000);
	pass(&f, 30 * SECOND);
	expect_log(&f, "event interrupted@i1; finished interrupted@i1");
	teardown(&f);

	setup(&f, NULL);
	restore(&f, TASK_STATE_FLUSHING, f.now.real_ms - 1000);
	expect_log(&f, "finished interrupted@i1");
	pass(&f, 30 * SECOND);
	expect_log(&f, "");
	teardown(&f);
}

static void test_restart_does_not_run_a_finished_task_again(void **state)
{
	struct fixture f;
	struct task t = make("t1", "");

	setup(&f, NULL);
	restore(&f, TASK_STATE_FINISHED, f.now.real_ms - 1000);
	up(&f, 9, "svc", "i1", true);
	assert_int_equal(schedule_submit(f.s, &t, 9, f.now, NULL), TASK_KNOWN);
	expect_log(&f, "");
	teardown(&f);
}

/* All was over but the report to its server: that is handed on again, once, and nothing runs. */
static void test_restart_before_the_report(void **state)
{
	struct schedule_task t = {.task = make("t1", ""), .state = TASK_STATE_FINISHED};
	struct schedule_run r = {.state = TASK_STATE_FLUSHING, .instance = "i1", .started_ms = 5};
	struct fixture f;

	setup(&f, NULL);
	assert_int_equal(schedule_restore_task(f.s, &t, f.now), 0);
	assert_int_equal(schedule_restore_run(f.s, schedule_task_at(f.s, 0), &r, f.now), 0);
	schedule_tick(f.s, f.now);
	expect_log(&f, "finished interrupted@i1");
	assert_int_equal(schedule_task_at(f.s, 0)->state, TASK_STATE_FINISHED);
	up(&f, 1, "svc", "i1", true);
	assert_int_equal(schedule_submit(f.s, &t.task, 1, f.now, NULL), TASK_KNOWN);
	pass(&f, 60 * SECOND);
	expect_log(&f, "");
	teardown(&f);
}

static void test_restart_of_a_local_task(void **state)
{
	struct fixture f;
	struct schedule_task st = {
		.task = make("t1", ""), .local = true, .state = TASK_STATE_RUNNING};

	setup(&f, NULL);
	st.started_ms = f.now.real_ms - 50000;
	schedule_restore_task(f.s, &st, f.now);
	schedule_tick(f.s, f.now);
	up(&f, 3, "svc", "another", true);
	expect_log(&f, "start t1@another; event started@another");
	pass(&f, 10 * SECOND);
	expect_log(&f, "stop t1@another; event finished@another");
	teardown(&f);
}

static void restore_counted(struct fixture *f, enum task_state run_state, uint32_t n_spans)
{
	struct schedule_task st = {
		.task = make("t1", ""), .local = true, .state = TASK_STATE_RUNNING};
	struct schedule_run r = {.instance = "i1", .state = run_state, .n_spans = n_spans};

	r.how = TASK_EVENT_FINISHED;
	st.task.max_spans = 2;
	st.task.end_by_count = true;
	st.n_spans = n_spans;
	st.started_ms = r.started_ms = f->now.real_ms - 1000;
	assert_int_equal(schedule_restore_task(f->s, &st, f->now), 0);
	assert_int_equal(schedule_restore_run(f->s, schedule_task_at(f->s, 0), &r, f->now), 0);
	schedule_tick(f->s, f->now);
}

static void test_restart_goes_on_counting(void **state)
{
	struct schedule_task *t;
	struct fixture f;

	setup(&f, NULL);
	restore_counted(&f, TASK_STATE_RUNNING, 1);
	up(&f, 3, "svc", "i1", true);
	expect_log(&f, "start t1@i1; event resumed@i1");
	t = schedule_task_at(f.s, 0);
	assert_true(schedule_take_span(f.s, t, 3, f.now));
	assert_false(schedule_take_span(f.s, t, 3, f.now));
	assert_int_equal(t->n_spans, 2);
	schedule_flushed(f.s, t, 3, f.now);
	expect_log(&f, "stop t1@i1; event finished@i1; finished finished@i1");
	/* At once: nobody else is waited for. */
	assert_int_equal(t->state, TASK_STATE_FINISHED);
	teardown(&f);

	/* The agent was killed after the last span. */
	setup(&f, NULL);
	restore_counted(&f, TASK_STATE_RUNNING, 2);
	up(&f, 3, "svc", "i1", true);
	expect_log(&f, "event finished@i1; finished finished@i1");
	assert_int_equal(schedule_task_at(f.s, 0)->state, TASK_STATE_FINISHED);
	teardown(&f);

	/* And after it had said so. */
	setup(&f, NULL);
	restore_counted(&f, TASK_STATE_FLUSHING, 2);
	expect_log(&f, "finished finished@i1");
	assert_int_equal(schedule_task_at(f.s, 0)->state, TASK_STATE_FINISHED);
	teardown(&f);
}

static const char *trouble(const struct schedule_task *t, uint32_t instance_id)
{
	for (size_t i = 0; i < t->runs.n; i++)
		if (t->runs.at[i].instance_id == instance_id)
			return t->runs.at[i].trouble;
	return "no such run";
}

/* What is wrong on an instance is known until a span comes from there, or the run ends. */
static void test_trouble(void **state)
{
	struct schedule_task *st;
	struct fixture f;
	struct task t = make("t1", "");

	setup(&f, NULL);
	up(&f, 1, "svc", "i1", true);
	up(&f, 2, "svc", "i2", true);
	schedule_submit(f.s, &t, 0, f.now, NULL);
	st = schedule_task_at(f.s, 0);
	schedule_note(f.s, st, 1, "no such function");
	assert_true(schedule_take_span(f.s, st, 2, f.now));
	assert_string_equal(trouble(st, 1), "no such function");
	schedule_note(f.s, st, 2, "another"); /* each has its own */
	assert_string_equal(trouble(st, 1), "no such function");
	assert_true(schedule_take_span(f.s, st, 1, f.now));
	assert_string_equal(trouble(st, 1), "");
	assert_string_equal(trouble(st, 2), "another");
	schedule_note(f.s, st, 1, "no such function");
	schedule_cancel(f.s, "oap", "t1", f.now, NULL);
	schedule_flushed(f.s, st, 2, f.now);
	assert_string_equal(trouble(st, 1), "no such function");
	assert_string_equal(trouble(st, 2), "");
	schedule_flushed(f.s, st, 1, f.now);
	assert_string_equal(trouble(st, 1), "");
	teardown(&f);
}

/* A local task whose id is taken is refused: that is no news of the one that has it. */
static void test_taken_id_is_no_news(void **state)
{
	struct fixture f;
	struct task t = make("t1", "");

	setup(&f, NULL);
	up(&f, 1, "svc", "i1", true);
	schedule_submit(f.s, &t, 0, f.now, NULL);
	drain(&f);
	t.duration_ns = SECOND;
	assert_int_equal(schedule_submit(f.s, &t, 0, f.now, NULL), TASK_KNOWN);
	expect_log(&f, "");
	assert_int_equal(schedule_submit(f.s, &t, 1, f.now, NULL), TASK_KNOWN);
	expect_log(&f, "event note");
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trouble),
		cmocka_unit_test(test_taken_id_is_no_news),
		cmocka_unit_test(test_local_task_from_start_to_finish),
		cmocka_unit_test(test_finished_without_flush_report),
		cmocka_unit_test(test_delivered_to_one_instance_only),
		cmocka_unit_test(test_delivered_runs_have_their_own_duration),
		cmocka_unit_test(test_delivered_again),
		cmocka_unit_test(test_start_in_the_past_runs_in_full),
		cmocka_unit_test(test_overlap),
		cmocka_unit_test(test_max_running_makes_others_wait),
		cmocka_unit_test(test_count_of_spans),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_loss_of_all_processes),
		cmocka_unit_test(test_permanent_task_and_churn),
		cmocka_unit_test(test_rules_deny),
		cmocka_unit_test(test_unmatched_local_task_ends),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_flood_of_refused_tasks),
		cmocka_unit_test(test_restart_resumes_the_rest),
		cmocka_unit_test(test_restart_too_late_or_alone),
		cmocka_unit_test(test_restart_does_not_run_a_finished_task_again),
		cmocka_unit_test(test_restart_before_the_report),
		cmocka_unit_test(test_restart_of_a_local_task),
		cmocka_unit_test(test_restart_goes_on_counting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
