/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule and its two clocks: starts on time, and a wall clock that somebody sets. */
#include "base/cleanup.h"
#include "tests/unit/schedule_world.h"

static void test_start_in_the_future_and_clock_jump(void **state)
{
	struct fixture f;
	struct task t = make("t1", "");

	setup(&f, NULL);
	up(&f, 1, "svc", "i1", true);
	t.start_ms = f.now.real_ms + 10000;
	schedule_submit(f.s, &t, 0, f.now, NULL);
	expect_log(&f, "event received");
	pass(&f, 9 * SECOND);
	expect_log(&f, "");
	f.now.real_ms += 3600000; /* somebody sets the clock */
	schedule_tick(f.s, f.now);
	expect_log(&f, "start t1@i1; event started@i1");
	f.now.real_ms -= 7200000; /* and back: the duration does not depend on it */
	pass(&f, 59 * SECOND);
	expect_log(&f, "");
	pass(&f, SECOND);
	expect_log(&f, "stop t1@i1; event finished@i1");
	teardown(&f);
}

/* As the agent's loop: sleeps until the deadline or the next event, and ticks when the deadline is over. */
static void loop(struct fixture *f, uint64_t ns, uint64_t event_every_ns)
{
	const uint64_t end_ns = f->now.mono_ns + ns;

	while (f->now.mono_ns < end_ns) {
		uint64_t at = schedule_deadline(f->s, f->now), now = f->now.mono_ns;

		if (at > now + event_every_ns)
			at = now + event_every_ns;
		if (at > end_ns)
			at = end_ns;
		if (at < now + 1000000)
			at = now + 1000000;
		f->now.mono_ns = at;
		f->now.real_ms += (int64_t)((at - now) / 1000000);
		if (schedule_deadline(f->s, f->now) <= f->now.mono_ns)
			schedule_tick(f->s, f->now);
	}
}

/* Nothing else happens, or something all the time: the start is on time. */
static void test_start_by_the_deadline_alone(void **state)
{
	static const uint64_t every_ns[] = {60 * SECOND, SECOND / 20, SECOND / 4};

	for (size_t i = 0; i < ARRAY_SIZE(every_ns); i++) {
		struct task t = make("t1", "");
		struct fixture f;

		setup(&f, NULL);
		f.now.real_ms = 1700000000000;
		up(&f, 1, "svc", "i1", true);
		t.start_ms = f.now.real_ms + 10000;
		schedule_submit(f.s, &t, 0, f.now, NULL);
		expect_log(&f, "event received");
		loop(&f, 9990000000, every_ns[i]);
		expect_log(&f, "");
		loop(&f, 20000000, every_ns[i]);
		expect_log(&f, "start t1@i1; event started@i1");
		loop(&f, 60 * SECOND, every_ns[i]);
		expect_log(&f, "stop t1@i1; event finished@i1");
		teardown(&f);
	}
}

/* Somebody sets the clock past the start: seen within a second. */
static void test_start_when_the_clock_is_set(void **state)
{
	struct task t = make("t1", "");
	struct fixture f;

	setup(&f, NULL);
	f.now.real_ms = 1700000000000;
	up(&f, 1, "svc", "i1", true);
	t.start_ms = f.now.real_ms + 3600000;
	schedule_submit(f.s, &t, 0, f.now, NULL);
	loop(&f, 5 * SECOND, SECOND / 20);
	f.now.real_ms -= 86400000;
	loop(&f, 5 * SECOND, SECOND / 20);
	expect_log(&f, "event received");
	f.now.real_ms += 2 * 86400000;
	loop(&f, SECOND + 10000000, SECOND / 20);
	expect_log(&f, "start t1@i1; event started@i1");
	teardown(&f);
}

/* What has started is known by the clock that nobody sets. */
static void test_overlap_when_the_clock_is_set(void **state)
{
	static const int64_t steps_ms[] = {-86400000, 2 * 86400000};
	struct fixture f;
	struct task a = make("a", ""), b = make("b", "");
	struct errmsg e = {};

	setup(&f, NULL);
	f.now.real_ms = 1700000000000;
	up(&f, 1, "svc", "i1", true);
	assert_int_equal(schedule_submit(f.s, &a, 0, f.now, &e), TASK_ACCEPTED);
	pass(&f, 10 * SECOND);
	for (int i = 0; i < 2; i++) {
		f.now.real_ms += steps_ms[i];
		schedule_tick(f.s, f.now);
		assert_int_equal(schedule_submit(f.s, &b, 0, f.now, &e), TASK_REFUSED);
	}
	f.now.real_ms -= 86400000;
	pass(&f, 51 * SECOND);
	assert_int_equal(schedule_submit(f.s, &b, 0, f.now, &e), TASK_ACCEPTED);
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_start_in_the_future_and_clock_jump),
		cmocka_unit_test(test_start_by_the_deadline_alone),
		cmocka_unit_test(test_start_when_the_clock_is_set),
		cmocka_unit_test(test_overlap_when_the_clock_is_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
