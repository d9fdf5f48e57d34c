/* SPDX-License-Identifier: Apache-2.0 */
/* test_arena.c: zeroed memory of any size, each piece its own. */
#include <string.h>

#include "export/arena.h"
#include "tests/unit/unit.h"

static void pieces_are_zero_aligned_and_apart(void **state)
{
	static const size_t sizes[] = {1, 3, 8, 17, 4000, 70000, 1, 200000, 5};
	enum { N_SIZES = sizeof(sizes) / sizeof(sizes[0]) };
	struct arena a = {};
	unsigned char *at[N_SIZES * 40];

	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		size_t n = sizes[i % N_SIZES];

		at[i] = arena_alloc(&a, 1, n);
		assert_non_null(at[i]);
		assert_int_equal((uintptr_t)at[i] % _Alignof(max_align_t), 0);
		for (size_t k = 0; k < n; k++)
			assert_int_equal(at[i][k], 0);
		memset(at[i], (int)i % 251 + 1, n);
	}
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		assert_int_equal(at[i][0], i % 251 + 1);
		assert_int_equal(at[i][sizes[i % N_SIZES] - 1], i % 251 + 1);
	}
	arena_deinit(&a);
	assert_null(a.blocks);
	arena_deinit(&a);
}

static void rows_lead_to_their_elements(void **state)
{
	struct arena a = {};
	uint64_t **rows = arena_rows(&a, 1000, sizeof(uint64_t));

	assert_non_null(rows);
	for (uint64_t i = 0; i < 1000; i++) {
		assert_int_equal(*rows[i], 0);
		*rows[i] = i;
	}
	for (uint64_t i = 0; i < 1000; i++)
		assert_int_equal(*rows[i], i);
	arena_deinit(&a);
}

/* A product that does not fit is no small piece. */
static void too_large_is_refused(void **state)
{
	struct arena a = {};

	assert_null(arena_alloc(&a, SIZE_MAX, 1));
	assert_null(arena_alloc(&a, SIZE_MAX / 2 + 1, 2));
	assert_null(arena_alloc(&a, SIZE_MAX / 8, 16));
	assert_null(arena_rows(&a, SIZE_MAX / 2 + 2, 1));
	assert_non_null(arena_alloc(&a, 1, 8));
	arena_deinit(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_are_zero_aligned_and_apart),
		cmocka_unit_test(rows_lead_to_their_elements),
		cmocka_unit_test(too_large_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
