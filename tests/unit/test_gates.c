/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/gates.h"
#include "tests/unit/unit.h"

enum { MS = 1000000 };

static void set(struct gates *g, uint32_t ep_id, uint32_t instance_id, uint64_t period_ns)
{
	const struct gate_terms terms = {.threshold_ns = ep_id, .period_ns = period_ns};

	assert_int_equal(gates_set(g, &(struct wire_gate_key){ep_id, instance_id}, &terms), 0);
}

static void test_one_entry_for_each_key(void **state)
{
	struct gates g = {};

	assert_null(gates_get(&g, &(struct wire_gate_key){1, 1}));
	set(&g, 1, 1, 10 * MS);
	set(&g, 1, 2, 20 * MS);
	set(&g, 2, 1, 30 * MS);
	set(&g, 1, 1, 40 * MS);
	assert_int_equal(g.all.n, 3);
	assert_int_equal(gates_get(&g, &(struct wire_gate_key){1, 1})->period_ns, 40 * MS);
	assert_int_equal(gates_get(&g, &(struct wire_gate_key){1, 2})->period_ns, 20 * MS);
	assert_true(gates_remove(&g, &(struct wire_gate_key){1, 2}));
	assert_null(gates_get(&g, &(struct wire_gate_key){1, 2}));
	assert_int_equal(gates_get(&g, &(struct wire_gate_key){2, 1})->threshold_ns, 2);
	gates_deinit(&g);
}

static void test_smallest_period(void **state)
{
	struct gates g = {};

	assert_int_equal(gates_period(&g), 0);
	set(&g, 0, 1, 10 * MS);
	assert_int_equal(gates_period(&g), 10 * MS);
	set(&g, 1, 1, 2 * MS);
	assert_int_equal(gates_period(&g), 2 * MS);
	assert_true(gates_remove(&g, &(struct wire_gate_key){1, 1}));
	assert_false(gates_remove(&g, &(struct wire_gate_key){1, 1}));
	assert_false(gates_remove(&g, &(struct wire_gate_key){0, 2}));
	assert_int_equal(gates_period(&g), 10 * MS);
	gates_deinit(&g);
}

/* Faster than what is due, but not below a millisecond, nor slower than the period itself. */
static void test_tick(void **state)
{
	assert_int_equal(gates_tick(0), 0);
	assert_int_equal(gates_tick(80 * MS), 10 * MS);
	assert_int_equal(gates_tick(8 * MS), 1 * MS);
	assert_int_equal(gates_tick(4 * MS), 1 * MS);
	assert_int_equal(gates_tick(1 * MS), 1 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_entry_for_each_key),
		cmocka_unit_test(test_smallest_period),
		cmocka_unit_test(test_tick),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
