/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/counters.h"
#include "unit.h"

static void names_match_ids(void **state)
{
	assert_string_equal(counter_name(WIRE_C_RING_FULL_SNAPSHOT), "ring_full_snapshot");
	assert_string_equal(counter_name(WIRE_C_NO_STORAGE), "no_storage");
	assert_string_equal(counter_name(WIRE_C_NAME_TRUNCATED), "name_truncated");
	assert_string_equal(counter_name(WIRE_C_MEMBER_FULL), "member_full");
	assert_string_equal(counter_name(COUNTER_RECORD_MALFORMED), "record_malformed");
	assert_string_equal(counter_name(COUNTER_SEQ_GAP), "seq_gap");
	assert_string_equal(counter_name(COUNTER_UNWIND_PAST), "unwind_past");
	assert_string_equal(counter_name(COUNTER_ATTACH_FAILED), "attach_failed");
}

static void names_are_unique(void **state)
{
	for (unsigned int i = 0; i < COUNTER_MAX; i++) {
		assert_non_null(counter_help(i));
		for (unsigned int j = 0; j < i; j++)
			assert_string_not_equal(counter_name(i), counter_name(j));
	}
}

static void bad_ids_have_no_name(void **state)
{
	assert_null(counter_name(COUNTER_MAX));
	assert_null(counter_help(COUNTER_MAX));
	assert_false(counter_is_loss(COUNTER_MAX));
}

static void losses_are_told_from_statistics(void **state)
{
	assert_true(counter_is_loss(WIRE_C_RING_FULL_END));
	assert_false(counter_is_loss(WIRE_C_SHORT_WAIT));
	assert_true(counter_is_loss(COUNTER_FORK_LATE));
	assert_true(counter_is_loss(COUNTER_EXEC_LATE));
}

/* Of several causes none is said to be the one. */
static void causes_are_told(void **state)
{
	const char *help = counter_help(WIRE_C_WINDOW_FAULT);

	assert_non_null(strstr(help, "swapped out"));
	assert_non_null(strstr(help, "unmapped"));
}

static void adds_each(void **state)
{
	struct counters a = {.v = {1, 2}}, b = {.v = {10, 20}};

	b.v[COUNTER_MAX - 1] = 5;
	counters_add(&a, &b);
	assert_int_equal(a.v[0], 11);
	assert_int_equal(a.v[1], 22);
	assert_int_equal(a.v[COUNTER_MAX - 1], 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_match_ids),
		cmocka_unit_test(names_are_unique),
		cmocka_unit_test(bad_ids_have_no_name),
		cmocka_unit_test(losses_are_told_from_statistics),
		cmocka_unit_test(causes_are_told),
		cmocka_unit_test(adds_each),
	};

	return cmocka_run_group_tests_name("counters", tests, NULL, NULL);
}
