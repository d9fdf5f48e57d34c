/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "task/gate.h"
#include "tests/unit/unit.h"

#define MS 1000000ULL

static const struct gate_endpoint plain = {.spec = "x:work", .display = "work"};
static const struct gate_endpoint named = {
	.spec = "handle(str(arg1))", .display = "handle", .has_name = true};

static const struct gate_endpoint unknown = {
	.spec = "x:*serve*", .display = "*serve*", .pattern = "*serve*"};
static const struct gate_endpoint both = {
	.spec = "*serve*(str(arg0))", .display = "*serve*", .pattern = "*serve*", .has_name = true};
static const struct gate_endpoint found = {.spec = "x:*serve*", .display = "shop::serve"};

static struct task make(const char *endpoint)
{
	struct task t = {.threshold_ns = 100 * MS, .period_ns = 10 * MS, .max_spans = 3};

	snprintf(t.endpoint, sizeof(t.endpoint), "%s", endpoint);
	return t;
}

static enum gate_match match(const char *endpoint, bool local, const struct gate_endpoint *ep)
{
	struct task t = make(endpoint);

	return gate_match(&t, local, ep);
}

static void test_match(void **state)
{
	assert_int_equal(match("work", false, &plain), GATE_WHOLE);
	assert_int_equal(match("x:work", false, &plain), GATE_WHOLE);
	assert_int_equal(match("*", true, &plain), GATE_WHOLE);
	assert_int_equal(match("*", false, &plain), GATE_NO); /* a server's names are exact */
	assert_int_equal(match("wo*", true, &plain), GATE_WHOLE);
	assert_int_equal(match("other", true, &plain), GATE_NO);
	assert_int_equal(match("GET /a", false, &named), GATE_BY_NAME);
	assert_int_equal(match("handle", false, &named), GATE_WHOLE);
}

/* Before anything is attached, the function is not known that the spans will be named after. */
static void test_function_that_is_not_known_yet(void **state)
{
	assert_int_equal(match("shop::serve", false, &unknown), GATE_WHOLE);
	assert_int_equal(match("shop::other", false, &unknown), GATE_NO);
	assert_int_equal(match("shop::serve", false, &found), GATE_WHOLE);
	assert_int_equal(match("shop::serve_all", false, &found), GATE_NO);
	assert_int_equal(match("x:*serve*", false, &found), GATE_WHOLE);
	/* Which spans count is known by their names, or when the function is. */
	assert_int_equal(match("shop::serve", false, &both), GATE_BY_NAME);
}

static void test_spans(void **state)
{
	struct task t = make("GET /a"), glob = make("GET /*");

	assert_true(gate_takes_span(&t, false, &named, "GET /a", 100 * MS));
	assert_false(gate_takes_span(&t, false, &named, "GET /b", 100 * MS));
	assert_false(gate_takes_span(&t, false, &named, "GET /a", 99 * MS));
	assert_true(gate_takes_span(&glob, true, &named, "GET /b", 100 * MS));
	assert_false(gate_takes_span(&glob, false, &named, "GET /b", 100 * MS));
	assert_false(gate_takes_span(&t, false, &plain, "work", 100 * MS));
}

static void test_one_task(void **state)
{
	struct gate_plan plan = {};
	struct task t = make("work");

	gate_plan_add(&plan, &t, GATE_NO, 5);
	assert_int_equal(plan.n_tasks, 0);
	gate_plan_add(&plan, &t, GATE_WHOLE, 5);
	gate_plan_finish(&plan);
	assert_int_equal(plan.gate.enabled, 1);
	assert_int_equal(plan.gate.threshold_ns, 100 * MS);
	assert_int_equal(plan.gate.sample_after_ns, 100 * MS);
	assert_int_equal(plan.gate.max_spans, 3);
	assert_int_equal(plan.gate.max_parallel, 5);
}

static void test_two_tasks(void **state)
{
	struct gate_plan plan = {};
	struct task a = make("work"), b = make("work");

	b.threshold_ns = 50 * MS;
	b.period_ns = 20 * MS;
	b.from_start = true;
	b.max_parallel = 7;
	gate_plan_add(&plan, &a, GATE_WHOLE, 5);
	gate_plan_add(&plan, &b, GATE_WHOLE, 5);
	gate_plan_finish(&plan);
	assert_int_equal(plan.gate.threshold_ns, 50 * MS);
	assert_int_equal(plan.gate.period_ns, 10 * MS);
	assert_int_equal(plan.gate.sample_after_ns, 0);
	assert_int_equal(plan.gate.max_spans, 0);
	assert_int_equal(plan.gate.max_parallel, 12);
}

static void test_by_name_leaves_counting_to_us(void **state)
{
	struct gate_plan plan = {};
	struct task t = make("GET /a");

	gate_plan_add(&plan, &t, GATE_BY_NAME, 5);
	gate_plan_finish(&plan);
	assert_int_equal(plan.gate.max_spans, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_match),
		cmocka_unit_test(test_function_that_is_not_known_yet),
		cmocka_unit_test(test_spans),
		cmocka_unit_test(test_one_task),
		cmocka_unit_test(test_two_tasks),
		cmocka_unit_test(test_by_name_leaves_counting_to_us),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
