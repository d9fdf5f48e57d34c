/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/ending.h"
#include "tests/unit/unit.h"

static struct open_span open_with(struct observation *last)
{
	struct open_span s = {
		.begin = {.start_ns = 1000, .start = {10, 20, 30}, .promoted = {110, 20, 30}},
		.last_ns = 1500,
	};

	if (last) {
		s.obs.at = last;
		s.obs.n = 1;
	}
	return s;
}

static void parts(const struct ending *e, uint64_t oncpu, uint64_t runq, uint64_t blocked)
{
	assert_int_equal(e->total.oncpu_ns, oncpu);
	assert_int_equal(e->total.runq_ns, runq);
	assert_int_equal(e->total.blocked_ns, blocked);
}

static void test_without_a_snapshot_it_was_on_cpu(void **state)
{
	struct open_span s = open_with(NULL);
	struct ending e = ending_unfinished(&s, 2000, WIRE_END_TASK_END);

	assert_int_equal(e.end_ns, 2000);
	assert_int_equal(e.reason, WIRE_END_TASK_END);
	assert_int_equal(e.n_due, 0);
	parts(&e, 1000, 0, 0);
}

static void test_what_hangs_goes_on_hanging(void **state)
{
	struct observation stuck = {.seq = 4,
				    .kind = WIRE_SNAP_STUCK,
				    .wall = {.oncpu_ns = 110, .runq_ns = 20, .blocked_ns = 330}};
	struct open_span s = open_with(&stuck);
	struct ending e = ending_unfinished(&s, 2000, WIRE_END_TASK_END);

	assert_int_equal(e.n_due, 5);
	parts(&e, 100, 0, 900);
	stuck.flags = WIRE_SNAP_F_PREEMPTED;
	e = ending_unfinished(&s, 2000, WIRE_END_TASK_END);
	parts(&e, 100, 600, 300);
	stuck.kind = WIRE_SNAP_ONCPU;
	e = ending_unfinished(&s, 2000, WIRE_END_TASK_END);
	parts(&e, 700, 0, 300);
}

/* Records may come late: a span does not end before what is known of it. */
static void test_not_before_its_last_record(void **state)
{
	struct open_span s = open_with(NULL);

	assert_int_equal(ending_unfinished(&s, 1200, WIRE_END_TASK_END).end_ns, 1500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_a_snapshot_it_was_on_cpu),
		cmocka_unit_test(test_what_hangs_goes_on_hanging),
		cmocka_unit_test(test_not_before_its_last_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
