/* SPDX-License-Identifier: Apache-2.0 */
#include "net/link.h"
#include "net/rpc.h"
#include "tests/unit/unit.h"

#define S 1000000000ULL

static void end(struct link *l, int status, uint64_t start_ns, uint64_t now_ns,
		enum link_verdict want, bool want_reconnect)
{
	bool reconnect;

	assert_int_equal(link_ended(l, status, start_ns, now_ns, &reconnect), want);
	assert_int_equal(reconnect, want_reconnect);
}

static void make_ready(struct link *l)
{
	link_init(l, 7);
	assert_true(link_may_start(l, 10 * S));
	end(l, RPC_OK, 10 * S, 11 * S, LINK_V_ANSWERED, false);
	assert_int_equal(l->state, LINK_READY);
}

static void test_first_call_goes_alone(void **state)
{
	struct link l;

	link_init(&l, 7);
	assert_int_equal(link_free_ns(&l), 0);
	assert_true(link_may_start(&l, S));
	assert_false(link_may_start(&l, S));
	assert_true(link_free_ns(&l) == UINT64_MAX);
	end(&l, RPC_OK, S, S, LINK_V_ANSWERED, false);
	assert_true(link_may_start(&l, S));
	assert_true(link_may_start(&l, S));
}

static void test_waits_double_up_to_a_minute(void **state)
{
	struct link l;
	uint64_t now = S, wait, last = 0;

	link_init(&l, 7);
	for (int i = 0; i < 12; i++) {
		assert_true(link_may_start(&l, now));
		end(&l, RPC_UNAVAILABLE, now, now, LINK_V_LOST, true);
		assert_int_equal(l.state, LINK_AWAY);
		assert_false(link_may_start(&l, now));
		wait = link_free_ns(&l) - now;
		assert_true(wait <= 60 * S);
		assert_true(i >= 6 ? wait > 44 * S : wait > last);
		last = wait;
		now += wait;
	}
	assert_true(link_may_start(&l, now));
	end(&l, RPC_OK, now, now, LINK_V_ANSWERED, false);
	assert_int_equal(l.state, LINK_READY);
	assert_int_equal(l.n_failures, 0);
}

static void test_a_lost_connection_is_one_failure(void **state)
{
	struct link l;

	make_ready(&l);
	for (int i = 0; i < 5; i++)
		assert_true(link_may_start(&l, 12 * S));
	end(&l, RPC_UNAVAILABLE, 12 * S, 13 * S, LINK_V_LOST, true);
	for (int i = 0; i < 4; i++)
		end(&l, RPC_UNAVAILABLE, 12 * S, 13 * S, LINK_V_LOST, false);
	assert_int_equal(l.n_failures, 1);
	assert_int_equal(l.n_running, 0);
}

/* No answer in time: the connection is dead when nobody had one, else the call's fate is unknown. */
static void test_deadline(void **state)
{
	struct link l;

	make_ready(&l);
	assert_true(link_may_start(&l, 20 * S));
	assert_true(link_may_start(&l, 21 * S));
	end(&l, RPC_OK, 21 * S, 22 * S, LINK_V_ANSWERED, false);
	end(&l, RPC_DEADLINE_EXCEEDED, 20 * S, 50 * S, LINK_V_UNCERTAIN, false);
	assert_int_equal(l.state, LINK_READY);
	assert_true(link_may_start(&l, 60 * S));
	end(&l, RPC_DEADLINE_EXCEEDED, 60 * S, 90 * S, LINK_V_LOST, true);
	assert_int_equal(l.state, LINK_AWAY);
}

static void test_refused_token(void **state)
{
	struct link l;

	make_ready(&l);
	assert_true(link_may_start(&l, 20 * S));
	end(&l, RPC_PERMISSION_DENIED, 20 * S, 20 * S, LINK_V_REFUSED, false);
	assert_int_equal(l.state, LINK_UNAUTHORISED);
	assert_false(link_may_start(&l, 20 * S));
	assert_true(link_may_start(&l, 22 * S));
	end(&l, RPC_UNAUTHENTICATED, 22 * S, 22 * S, LINK_V_REFUSED, false);
	assert_int_equal(l.n_failures, 2);
}

static void test_other_failures_are_the_calls_own(void **state)
{
	struct link l;

	make_ready(&l);
	assert_true(link_may_start(&l, 20 * S));
	end(&l, RPC_UNIMPLEMENTED, 20 * S, 20 * S, LINK_V_ANSWERED, false);
	assert_true(link_may_start(&l, 20 * S));
	end(&l, RPC_RESOURCE_EXHAUSTED, 20 * S, 20 * S, LINK_V_ANSWERED, false);
	assert_int_equal(l.state, LINK_READY);
}

static void test_calls_at_a_time_are_limited(void **state)
{
	struct link l;

	make_ready(&l);
	for (int i = 0; i < LINK_RUNNING_MAX; i++)
		assert_true(link_may_start(&l, 20 * S));
	assert_false(link_may_start(&l, 20 * S));
	link_cancelled(&l);
	assert_true(link_may_start(&l, 20 * S));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_call_goes_alone),
		cmocka_unit_test(test_waits_double_up_to_a_minute),
		cmocka_unit_test(test_a_lost_connection_is_one_failure),
		cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_refused_token),
		cmocka_unit_test(test_other_failures_are_the_calls_own),
		cmocka_unit_test(test_calls_at_a_time_are_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
