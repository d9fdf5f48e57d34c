/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "task/task.h"
#include "tests/unit/unit.h"

static struct task_raw good(void)
{
	return (struct task_raw){.id = "1638342771580_c3Zj.1",
				 .service = "svc",
				 .endpoint = " GET:/a ",
				 .duration_min = 5,
				 .threshold_ms = 0,
				 .period_ms = 10,
				 .max_count = 9,
				 .start_ms = 1000,
				 .create_ms = 900};
}

static void test_converts_units(void **state)
{
	struct task_raw raw = good();
	struct task t;

	assert_int_equal(task_from_raw(&raw, "oap", &t, NULL), 0);
	assert_string_equal(t.endpoint, "GET:/a");
	assert_string_equal(t.source, "oap");
	assert_string_equal(t.instance, "");
	assert_int_equal(t.duration_ns, 300000000000ULL);
	assert_int_equal(t.period_ns, 10000000);
	assert_int_equal(t.max_spans, 9);
	assert_int_equal(t.start_ms, 1000);
}

static void expect_refused(const struct task_raw *raw, const char *part)
{
	struct errmsg e = {};
	struct task t;

	assert_int_equal(task_from_raw(raw, "oap", &t, &e), -EINVAL);
	if (!strstr(e.text, part))
		fail_msg("'%s' is not in '%s'", part, e.text);
}

static void test_limits_of_skywalking(void **state)
{
	const struct {
		int64_t duration, threshold, period, count;
		const char *part;
	} bad[] = {
		{0, 0, 10, 1, "duration of 0"},
		{16, 0, 10, 1, "too long"},
		{INT64_MIN, 0, 10, 1, "too short"},
		{5, -1, 10, 1, "negative"},
		{5, INT64_MAX, 10, 1, "at most"},
		{5, 0, 9, 1, "dump period of 9"},
		{5, 0, INT64_MAX, 1, "at most"},
		{5, 0, 10, 0, "count of 0"},
		{5, 0, 10, 10, "count of 10"},
		{0, -1, 1, 0, "duration"},
		{16, 0, 1, 0, "count"},
		{16, 0, 1, 99, "duration"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct task_raw raw = good();

		raw.duration_min = bad[i].duration;
		raw.threshold_ms = bad[i].threshold;
		raw.period_ms = bad[i].period;
		raw.max_count = bad[i].count;
		expect_refused(&raw, bad[i].part);
	}
}

static void test_bad_texts(void **state)
{
	struct task_raw raw = good();
	char huge[4096];

	memset(huge, 'x', sizeof(huge) - 1);
	huge[sizeof(huge) - 1] = 0;
	raw.endpoint = "  ";
	expect_refused(&raw, "names no endpoint");
	raw.endpoint = NULL;
	expect_refused(&raw, "names no endpoint");
	raw.endpoint = huge;
	expect_refused(&raw, "longer than");
	raw = good();
	raw.id = NULL;
	expect_refused(&raw, "no id");
	raw.id = huge;
	expect_refused(&raw, "longer than");
	raw = good();
	raw.service = "";
	expect_refused(&raw, "names no service");
	raw.service = "a\nb";
	expect_refused(&raw, "control characters");
}

static void test_local_limits_are_wider(void **state)
{
	struct task t = {.id = "a", .service = "s", .endpoint = "*", .period_ns = 1000000};
	struct errmsg e;

	assert_int_equal(task_check(&t, TASK_LIMITS_LOCAL, &e), 0);
	assert_int_equal(task_check(&t, TASK_LIMITS_SERVER, &e), -EINVAL);
	t.period_ns = 999999;
	assert_int_equal(task_check(&t, TASK_LIMITS_LOCAL, &e), -EINVAL);
	assert_non_null(strstr(e.text, "at least 1 ms"));
	t.period_ns = 1000000;
	t.end_by_count = true;
	assert_int_equal(task_check(&t, TASK_LIMITS_LOCAL, &e), -EINVAL);
	t.max_spans = 100000;
	assert_int_equal(task_check(&t, TASK_LIMITS_LOCAL, &e), 0);
}

static void test_selectors(void **state)
{
	struct instance i = {.id = 1, .service = "svc", .name = "web-1@h[1]"};
	struct task t = {.service = "svc"};

	assert_true(task_is_for(&t, &i));
	strcpy(t.instance, "web-1@h[1]"); /* an exact name wins over its reading as a glob */
	assert_true(task_is_for(&t, &i));
	strcpy(t.instance, "web-*");
	assert_true(task_is_for(&t, &i));
	strcpy(t.instance, "web-2*");
	assert_false(task_is_for(&t, &i));
	strcpy(t.instance, "");
	strcpy(t.service, "other");
	assert_false(task_is_for(&t, &i));
}

static void test_names(void **state)
{
	for (int i = 0; i < TASK_EVENT_MAX; i++)
		assert_non_null(task_event_name(i));
	for (int i = 0; i < TASK_STATE_MAX; i++)
		assert_non_null(task_state_name(i));
	assert_string_equal(task_event_name(77), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_converts_units),
		cmocka_unit_test(test_limits_of_skywalking),
		cmocka_unit_test(test_bad_texts),
		cmocka_unit_test(test_local_limits_are_wider),
		cmocka_unit_test(test_selectors),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
