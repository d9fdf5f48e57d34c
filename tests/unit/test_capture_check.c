/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "pipe/capture_check.h"
#include "tests/unit/unit.h"

#define SECOND 1000000000ULL

static void promoted(struct capture_check *c, uint32_t ep_id)
{
	const struct wire_promoted b = {
		.h = {.size = sizeof(b), .kind = WIRE_K_PROMOTED, .mono_ns = SECOND},
		.span_id = 1,
		.ep_id = ep_id,
	};

	capture_check_add(c, &b, sizeof(b));
}

static void ended(struct capture_check *c, uint32_t ep_id, uint16_t reason, uint32_t n_lost)
{
	const struct wire_end e = {
		.h = {.size = sizeof(e), .kind = WIRE_K_END, .mono_ns = 2 * SECOND},
		.span_id = 1,
		.ep_id = ep_id,
		.reason = reason,
		.n_due = n_lost,
		.n_lost = n_lost,
	};

	capture_check_add(c, &e, sizeof(e));
}

/* 900 calls, of which 100 were left by exceptions. */
static struct latency honest(void)
{
	struct latency l = {.n_enter = 900, .n_leave = 800, .n_unknown = 100, .n_unwound = 100};

	l.n_slow = 200;
	l.bucket[10] = 600;
	l.bucket[20] = 200;
	return l;
}

static void refused(const struct capture_check *c, const struct latency *l, const char *why)
{
	struct errmsg e = {};

	assert_int_equal(capture_check_latency(c, 1, l, &e), -EBADMSG);
	assert_non_null(strstr(e.text, why));
}

static void what_can_be(void **state)
{
	struct latency l = honest();
	struct capture_check c = {};

	assert_int_equal(capture_check_latency(&c, 1, &l, NULL), 0);
	for (int i = 0; i < 200; i++) {
		promoted(&c, 1);
		ended(&c, 1, i % 2 ? WIRE_END_RETURN : WIRE_END_UNWOUND, 0);
	}
	assert_int_equal(capture_check_latency(&c, 1, &l, NULL), 0);
	l.n_enter -= 8; /* while others were read */
	assert_int_equal(capture_check_latency(&c, 1, &l, NULL), 0);
}

static void histogram_of_other_calls(void **state)
{
	struct capture_check c = {};
	struct latency l = honest();

	l.bucket[10]++;
	refused(&c, &l, "800 ends of calls beside 801 in its histogram");
	l.bucket[10] = UINT64_MAX;
	refused(&c, &l, "in its histogram");
}

static void more_than_there_were(void **state)
{
	struct capture_check c = {};
	struct latency l = honest();

	l.n_enter = 100;
	refused(&c, &l, "900 ends of calls beside 100 calls");
	l = honest();
	l.n_unknown = UINT64_MAX;
	refused(&c, &l, "ends of calls beside 900 calls");
	l = honest();
	l.n_slow = 1000;
	refused(&c, &l, "1000 slow calls");
	l = honest();
	l.n_unwound = 500;
	refused(&c, &l, "500 calls left by exceptions");
}

static void fewer_than_records_tell(void **state)
{
	struct capture_check begun = {}, ended_ones = {};
	struct latency none = {};

	for (int i = 0; i < 100; i++) {
		promoted(&begun, 1);
		ended(&ended_ones, 1, WIRE_END_RETURN, 0);
	}
	refused(&begun, &none, "100 profiled calls beside 0 calls");
	refused(&ended_ones, &none, "100 ends of profiled calls beside 0");
	assert_int_equal(capture_check_latency(&begun, 2, &none, NULL), 0);
}

static void hidden_losses(void **state)
{
	struct capture_check c = {};
	struct counters t = {};
	struct errmsg e = {};

	assert_int_equal(capture_check_totals(&c, 3 * SECOND, &t, &e), 0);
	ended(&c, 1, WIRE_END_RETURN, 5);
	ended(&c, 1, WIRE_END_RETURN, 5);
	assert_int_equal(capture_check_totals(&c, 3 * SECOND, &t, &e), -EBADMSG);
	assert_non_null(strstr(e.text, "10 snapshots were lost beside 0 in the counter"));
	t.v[WIRE_C_RING_FULL_SNAPSHOT] = 5; /* each of two nested calls */
	assert_int_equal(capture_check_totals(&c, 3 * SECOND, &t, &e), 0);
	t.v[WIRE_C_RING_FULL_SNAPSHOT] = UINT64_MAX;
	assert_int_equal(capture_check_totals(&c, 3 * SECOND, &t, &e), 0);
}

static void records_from_after_the_end(void **state)
{
	struct capture_check c = {.last_ns = 100 * SECOND};
	const struct counters t = {};

	assert_int_equal(capture_check_totals(&c, 90 * SECOND, &t, NULL), 0);
	assert_int_equal(capture_check_totals(&c, 20 * SECOND, &t, NULL), -EBADMSG);
}

static void bad_records_are_no_records(void **state)
{
	struct capture_check c = {};
	const struct wire_header h = {.size = 8, .kind = WIRE_K_END};

	capture_check_add(&c, &h, sizeof(h));
	promoted(&c, WIRE_EP_MAX);
	ended(&c, UINT32_MAX, WIRE_END_RETURN, 0);
	assert_int_equal(c.of[0].n_ended, 0);
}

static void no_turns(const struct profile_turns *t, const char *why)
{
	struct errmsg e = {};

	assert_int_equal(capture_check_turns(t, 60 * SECOND, &e), -EBADMSG);
	if (!strstr(e.text, why))
		fail_msg("no '%s' in '%s'", why, e.text);
}

static void turns_have_room_in_the_run(void **state)
{
	const struct profile_turns good = {.share_ppm = 10000,
					   .n_turns = 30,
					   .probed_ns = 30 * SECOND,
					   .cost_ns = SECOND,
					   .cpu_ns = 100 * SECOND};
	struct profile_turns t = good;

	assert_int_equal(capture_check_turns(&t, 60 * SECOND, NULL), 0);
	t.n_turns = 1;
	assert_int_equal(capture_check_turns(&t, 60 * SECOND, NULL), 0);
	t.n_turns = 0;
	no_turns(&t, "in 0 turns");
	t.n_turns = UINT64_MAX;
	no_turns(&t, "in 18446744073709551615 turns in a run of 60 s");
	t = good;
	t.probed_ns = 61 * SECOND;
	no_turns(&t, "for longer than the run");
	t.probed_ns = UINT64_MAX;
	no_turns(&t, "for longer than the run");
	t = good;
	t.cpu_ns = UINT64_MAX;
	no_turns(&t, "s of CPU time");
	t = good;
	t.cost_ns = 10000000 * SECOND;
	no_turns(&t, "100 s of CPU time, and 10000000 s for probes, in a run of 60 s");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_can_be),
		cmocka_unit_test(histogram_of_other_calls),
		cmocka_unit_test(more_than_there_were),
		cmocka_unit_test(fewer_than_records_tell),
		cmocka_unit_test(hidden_losses),
		cmocka_unit_test(records_from_after_the_end),
		cmocka_unit_test(bad_records_are_no_records),
		cmocka_unit_test(turns_have_room_in_the_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
