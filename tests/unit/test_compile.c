/* SPDX-License-Identifier: Apache-2.0 */
/* test_compile.c: the operations that expressions become; what they compute is in test_expression.c. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "probe/compile.h"
#include "tests/unit/unit.h"

static struct expression *parse(const char *text, enum expression_kind kind)
{
	struct expression *x = NULL;
	struct errmsg e = {""};
	struct scan s;

	scan_init(&s, "endpoint", text, 0, &e);
	if (parse_expression(&s, kind, &x))
		fail_msg("%s", e.text);
	assert_int_equal(s.token.kind, TOKEN_END);
	return x;
}

/* A condition, values that are kept and a name at the entry; each may be NULL. */
static int compile_entry(const char *condition, const char *keep, const char *name,
			 struct program *p, struct errmsg *e)
{
	struct expression *c = condition ? parse(condition, EXPRESSION_CONDITION) : NULL;
	struct expression *k = keep ? parse(keep, EXPRESSION_NAME) : NULL;
	struct expression *n = name ? parse(name, EXPRESSION_NAME) : NULL;
	const struct compile_input in = {.text = name        ? name
						 : condition ? condition
							     : keep,
					 .condition = c,
					 .keep = k,
					 .name = n,
					 .phase = COMPILE_ENTRY};
	int r;

	memset(p, 0, sizeof(*p));
	r = compile_program(&in, NULL, p, e);
	expression_free(c);
	expression_free(k);
	expression_free(n);
	return r;
}

static void assert_ops(const struct program *p, const struct wire_op *want, uint32_t n)
{
	assert_int_equal(p->n, n);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(p->ops[i].code, want[i].code);
		assert_int_equal(p->ops[i].arg, want[i].arg);
		assert_int_equal(p->ops[i].size, want[i].size);
		assert_int_equal(p->ops[i].imm, want[i].imm);
	}
}

/* A call that is dropped costs neither what is kept nor the name. */
static void conditions_come_first_and_the_name_last(void **state)
{
	static const struct wire_op want[] = {
		{.code = WIRE_OP_REG, .arg = WIRE_REG_RSI}, {.code = WIRE_OP_IF_GE, .imm = 4},
		{.code = WIRE_OP_REG, .arg = WIRE_REG_RDX}, {.code = WIRE_OP_KEEP, .arg = 0},
		{.code = WIRE_OP_REG, .arg = WIRE_REG_RDI}, {.code = WIRE_OP_ADD_IMM, .imm = 8},
		{.code = WIRE_OP_DEREF, .size = 8},         {.code = WIRE_OP_STR, .imm = 240},
	};
	struct errmsg e = {""};
	struct program p;

	assert_int_equal(
		compile_entry("arg1 > 3", "hex(entry(arg2))", "\"GET \" str(*(arg0 + 8))", &p, &e),
		0);
	assert_ops(&p, want, sizeof(want) / sizeof(want[0]));
	assert_int_equal(p.registers, 1U << WIRE_REG_RSI | 1U << WIRE_REG_RDX | 1U << WIRE_REG_RDI);
	assert_int_equal(p.match_bytes, 0);
}

static void each_kept_value_has_a_slot(void **state)
{
	struct errmsg e = {""};
	struct program p;

	assert_int_equal(compile_entry(NULL, "entry(arg0) \" \" entry(arg1)", NULL, &p, &e), 0);
	assert_int_equal(p.n, 4);
	assert_int_equal(p.ops[1].code, WIRE_OP_KEEP);
	assert_int_equal(p.ops[1].arg, 0);
	assert_int_equal(p.ops[3].code, WIRE_OP_KEEP);
	assert_int_equal(p.ops[3].arg, 1);
}

/* The text that a compared text leaves no room for, by one byte. */
static void compared_texts_have_64_bytes_together(void **state)
{
	char text[256];
	struct errmsg e = {""};
	struct program p;

	snprintf(text, sizeof(text), "str(arg0) == \"%.*s\" && str(arg0) ^= \"%.*s\"", 40,
		 "0123456789012345678901234567890123456789", 23, "01234567890123456789012");
	assert_int_equal(compile_entry(text, NULL, NULL, &p, &e), 0);
	assert_int_equal(p.match_bytes, 64);
	snprintf(text, sizeof(text), "str(arg0) == \"%.*s\" && str(arg0) == \"%.*s\"", 40,
		 "0123456789012345678901234567890123456789", 23, "01234567890123456789012");
	assert_int_equal(compile_entry(text, NULL, NULL, &p, &e), -EINVAL);
	assert_non_null(strstr(e.text, "more than 64 bytes together"));
}

/* Refused, not cut: a name without its last part would be another name. */
static void programs_have_a_limit(void **state)
{
	char text[1024] = "";
	struct errmsg e = {""};
	struct program p;

	for (unsigned int i = 0; i < EXPRESSION_PARTS_MAX; i++)
		strcat(text, " int(*(arg0 + 8) + 1)");
	assert_int_equal(compile_entry(NULL, NULL, text, &p, &e), -EINVAL);
	assert_non_null(strstr(e.text, "needs more than 47 operations"));
	assert_int_equal(p.n, WIRE_OPS_MAX - 1);
}

static void numbers_at_the_edge(void **state)
{
	struct errmsg e = {""};
	struct program p;

	assert_int_equal(compile_entry("arg0 < 9223372036854775807", NULL, NULL, &p, &e), 0);
	assert_int_equal(p.ops[1].imm, INT64_MAX);
	/* "<= n" is "< n + 1", which is no number here. */
	assert_int_equal(compile_entry("arg0 <= 9223372036854775807", NULL, NULL, &p, &e), -EINVAL);
	assert_non_null(strstr(e.text, "too large to compare with"));
	assert_int_equal(compile_entry("arg0 <= 9223372036854775806", NULL, NULL, &p, &e), 0);
	assert_int_equal(p.ops[1].code, WIRE_OP_IF_LT);
	assert_int_equal(p.ops[1].imm, INT64_MAX);
}

static void each_kind_of_number_has_its_capture(void **state)
{
	struct errmsg e = {""};
	struct program p;

	assert_int_equal(compile_entry(NULL, NULL,
				       "int(arg0) uint(arg0) hex(arg0) map(arg0, 1=\"a\") arg0", &p,
				       &e),
			 0);
	assert_int_equal(p.n, 10);
	assert_int_equal(p.ops[1].code, WIRE_OP_INT);
	assert_int_equal(p.ops[3].code, WIRE_OP_UINT);
	assert_int_equal(p.ops[5].code, WIRE_OP_UINT);
	assert_int_equal(p.ops[7].code, WIRE_OP_INT);
	assert_int_equal(p.ops[9].code, WIRE_OP_UINT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(conditions_come_first_and_the_name_last),
		cmocka_unit_test(each_kept_value_has_a_slot),
		cmocka_unit_test(compared_texts_have_64_bytes_together),
		cmocka_unit_test(programs_have_a_limit),
		cmocka_unit_test(numbers_at_the_edge),
		cmocka_unit_test(each_kind_of_number_has_its_capture),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
