/* SPDX-License-Identifier: Apache-2.0 */
/* Enter and leave: every call is counted once, ends once, and leaves nothing open. */
#include <string.h>

#include "rig.h"
#include "tests/unit/unit.h"

#define MS 1000000ULL

static __attribute__((noinline, noclone)) long leaf(void *arg)
{
	__asm__ volatile("");
	return (long)arg + 1;
}

static __attribute__((noinline, noclone)) long spin(void *arg)
{
	rig_spin((uint64_t)(uintptr_t)arg);
	return 0;
}

static void counts_calls(void **state)
{
	struct rig rig;
	struct latency l;

	rig_open(&rig, NULL);
	rig_endpoint(&rig, 0, leaf, NULL);
	for (long i = 0; i < 1000; i++)
		assert_int_equal(rig_call(leaf, (void *)i), i + 1);
	l = rig_latency(&rig, 0);
	assert_int_equal(l.n_enter, 1000);
	assert_int_equal(l.n_leave, 1000);
	assert_int_equal(l.n_unknown, 0);
	assert_true(l.sum_ns > 0);
	rig_drain(&rig);
	assert_int_equal(rig.events.n, 0);
	rig_close(&rig);
}

static void profiles_slow_call(void **state)
{
	const struct event *promoted, *end;
	struct rig rig;
	struct errmsg e;

	rig_open(&rig, NULL);
	rig_gate(&rig, 0, 5 * MS, MS);
	rig_endpoint(&rig, 0, spin, NULL);
	assert_int_equal(kern_sampling(rig.kern, MS, &e), 0);
	rig_call(spin, (void *)(uintptr_t)(30 * MS));
	rig_drain(&rig);
	promoted = rig_event(&rig, WIRE_K_PROMOTED, 0);
	end = rig_event(&rig, WIRE_K_END, 0);
	assert_non_null(promoted);
	assert_non_null(end);
	assert_int_equal(rig_count(&rig, WIRE_K_SNAPSHOT), end->end->n_due);
	print_message("snapshots %u\n", end->end->n_due);
	assert_int_equal(end->h->mono_ns - end->end->start_ns, end->end->wall.oncpu_ns +
								       end->end->wall.runq_ns +
								       end->end->wall.blocked_ns);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_calls),
		cmocka_unit_test(profiles_slow_call),
	};

	return cmocka_run_group_tests_name("span", tests, NULL, NULL);
}
