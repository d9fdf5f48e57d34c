/* SPDX-License-Identifier: Apache-2.0 */
#include <dwarf.h>

#include "code/rule_cache.h"
#include "tests/unit/unit.h"

static struct cfi_rule rule_with(int off)
{
	return (struct cfi_rule){.cfa = {.kind = CFI_REG, .base = WIRE_REG_RSP, .off = off}};
}

static void test_get_and_put(void **state)
{
	struct cfi_rule a = rule_with(8), b = rule_with(16);
	const struct cfi_rule *got;
	struct rule_cache *c;
	int result;

	assert_int_equal(rule_cache_new(&c, 64, 16), 0);
	assert_false(rule_cache_get(c, 1, 0x100, &result, &got));
	assert_int_equal(rule_cache_put(c, 1, 0x100, CFI_OK, &a, &got), 0);
	assert_int_equal(got->cfa.off, 8);
	assert_int_equal(rule_cache_put(c, 1, 0x101, CFI_OK, &b, &got), 0);
	assert_int_equal(rule_cache_put(c, 2, 0x100, CFI_E_NO_CFI, NULL, &got), 0);
	assert_true(rule_cache_get(c, 1, 0x100, &result, &got));
	assert_int_equal(result, CFI_OK);
	assert_int_equal(got->cfa.off, 8);
	assert_true(rule_cache_get(c, 1, 0x101, &result, &got));
	assert_int_equal(got->cfa.off, 16);
	assert_true(rule_cache_get(c, 2, 0x100, &result, &got));
	assert_int_equal(result, CFI_E_NO_CFI);
	assert_false(rule_cache_get(c, 3, 0x100, &result, &got));
	assert_int_equal(rule_cache_evicted(c), 0);
	assert_null(rule_cache_free(c));
}

static void test_same_rule_is_kept_once(void **state)
{
	struct cfi_op ops[2] = {{.code = DW_OP_consts, .imm = 1}, {.code = DW_OP_consts, .imm = 2}};
	struct cfi_op other[2] = {ops[0], ops[0]};
	struct cfi_rule plain = rule_with(8);
	struct cfi_rule by_ops = {.cfa = {.kind = CFI_EXPR, .n_ops = 2}, .n_ops = 2, .ops = ops};
	struct cfi_rule by_other = by_ops;
	const struct cfi_rule *got[4];
	struct rule_cache *c;

	by_other.ops = other;
	assert_int_equal(rule_cache_new(&c, 64, 16), 0);
	assert_int_equal(rule_cache_put(c, 1, 1, CFI_OK, &plain, &got[0]), 0);
	assert_int_equal(rule_cache_put(c, 1, 2, CFI_OK, &by_ops, &got[1]), 0);
	assert_int_equal(rule_cache_put(c, 2, 3, CFI_OK, &by_ops, &got[2]), 0);
	assert_int_equal(rule_cache_put(c, 2, 4, CFI_OK, &by_other, &got[3]), 0);
	assert_ptr_equal(got[1], got[2]);
	assert_int_equal(rule_cache_rules(c), 3);
	assert_ptr_not_equal(got[1]->ops, ops);
	assert_int_equal(got[1]->ops[1].imm, 2);
	assert_int_equal(got[3]->ops[1].imm, 1);
	rule_cache_free(c);
}

/* More addresses than slots: the newest are there, the others are counted as evicted. */
static void test_full_slots(void **state)
{
	struct cfi_rule rule = rule_with(8);
	const struct cfi_rule *got;
	struct rule_cache *c;
	unsigned int n = 0;
	int result;

	assert_int_equal(rule_cache_new(&c, 64, 16), 0);
	for (uint64_t i = 0; i < 1000; i++) {
		assert_int_equal(rule_cache_put(c, 1, i, CFI_OK, &rule, &got), 0);
		assert_true(rule_cache_get(c, 1, i, &result, &got));
	}
	for (uint64_t i = 0; i < 1000; i++)
		n += rule_cache_get(c, 1, i, &result, &got);
	assert_true(n <= 64);
	assert_int_equal(rule_cache_evicted(c), 1000 - n);
	assert_int_equal(rule_cache_evicted(c), 0);
	rule_cache_free(c);
}

static void test_full_rules(void **state)
{
	const struct cfi_rule *got;
	struct rule_cache *c;
	int result;

	assert_int_equal(rule_cache_new(&c, 1024, 16), 0);
	for (int i = 0; i < 17; i++) {
		struct cfi_rule rule = rule_with(8 * i);

		assert_int_equal(rule_cache_put(c, 1, i, CFI_OK, &rule, &got), 0);
	}
	assert_int_equal(rule_cache_rules(c), 1);
	assert_int_equal(rule_cache_evicted(c), 16);
	assert_false(rule_cache_get(c, 1, 0, &result, &got));
	assert_true(rule_cache_get(c, 1, 16, &result, &got));
	assert_int_equal(got->cfa.off, 128);
	rule_cache_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_get_and_put),
		cmocka_unit_test(test_same_rule_is_kept_once),
		cmocka_unit_test(test_full_slots),
		cmocka_unit_test(test_full_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
