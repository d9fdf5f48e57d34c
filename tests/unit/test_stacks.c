/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/cleanup.h"
#include "pipe/stacks.h"
#include "tests/unit/unit.h"

#define TEXT "[between]"

/* Places in a program by their numbers; from 100 on in the kernel. */
static uint32_t place(struct stacks *s, uint64_t number)
{
	struct raw_location l = {.kind = number < 100 ? RAW_ANONYMOUS : RAW_KERNEL,
				 .address = number};
	uint32_t idx;

	assert_int_equal(stacks_add_location(s, &l, &idx), 0);
	return idx;
}

/* Leaf first, up to a zero. */
static uint32_t stack(struct stacks *s, enum stack_stop stop, const uint64_t *numbers)
{
	uint32_t locations[16], idx;
	size_t n = 0;

	for (; numbers[n]; n++)
		locations[n] = place(s, numbers[n]);
	assert_int_equal(stacks_add(s, locations, n, stop, &idx), 0);
	return idx;
}

#define STACK(...)                                     \
	stack(s, STACK_STOP_ENDPOINT,                  \
	      (const uint64_t[]){                      \
		      __VA_ARGS__,                     \
		      3,                               \
		      2,                               \
		      1 /* the endpoint's function */, \
		      0,                               \
	      })

static void shared_frames_are_the_callers_of_both(void **state)
{
	const struct raw_location leaf = {.kind = RAW_SYNTHETIC, .text = TEXT};
	struct stacks *s;
	uint32_t shared, expected, deeper, run[5];

	assert_int_equal(stacks_new(&s, true), 0);
	assert_int_equal(stacks_add_location(s, &leaf, &run[0]), 0);
	for (int i = 0; i < 4; i++)
		run[1 + i] = place(s, 4 - i);
	assert_int_equal(stacks_add(s, run, 5, STACK_STOP_ENDPOINT, &deeper), 0);
	run[1] = run[0];
	assert_int_equal(stacks_add(s, run + 1, 4, STACK_STOP_ENDPOINT, &expected), 0);

	/* The kernel's frames and the program's leaf are no callers, though the same. */
	assert_int_equal(
		stacks_add_shared(s, STACK(101, 100, 4), STACK(101, 100, 4), TEXT, &shared), 0);
	assert_int_equal(shared, expected);
	assert_int_equal(stacks_add_shared(s, STACK(5, 4), STACK(102, 4), TEXT, &shared), 0);
	assert_int_equal(shared, expected);
	assert_int_equal(stacks_add_shared(s, STACK(6, 5, 4), STACK(7, 4), TEXT, &shared), 0);
	assert_int_equal(shared, deeper);
	/* Once they differ, what is further in is another call of it. */
	assert_int_equal(stacks_add_shared(s, STACK(7, 6, 5), STACK(7, 6, 4), TEXT, &shared), 0);
	assert_int_equal(shared, expected);
	stacks_free(s);
}

static void nothing_is_shared_with_less(void **state)
{
	struct stacks *s;
	uint32_t whole, shared;

	assert_int_equal(stacks_new(&s, true), 0);
	whole = STACK(5, 4);
	assert_int_equal(stacks_add_shared(s, whole, 0, TEXT, &shared), -ENOENT);
	assert_int_equal(stacks_add_shared(s, whole, 1000, TEXT, &shared), -ENOENT);
	assert_int_equal(stacks_add_shared(s, whole, STACK(100), TEXT, &shared), -ENOENT);
	assert_int_equal(
		stacks_add_shared(s, whole,
				  stack(s, STACK_STOP_NO_CFI, (const uint64_t[]){5, 4, 3, 2, 1, 0}),
				  TEXT, &shared),
		-ENOENT);
	stacks_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shared_frames_are_the_callers_of_both),
		cmocka_unit_test(nothing_is_shared_with_less),
	};

	return cmocka_run_group_tests_name("stacks", tests, NULL, NULL);
}
