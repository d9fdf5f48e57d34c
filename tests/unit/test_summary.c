/* SPDX-License-Identifier: Apache-2.0 */
#include "export/summary.h"
#include "tests/unit/sample_profile.h"
#include "tests/unit/unit.h"

static void spans_are_ordered_and_counted(void **state)
{
	struct profile *p = sample_profile_orders();
	struct summary s = {};

	assert_int_equal(summary_init(&s, p, 1), 0);
	assert_int_equal(s.spans.n, 3);
	assert_int_equal(s.spans.at[0], 1);
	assert_int_equal(s.spans.at[1], 3);
	assert_int_equal(s.spans.at[2], 2);
	assert_int_equal(s.n_profiled, 3);
	assert_int_equal(s.n_unfinished, 0);
	assert_int_equal(s.n_incomplete, 1);
	assert_int_equal(s.n_due - s.n_kept, 2);
	summary_deinit(&s);
	profile_free(p);
}

static void names_are_grouped(void **state)
{
	struct profile *p = sample_profile_orders();
	struct summary s = {};

	sample_span(p, 1, "POST:/orders", 1, 1); /* a slow span that was not profiled */
	p->spans.at[p->spans.n - 1].end_ns += 150000000;
	assert_int_equal(summary_init(&s, p, 1), 0);
	assert_int_equal(s.names.n, 2);
	assert_string_equal(strpool_get(p->strings, s.names.at[0].name), "GET:/orders/{id}");
	assert_int_equal(s.names.at[0].n_slow, 2);
	assert_int_equal(s.names.at[0].max_ns, 612400000);
	assert_string_equal(strpool_get(p->strings, s.names.at[1].name), "POST:/orders");
	assert_int_equal(s.names.at[1].n_slow, 2);
	assert_int_equal(s.names.at[1].n_profiled, 1);
	summary_deinit(&s);
	profile_free(p);
}

/* What the tables show is in the figures above them, however the calls ended. */
static void figures_hold_the_calls_that_did_not_return(void **state)
{
	struct profile *p = sample_profile_orders();
	struct summary s = {}, counts = {};
	uint64_t in_names = 0;

	p->endpoints.at[1].latency.n_slow = 2;
	p->endpoints.at[1].latency.max_ns = 135000000;
	assert_int_equal(summary_init(&s, p, 1), 0);
	for (size_t i = 0; i < s.names.n; i++)
		in_names += s.names.at[i].n_slow;
	assert_int_equal(s.n_slow, 3);
	assert_int_equal(s.n_slow, in_names);
	assert_int_equal(s.max_ns, 612400000);
	assert_int_equal(s.max_reason, WIRE_END_RETURN);
	assert_int_equal(s.n_unseen, 2);
	summary_counts(&counts, p, 1);
	assert_int_equal(counts.n_slow, 3);
	summary_deinit(&s);
	assert_int_equal(summary_init(&s, p, 2), 0);
	assert_int_equal(s.n_slow, 2); /* one returned, one is unfinished */
	assert_int_equal(s.max_ns, 11000000000);
	assert_int_equal(s.max_reason, WIRE_END_TASK_END);
	summary_deinit(&s);
	profile_free(p);
}

/* By the spans where all calls that returned have one, whatever became of the others; all else is guessed. */
static void quantiles_are_those_of_spans(void **state)
{
	struct profile *p = sample_profile_empty();
	struct latency l = {.n_leave = 3, .max_ns = 1000};
	struct summary s = {};

	l.bucket[latency_bucket(500)] = 3;
	for (uint32_t ns = 500; ns < 505; ns++) {
		sample_span(p, 1, "x", 1, 1);
		p->spans.at[p->spans.n - 1].end_ns = p->spans.at[p->spans.n - 1].start_ns + ns;
		p->spans.at[p->spans.n - 1].end_reason =
			ns % 2 ? WIRE_END_TASK_END : WIRE_END_RETURN;
	}
	assert_int_equal(summary_init(&s, p, 1), 0);
	assert_int_equal(summary_quantile(&s, p, &l, 0.01), 500);
	assert_int_equal(summary_quantile(&s, p, &l, 0.50), 502);
	assert_int_equal(summary_quantile(&s, p, &l, 0.99), 504);
	l.n_leave = l.bucket[latency_bucket(500)] = 4;
	assert_int_equal(summary_quantile(&s, p, &l, 0.50), latency_quantile(&l, 0.50));
	assert_int_equal(summary_quantile(&s, p, &(struct latency){}, 0.50), 0);
	summary_deinit(&s);
	profile_free(p);
}

static void nothing_due_is_complete(void **state)
{
	struct profile *p = sample_profile_empty();
	struct summary s = {};

	assert_int_equal(summary_init(&s, p, 1), 0);
	assert_int_equal(s.spans.n, 0);
	assert_true(summary_completeness(&s) == 1.0);
	summary_deinit(&s);
	summary_totals(&s, p);
	assert_true(summary_completeness(&s) == 1.0);
	profile_free(p);
}

static void totals_are_over_all_endpoints(void **state)
{
	struct profile *p = sample_profile_orders();
	struct summary s = {};

	summary_totals(&s, p);
	assert_int_equal(s.n_profiled, 4);
	assert_int_equal(s.n_unfinished, 1);
	assert_true(summary_completeness(&s) == profile_completeness(p));
	profile_free(p);
}

/* The record of its end was lost: it has returned, and is among the slow ones of the histogram. */
static void no_more_calls_are_slow_than_there_were(void **state)
{
	struct profile *p = sample_profile_orders();
	struct latency *l = &p->endpoints.at[1].latency;
	struct summary s = {}, counts = {};

	p->spans.at[1].end_reason = WIRE_END_LEAVE_UNSEEN;
	*l = (struct latency){.n_enter = 3, .n_leave = 3, .n_slow = 3};
	assert_int_equal(summary_init(&s, p, 1), 0);
	assert_int_equal(s.n_slow, 3);
	summary_counts(&counts, p, 1);
	assert_int_equal(counts.n_slow, 3);
	summary_deinit(&s);
	profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spans_are_ordered_and_counted),
		cmocka_unit_test(names_are_grouped),
		cmocka_unit_test(figures_hold_the_calls_that_did_not_return),
		cmocka_unit_test(no_more_calls_are_slow_than_there_were),
		cmocka_unit_test(quantiles_are_those_of_spans),
		cmocka_unit_test(nothing_due_is_complete),
		cmocka_unit_test(totals_are_over_all_endpoints),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
