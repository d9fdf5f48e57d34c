/* SPDX-License-Identifier: Apache-2.0 */
/* test_pcranges.c: the narrowest of the ranges that hold an address. */
#include "code/pcranges.h"
#include "tests/unit/unit.h"

static void add(struct pcranges *r, uint64_t lo, uint64_t hi, uint64_t die)
{
	assert_int_equal(vec_push(&r->v, (struct pcrange){lo, hi, die}), 0);
}

/* The DIE of the range that is found; 0: none. */
static uint64_t die_at(const struct pcranges *r, uint64_t addr)
{
	const struct pcrange *found = pcranges_find(r, addr);

	return found ? found->die : 0;
}

static void none_holds_it(void **state)
{
	struct pcranges r = {};

	pcranges_sort(&r);
	assert_int_equal(die_at(&r, 0), 0);
	add(&r, 100, 200, 1);
	add(&r, 300, 400, 2);
	pcranges_sort(&r);
	assert_int_equal(die_at(&r, 99), 0);
	assert_int_equal(die_at(&r, 200), 0);
	assert_int_equal(die_at(&r, 299), 0);
	assert_int_equal(die_at(&r, 400), 0);
	assert_int_equal(die_at(&r, UINT64_MAX), 0);
	vec_free(&r.v);
}

static void the_narrowest_is_taken(void **state)
{
	struct pcranges r = {};

	/* Not in order, as DWARF may have them. */
	add(&r, 150, 160, 3);
	add(&r, 100, 400, 1);
	add(&r, 100, 200, 2);
	add(&r, 300, 400, 4);
	pcranges_sort(&r);
	assert_int_equal(die_at(&r, 100), 2);
	assert_int_equal(die_at(&r, 149), 2);
	assert_int_equal(die_at(&r, 150), 3);
	assert_int_equal(die_at(&r, 159), 3);
	assert_int_equal(die_at(&r, 160), 2);
	assert_int_equal(die_at(&r, 199), 2);
	assert_int_equal(die_at(&r, 200), 1);
	assert_int_equal(die_at(&r, 299), 1);
	assert_int_equal(die_at(&r, 399), 4);
	vec_free(&r.v);
}

/* Many that end before the address lie between it and the one that holds it. */
static void found_behind_others(void **state)
{
	struct pcranges r = {};

	add(&r, 1000, 9000, 1);
	for (uint64_t i = 0; i < 60; i++)
		add(&r, 2000 + i * 10, 2005 + i * 10, 100 + i);
	pcranges_sort(&r);
	assert_int_equal(die_at(&r, 8999), 1);
	for (uint64_t i = 0; i < 60; i++) {
		assert_int_equal(die_at(&r, 2004 + i * 10), 100 + i);
		assert_int_equal(die_at(&r, 2005 + i * 10), 1);
	}
	vec_free(&r.v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(none_holds_it),
		cmocka_unit_test(the_narrowest_is_taken),
		cmocka_unit_test(found_behind_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
