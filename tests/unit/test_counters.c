/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/counters.h"
#include "tests/unit/unit.h"

static void every_counter_has_a_row(void **state)
{
	for (unsigned int i = 0; i < COUNTER_MAX; i++) {
		assert_non_null(counter_name(i));
		assert_non_null(counter_help(i));
		assert_true(strlen(counter_help(i)) > 10);
	}
	assert_null(counter_name(COUNTER_MAX));
	assert_null(counter_help(COUNTER_MAX));
	assert_false(counter_is_loss(COUNTER_MAX));
}

/* Names are keys of the JSON format. */
static void names_are_distinct_and_plain(void **state)
{
	for (unsigned int i = 0; i < COUNTER_MAX; i++) {
		const char *name = counter_name(i);

		assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz_"), strlen(name));
		for (unsigned int j = 0; j < i; j++)
			assert_string_not_equal(name, counter_name(j));
	}
}

static void losses_are_told_from_statistics(void **state)
{
	assert_true(counter_is_loss(WIRE_C_RING_FULL_SNAPSHOT));
	assert_true(counter_is_loss(COUNTER_SEQ_GAP));
	assert_false(counter_is_loss(WIRE_C_RETSITE_NEW));
	assert_false(counter_is_loss(COUNTER_UNWIND_FP));
}

static void counters_add_up(void **state)
{
	struct counters a = {}, b = {};

	a.v[WIRE_C_UNWOUND] = 2;
	b.v[WIRE_C_UNWOUND] = 3;
	b.v[COUNTER_MAX - 1] = 7;
	counters_add(&a, &b);
	assert_int_equal(a.v[WIRE_C_UNWOUND], 5);
	assert_int_equal(a.v[COUNTER_MAX - 1], 7);
	assert_int_equal(a.v[0], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_counter_has_a_row),
		cmocka_unit_test(names_are_distinct_and_plain),
		cmocka_unit_test(losses_are_told_from_statistics),
		cmocka_unit_test(counters_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
