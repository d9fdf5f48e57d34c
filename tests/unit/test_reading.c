/* SPDX-License-Identifier: Apache-2.0 */
/* test_reading.c: the operations of an endpoint in words. */
#include <string.h>

#include "probe/reading.h"
#include "unit.h"

static const char *reading(const struct wire_op *ops, size_t n)
{
	static char text[200];

	return format_reading(ops, n, text, sizeof(text));
}

static void tells_what_is_read(void **state)
{
	static const struct wire_op text[] = {{.code = WIRE_OP_REG, .arg = WIRE_REG_RDI},
					      {.code = WIRE_OP_ADD_IMM, .imm = 56},
					      {.code = WIRE_OP_DEREF, .size = 8},
					      {.code = WIRE_OP_ADD_IMM, .imm = 0},
					      {.code = WIRE_OP_STR, .imm = 64}};
	static const struct wire_op sized[] = {{.code = WIRE_OP_REG, .arg = WIRE_REG_RDX},
					       {.code = WIRE_OP_SAVE, .arg = 1},
					       {.code = WIRE_OP_REG, .arg = WIRE_REG_RSI},
					       {.code = WIRE_OP_STRN, .arg = 1, .imm = 64}};
	static const struct wire_op condition[] = {{.code = WIRE_OP_REG, .arg = WIRE_REG_RDI},
						   {.code = WIRE_OP_AND_IMM, .imm = 255},
						   {.code = WIRE_OP_IF_EQ, .imm = 3},
						   {.code = WIRE_OP_REG, .arg = WIRE_REG_R8},
						   {.code = WIRE_OP_KEEP, .arg = 0}};

	assert_string_equal(reading(text, 5), "text at u64 at rdi+56");
	assert_string_equal(reading(sized, 4), "text at rsi of as many bytes as rdx");
	assert_string_equal(reading(condition, 5), "if (rdi)&0xff == 3, kept 0: r8");
	assert_string_equal(reading(text, 0), "");
}

/* Chains of any length, and registers that there are not, stay in their buffer. */
static void is_cut_where_it_does_not_fit(void **state)
{
	struct wire_op ops[WIRE_OPS_MAX];
	char text[24];

	for (size_t i = 0; i < WIRE_OPS_MAX; i++)
		ops[i] = (struct wire_op){.code = i % 2 ? WIRE_OP_INT : WIRE_OP_DEREF, .size = 4};
	ops[0] = (struct wire_op){.code = WIRE_OP_REG, .arg = 250};
	format_reading(ops, WIRE_OPS_MAX, text, sizeof(text));
	assert_string_equal(text, "number ?, number u32...");
	assert_string_equal(format_reading(ops, WIRE_OPS_MAX, text, 1), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tells_what_is_read),
		cmocka_unit_test(is_cut_where_it_does_not_fit),
	};

	return cmocka_run_group_tests_name("reading", tests, NULL, NULL);
}
