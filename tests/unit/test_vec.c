/* SPDX-License-Identifier: Apache-2.0 */
/* test_vec.c: arrays that grow, and those that cannot. */
#include "base/vec.h"
#include "tests/unit/unit.h"

struct item {
	uint64_t a;
	uint8_t b;
};

static void grows_and_keeps_what_is_there(void **state)
{
	VEC(struct item) v = {};

	for (unsigned int i = 0; i < 1000; i++) {
		assert_int_equal(vec_push(&v, (struct item){.a = i * 3, .b = (uint8_t)i}), 0);
		assert_int_equal(v.n, i + 1);
		assert_true(v.cap >= v.n);
	}
	for (unsigned int i = 0; i < 1000; i++) {
		assert_int_equal(v.at[i].a, i * 3);
		assert_int_equal(v.at[i].b, (uint8_t)i);
	}
	vec_free(&v);
	assert_null(v.at);
	assert_int_equal(v.n, 0);
	assert_int_equal(v.cap, 0);
	assert_int_equal(vec_push(&v, (struct item){.a = 5}), 0);
	assert_int_equal(v.at[0].a, 5);
	vec_free(&v);
}

static void reserve_makes_room_only(void **state)
{
	VEC(uint32_t) v = {};
	uint32_t *at;

	assert_int_equal(vec_reserve(&v, 0), 0);
	assert_null(v.at);
	assert_int_equal(vec_reserve(&v, 100), 0);
	assert_true(v.cap >= 100);
	assert_int_equal(v.n, 0);
	at = v.at;
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(vec_push(&v, i), 0);
	assert_ptr_equal(v.at, at);
	vec_free(&v);
}

/* Sizes that do not fit are refused before anything is multiplied. */
static void too_large_leaves_it_as_it_was(void **state)
{
	static const size_t wants[] = {SIZE_MAX, SIZE_MAX / 2 + 2, SIZE_MAX / sizeof(struct item)};
	VEC(struct item) v = {};
	size_t cap;

	assert_int_equal(vec_push(&v, (struct item){.a = 9}), 0);
	cap = v.cap;
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(vec_reserve(&v, wants[i]), -ENOMEM);
		assert_int_equal(v.n, 1);
		assert_int_equal(v.cap, cap);
		assert_int_equal(v.at[0].a, 9);
	}
	vec_free(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grows_and_keeps_what_is_there),
		cmocka_unit_test(reserve_makes_room_only),
		cmocka_unit_test(too_large_leaves_it_as_it_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
