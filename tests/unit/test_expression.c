/* SPDX-License-Identifier: Apache-2.0 */
/* test_expression.c: expressions compiled to operations, and errors that mark their place. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "probe/compile.h"
#include "probe/expression.h"
#include "unit.h"

/* Runs arithmetic operations the way BPF does, over a small memory, so that values can be asserted. */
struct machine {
	uint64_t a, t[4], regs[WIRE_REG_MAX], kept[WIRE_VALS_MAX];
	uint64_t memory_base;
	const uint8_t *memory;
	size_t memory_bytes;
	uint64_t captured;
	size_t n_captured;
	uint64_t text_addr, text_bytes;
	bool dropped;
};

static uint64_t load(const struct machine *m, uint64_t addr, unsigned int size)
{
	uint64_t v = 0;

	assert_true(addr >= m->memory_base && addr + size <= m->memory_base + m->memory_bytes);
	memcpy(&v, m->memory + (addr - m->memory_base), size);
	return v;
}

static uint64_t sign_extend(uint64_t v, unsigned int size)
{
	unsigned int shift = 64 - 8 * size;

	return (uint64_t)((int64_t)(v << shift) >> shift);
}

static void capture(struct machine *m, const struct wire_op *op)
{
	m->n_captured++;
	m->captured = m->a;
	if (op->code == WIRE_OP_STR || op->code == WIRE_OP_STRN) {
		m->text_addr = m->a;
		m->text_bytes = op->code == WIRE_OP_STRN ? m->t[op->arg] : 0;
	}
}

static void test_condition(struct machine *m, const struct wire_op *op)
{
	int64_t a = (int64_t)m->a;

	m->dropped |= op->code == WIRE_OP_IF_EQ && a != op->imm;
	m->dropped |= op->code == WIRE_OP_IF_NE && a == op->imm;
	m->dropped |= op->code == WIRE_OP_IF_LT && a >= op->imm;
	m->dropped |= op->code == WIRE_OP_IF_GE && a < op->imm;
}

static void compute(struct machine *m, const struct wire_op *op)
{
	switch (op->code) {
	case WIRE_OP_REG:
		m->a = m->regs[op->arg];
		break;
	case WIRE_OP_IMM:
		m->a = (uint64_t)op->imm;
		break;
	case WIRE_OP_ENTRY_IP:
		m->a = 0x400000 + (uint64_t)op->imm;
		break;
	case WIRE_OP_ADD_IMM:
		m->a += (uint64_t)op->imm;
		break;
	case WIRE_OP_ADD:
		m->a += m->t[op->arg];
		break;
	case WIRE_OP_SUB:
		m->a = m->t[op->arg] - m->a;
		break;
	case WIRE_OP_AND_IMM:
		m->a &= (uint64_t)op->imm;
		break;
	case WIRE_OP_SHR_IMM:
		m->a >>= op->imm;
		break;
	case WIRE_OP_MUL_IMM:
		m->a *= (uint64_t)op->imm;
		break;
	case WIRE_OP_DEREF:
		m->a = load(m, m->a, op->size);
		break;
	case WIRE_OP_DEREF_S:
		m->a = sign_extend(load(m, m->a, op->size), op->size);
		break;
	case WIRE_OP_SAVE:
		m->t[op->arg] = m->a;
		break;
	case WIRE_OP_LOAD:
		m->a = m->t[op->arg];
		break;
	case WIRE_OP_KEEP:
		m->kept[op->arg] = m->a;
		break;
	case WIRE_OP_KEPT:
		m->a = m->kept[op->arg];
		break;
	default:
		break;
	}
}

static void run(struct machine *m, const struct program *p)
{
	for (uint32_t i = 0; i < p->n && !m->dropped; i++) {
		const struct wire_op *op = &p->ops[i];

		if (op->code == WIRE_OP_SKIP_Z)
			i += m->a == 0 ? op->arg : 0;
		else if (op->code >= WIRE_OP_STR && op->code <= WIRE_OP_UINT)
			capture(m, op);
		else if (op->code >= WIRE_OP_IF_EQ)
			test_condition(m, op);
		else
			compute(m, op);
	}
}

static int compile_with(const struct expression_resolver *resolver, const char *text,
			enum expression_kind kind, enum compile_phase phase, struct program *ret,
			struct errmsg *e)
{
	struct expression *x = NULL;
	struct compile_input in = {.text = text, .phase = phase};
	struct scan s;
	int r;

	scan_init(&s, "endpoint", text, 0, e);
	r = s.token.kind == TOKEN_BAD ? -EINVAL : parse_expression(&s, kind, &x);
	if (r == 0 && s.token.kind != TOKEN_END)
		r = scan_error(&s, s.token.at, "rest");
	memset(ret, 0, sizeof(*ret));
	in.name = kind == EXPRESSION_NAME ? x : NULL;
	in.condition = kind == EXPRESSION_CONDITION ? x : NULL;
	if (r == 0)
		r = compile_program(&in, resolver, ret, e);
	expression_free(x);
	return r;
}

static int compile_as(const char *text, enum expression_kind kind, enum compile_phase phase,
		      struct program *ret, struct errmsg *e)
{
	return compile_with(NULL, text, kind, phase, ret, e);
}

static uint64_t value_of(const char *text, struct machine *m)
{
	struct program p;
	struct errmsg e = {""};

	if (compile_as(text, EXPRESSION_NAME, COMPILE_ENTRY, &p, &e) < 0)
		fail_msg("%s", e.text);
	m->n_captured = 0;
	run(m, &p);
	assert_int_equal(m->n_captured, 1);
	return m->captured;
}

static const uint8_t memory[64] = {
	0x10,
	0x10,
	0,
	0,
	0,
	0,
	0,
	0, /* 0x1000: pointer to 0x1010 */
	0xff,
	0xfe,
	0xff,
	0xff,
	0x7f,
	0,
	0,
	0, /* 0x1008 */
	0x34,
	0x12,
	0,
	0,
	0,
	0,
	0,
	0, /* 0x1010 */
	[0x20] = (5 << 1),
	'h',
	'e',
	'l',
	'l',
	'o', /* libc++, short form */
	[0x30] = 1,
	[0x38] = 77, /* libc++, long form: capacity | 1, size */
};

static struct machine new_machine(void)
{
	return (struct machine){.memory_base = 0x1000,
				.memory = memory,
				.memory_bytes = sizeof(memory),
				.regs = {[WIRE_REG_RDI] = 0x1000,
					 [WIRE_REG_RSI] = 7,
					 [WIRE_REG_RDX] = 0x123456,
					 [WIRE_REG_RSP] = 0x1000}};
}

static void values(void **state)
{
	struct machine m = new_machine();

	assert_int_equal(value_of("arg0", &m), 0x1000);
	assert_int_equal(value_of("rsi", &m), 7);
	assert_int_equal(value_of("arg1 + arg2 - 1", &m), 7 + 0x123456 - 1);
	assert_int_equal(value_of("arg2 - arg1", &m), 0x123456 - 7);
	assert_int_equal(value_of("5 - arg1", &m), (uint64_t)-2);
	assert_int_equal(value_of("arg2 & 0xff", &m), 0x56);
	assert_int_equal(value_of("0xff & arg2", &m), 0x56);
	assert_int_equal(value_of("arg2 >> 8 & 0xff", &m), 0x34);
	assert_int_equal(value_of("arg1 << 4", &m), 0x70);
	assert_int_equal(value_of("8 * arg1 + 1", &m), 57);
	assert_int_equal(value_of("-arg1", &m), (uint64_t)-7);
	assert_int_equal(value_of("'A'", &m), 65);
	assert_int_equal(value_of("(arg1 + arg2) - (arg1 + 1)", &m), 0x123456 - 1);
	assert_int_equal(value_of("arg6", &m),
			 0xff | 0xfeULL << 8 | 0xffffULL << 16 | 0x7fULL << 32);
}

static void loads(void **state)
{
	struct machine m = new_machine();

	assert_int_equal(value_of("**arg0", &m), 0x1234);
	assert_int_equal(value_of("*(*arg0)", &m), 0x1234);
	assert_int_equal(value_of("u8(arg0 + 8)", &m), 0xff);
	assert_int_equal(value_of("s8(arg0 + 8)", &m), (uint64_t)-1);
	assert_int_equal(value_of("u16(arg0 + 8)", &m), 0xfeff);
	assert_int_equal(value_of("s32(arg0 + 8)", &m), (uint64_t)(int64_t)(int32_t)0xfffffeff);
	assert_int_equal(value_of("u32(*arg0)", &m), 0x1234);
	assert_int_equal(value_of("arg0[2]", &m), 0x1234);
}

static void texts(void **state)
{
	struct machine m = new_machine();

	value_of("str(*arg0)", &m);
	assert_int_equal(m.text_addr, 0x1010);
	assert_int_equal(m.text_bytes, 0);
	value_of("str(arg0 + 8, arg1 - 3)", &m);
	assert_int_equal(m.text_addr, 0x1008);
	assert_int_equal(m.text_bytes, 4);
	value_of("str(*arg0, *arg0 - arg0)", &m);
	assert_int_equal(m.text_addr, 0x1010);
	assert_int_equal(m.text_bytes, 16);
	value_of("ruststr(arg0)", &m);
	assert_int_equal(m.text_addr, 0x1000);
	assert_int_equal(m.text_bytes, 7);
	value_of("libcxxstring(arg0 + 0x20)", &m);
	assert_int_equal(m.text_addr, 0x1021);
	assert_int_equal(m.text_bytes, 5);
}

static void long_string_form(void **state)
{
	uint8_t bytes[64];
	struct machine m = new_machine();

	/* The object at 0x1018: capacity | 1, size 9, pointer. */
	memcpy(bytes, memory, sizeof(bytes));
	memcpy(bytes + 0x18, &(uint64_t){0x21}, 8);
	memcpy(bytes + 0x20, &(uint64_t){9}, 8);
	memcpy(bytes + 0x28, &(uint64_t){0xabc000}, 8);
	m.memory = bytes;
	value_of("libcxxstring(arg0 + 0x18)", &m);
	assert_int_equal(m.text_addr, 0xabc000);
	assert_int_equal(m.text_bytes, 9);
}

static bool holds(const char *text, struct machine *m)
{
	struct program p;
	struct errmsg e = {""};

	if (compile_as(text, EXPRESSION_CONDITION, COMPILE_ENTRY, &p, &e) < 0)
		fail_msg("%s", e.text);
	m->dropped = false;
	run(m, &p);
	return !m->dropped;
}

/*
 * slice: a text in RDI and RSI, its length first; object: the address of one, with fields at 8 and 16;
 * reference: that of C++; order: the address of what is no text;
 * numbers: an array.
 */
static int fake_variable(void *ctx, const char *name, struct place *ret, struct errmsg *why)
{
	bool slice = strcmp(name, "slice") == 0;

	*ret = (struct place){.kind = slice ? PLACE_REGISTERS : PLACE_REGISTER,
			      .reg = WIRE_REG_RDI,
			      .second = WIRE_REG_RSI,
			      .size = 8,
			      .type = {.class = slice ? VALUE_SPLIT : VALUE_POINTER, .size = 16}};
	ret->type.is_reference = strcmp(name, "reference") == 0;
	ret->type.id = strcmp(name, "order") == 0;
	if (strcmp(name, "numbers") == 0)
		ret->type.class = VALUE_ARRAY;
	if (slice) {
		ret->type.is_text = true;
		ret->type.text_off = 8;
	}
	return 0;
}

static int fake_member(void *ctx, struct value_type type, const char *name, int64_t *ret_offset,
		       struct value_type *ret_type, struct errmsg *why)
{
	*ret_offset = strcmp(name, "inside") == 0 ? 4 : strcmp(name, "text") == 0 ? 8 : 0;
	*ret_type = (struct value_type){.class = VALUE_UNSIGNED, .size = *ret_offset == 8 ? 8 : 2};
	return 0;
}

static int fake_element(void *ctx, struct value_type type, struct value_type *ret)
{
	*ret = (struct value_type){
		.class = VALUE_STRUCT, .is_text = type.id == 0, .text_off = 8, .length_off = 16};
	return 0;
}

static const struct expression_resolver fake_resolver = {
	.variable = fake_variable, .member = fake_member, .element = fake_element};

static void check_named(const char *text, const char *error, struct machine *m)
{
	struct program p;
	struct errmsg e = {""};
	int r = compile_with(&fake_resolver, text, EXPRESSION_NAME, COMPILE_ENTRY, &p, &e);

	if (error) {
		assert_int_equal(r, -EINVAL);
		if (!strstr(e.text, error))
			fail_msg("%s", e.text);
		return;
	}
	if (r < 0)
		fail_msg("%s", e.text);
	m->n_captured = 0;
	run(m, &p);
	assert_int_equal(m->n_captured, 1);
}

static void named_texts(void **state)
{
	static const uint64_t object[] = {0, 0xabc000, 9};
	struct machine m = new_machine();

	m.regs[WIRE_REG_RDI] = 0x123405;
	m.regs[WIRE_REG_RSI] = 0x7000;
	check_named("slice", NULL, &m);
	assert_int_equal(m.text_addr, 0x7000);
	assert_int_equal(m.text_bytes, 0x123405);
	check_named("uint(slice.length)", NULL, &m);
	assert_int_equal(m.captured, 0x3405); /* two bytes of the register */
	check_named("str(slice.text, slice.length)", NULL, &m);
	assert_int_equal(m.text_addr, 0x7000);
	assert_int_equal(m.text_bytes, 0x3405);
	check_named("str(slice)", "write just its name", &m);
	check_named("slice.inside", "inside a register", &m);
	m.memory = (const uint8_t *)object;
	m.memory_bytes = sizeof(object);
	m.regs[WIRE_REG_RDI] = m.memory_base;
	check_named("object", NULL, &m);
	assert_int_equal(m.text_addr, 0xabc000);
	assert_int_equal(m.text_bytes, 9);
	for (const char *const *t = (const char *const[]){"object->text", "reference->text",
							  "reference.text", NULL};
	     *t; t++) {
		check_named(*t, NULL, &m);
		assert_int_equal(m.captured, 0xabc000);
	}
	check_named("order", "the address of a structure: name", &m);
	check_named("order[0]", "this is a structure: name one of its fields at column 1\n", &m);
	check_named("\"x\" order + 8", "name one of its fields at column 5\n", &m);
	check_named("8 + order", "name one of its fields at column 5\n", &m);
	check_named("*order", "name one of its fields at column 1\n", &m);
	check_named("numbers", "this is an array: name one of its elements", &m);
	check_named("hex(order)", NULL, &m);
	check_named("object.text", "is a pointer: use ->", &m);
}

static void conditions(void **state)
{
	struct machine m = new_machine();

	assert_true(holds("arg1==7", &m));
	assert_false(holds("arg1!=7", &m));
	assert_true(holds("arg2&0xff==0x56", &m));
	assert_true(holds("arg1 < 8 && arg1 >= 7 && arg1 <= 7 && arg1 > 6", &m));
	assert_false(holds("arg1 > 7", &m));
	assert_false(holds("arg1 <= 6", &m));
	assert_true(holds("arg1 - 8 < 0", &m));
	assert_true(holds("arg1 - 8 == -1", &m));
}

static void text_conditions(void **state)
{
	struct program p;
	struct errmsg e = {""};

	assert_int_equal(compile_as("str(arg0) == \"GET\" && str(arg1) ^= \"/api\"",
				    EXPRESSION_CONDITION, COMPILE_ENTRY, &p, &e),
			 0);
	assert_int_equal(p.match_bytes, 8);
	assert_memory_equal(p.match, "GET\0/api", 8);
	assert_int_equal(p.ops[1].code, WIRE_OP_IF_PREFIX);
	assert_int_equal(p.ops[1].arg, 0);
	assert_int_equal(p.ops[1].imm, 4);
	assert_int_equal(p.ops[3].arg, 4);
	assert_int_equal(p.ops[3].imm, 4);
}

struct bad {
	const char *text;
	const char *column; /* part of the message */
};

static void errors_mark_the_place(void **state)
{
	static const struct bad bad[] = {
		{"str(", "column 5"},
		{"str(arg0", "column 9"},
		{"arg0 + ", "column 8"},
		{"foo(arg0)", "unknown function 'foo' at column 1"},
		{"str(arg0) @", "column 11"},
		{"arg0 * arg1", "must be a constant at column 6"},
		{"arg0 >> 64", "at most 63"},
		{"0x", "column 1"},
		{"99999999999999999999", "64 bits"},
		{"12ab", "column 3"},
		{"\"abc", "no closing \" at column 1"},
		{"ret", "only known at leave"},
		{"entry(arg0)", "belongs into leave-name"},
		{"r->uri", "need"},
		{"global(errno)", "cannot be looked up"},
		{"map(arg0, 3)", "expected '='"},
		{"\x01", "unexpected character"},
		{"u8 arg0", "expected '('"},
		{"arg0 + arg1->x", "type of the value"},
		{"\"\\q\"", "unknown escape"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct program p;
		struct errmsg e = {""};

		assert_int_equal(compile_as(bad[i].text, EXPRESSION_NAME, COMPILE_ENTRY, &p, &e),
				 -EINVAL);
		if (!strstr(e.text, bad[i].column))
			fail_msg("%s: %s", bad[i].text, e.text);
		assert_non_null(strchr(e.text, '^'));
	}
}

static void nesting_is_bounded(void **state)
{
	char text[2200];
	struct program p;
	struct errmsg e = {""};

	memset(text, '(', 2000);
	text[2000] = '\0';
	assert_int_equal(compile_as(text, EXPRESSION_NAME, COMPILE_ENTRY, &p, &e), -EINVAL);
	memset(text, '*', 2000);
	assert_int_equal(compile_as(text, EXPRESSION_NAME, COMPILE_ENTRY, &p, &e), -EINVAL);
	memset(text, '-', 2000);
	assert_int_equal(compile_as(text, EXPRESSION_NAME, COMPILE_ENTRY, &p, &e), -EINVAL);
	for (int i = 0; i < 300; i++)
		memcpy(text + 7 * i, "lower( ", 8);
	assert_int_equal(compile_as(text, EXPRESSION_NAME, COMPILE_ENTRY, &p, &e), -EINVAL);
}

static void leave_phase(void **state)
{
	struct program p;
	struct errmsg e = {""};

	assert_int_equal(
		compile_as("str(entry(arg1), ret)", EXPRESSION_NAME, COMPILE_LEAVE, &p, &e), 0);
	assert_int_equal(p.ops[0].code, WIRE_OP_REG);
	assert_int_equal(p.ops[0].arg, WIRE_REG_RAX);
	assert_int_equal(p.ops[2].code, WIRE_OP_KEPT);
	assert_int_equal(compile_as("arg0", EXPRESSION_NAME, COMPILE_LEAVE, &p, &e), -EINVAL);
	assert_int_equal(compile_as("arg0", EXPRESSION_NAME, COMPILE_END, &p, &e), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values),
		cmocka_unit_test(loads),
		cmocka_unit_test(texts),
		cmocka_unit_test(long_string_form),
		cmocka_unit_test(named_texts),
		cmocka_unit_test(conditions),
		cmocka_unit_test(text_conditions),
		cmocka_unit_test(errors_mark_the_place),
		cmocka_unit_test(nesting_is_bounded),
		cmocka_unit_test(leave_phase),
	};

	return cmocka_run_group_tests_name("expression", tests, NULL, NULL);
}
