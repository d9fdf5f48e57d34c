/* SPDX-License-Identifier: Apache-2.0 */
/* test_hash.c: the map held against a plain array, and the mixing functions. */
#include <string.h>

#include "base/hash.h"
#include "tests/unit/unit.h"

enum { N_KEYS = 512, N_STEPS = 200000 };

static void empty_map(void **state)
{
	struct hash h;
	uint64_t key, value;
	size_t pos = 0;

	hash_init(&h);
	assert_null(hash_get(&h, 0));
	assert_false(hash_remove(&h, 0));
	assert_false(hash_next(&h, &pos, &key, &value));
	hash_deinit(&h);
}

static void keys_are_replaced_and_removed(void **state)
{
	static const uint64_t keys[] = {0, 1, UINT64_MAX, 1ULL << 63, 16, 32};
	struct hash h;

	hash_init(&h);
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(hash_set(&h, keys[i], i), 0);
	assert_int_equal(hash_set(&h, 0, 77), 0);
	assert_int_equal(h.n, 6);
	assert_int_equal(*hash_get(&h, 0), 77);
	*hash_get(&h, UINT64_MAX) = 5;
	assert_int_equal(*hash_get(&h, UINT64_MAX), 5);
	assert_null(hash_get(&h, 2));
	assert_true(hash_remove(&h, 0));
	assert_false(hash_remove(&h, 0));
	assert_null(hash_get(&h, 0));
	assert_int_equal(h.n, 5);
	hash_deinit(&h);
	assert_null(hash_get(&h, 1));
}

/* A fixed sequence that looks like chance. */
static uint64_t next_number(uint64_t *x)
{
	return hash_mix(*x += 0x9e3779b97f4a7c15ULL);
}

static void assert_same(const struct hash *h, const uint64_t *want, size_t n_want)
{
	bool seen[N_KEYS] = {};
	uint64_t key, value;
	size_t pos = 0, n = 0;

	while (hash_next(h, &pos, &key, &value)) {
		assert_in_range(key, 0, N_KEYS - 1);
		assert_false(seen[key]);
		seen[key] = true;
		assert_int_equal(value, want[key]);
		n++;
	}
	assert_int_equal(n, n_want);
	for (uint64_t k = 0; k < N_KEYS; k++)
		assert_int_equal(hash_get(h, k) != NULL, want[k] != 0);
}

/* Removal closes the gaps of runs: no key gets lost, none comes back. */
static void many_changes(void **state)
{
	uint64_t want[N_KEYS] = {}, x = 1;
	size_t n = 0;
	struct hash h;

	hash_init(&h);
	for (unsigned int i = 1; i <= N_STEPS; i++) {
		uint64_t r = next_number(&x), key = r % N_KEYS;

		/* Mostly growing, then mostly shrinking, in turn. */
		if ((r >> 32) % 8 < (i / 2000 % 2 ? 2 : 6)) {
			n += !want[key];
			want[key] = i;
			assert_int_equal(hash_set(&h, key, i), 0);
		} else {
			assert_int_equal(hash_remove(&h, key), want[key] != 0);
			n -= want[key] != 0;
			want[key] = 0;
		}
		assert_int_equal(h.n, n);
		if (i % 997 == 0)
			assert_same(&h, want, n);
	}
	hash_deinit(&h);
}

static void bytes_length_and_seed_count(void **state)
{
	static const char text[] = "0123456789abcdef\0\0\0";

	assert_int_equal(hash_bytes(text, 16, 1), hash_bytes("0123456789abcdef", 16, 1));
	for (size_t n = 0; n < sizeof(text); n++) {
		assert_true(hash_bytes(text, n, 1) != hash_bytes(text, n + 1, 1));
		assert_true(hash_bytes(text, n, 1) != hash_bytes(text, n, 2));
	}
	for (size_t i = 0; i < 16; i++) {
		char other[sizeof(text)];

		memcpy(other, text, sizeof(text));
		other[i] ^= 1;
		assert_true(hash_bytes(text, 16, 1) != hash_bytes(other, 16, 1));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_map),
		cmocka_unit_test(keys_are_replaced_and_removed),
		cmocka_unit_test(many_changes),
		cmocka_unit_test(bytes_length_and_seed_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
