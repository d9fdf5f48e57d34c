/* SPDX-License-Identifier: Apache-2.0 */
/* expression_value.c: V of the grammar: sums, memory, fields, and what else makes a number or an address. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "probe/expression_priv.h"

static const char *const register_names[WIRE_REG_MAX] = {
	[WIRE_REG_RAX] = "rax", [WIRE_REG_RDX] = "rdx", [WIRE_REG_RCX] = "rcx",
	[WIRE_REG_RBX] = "rbx", [WIRE_REG_RSI] = "rsi", [WIRE_REG_RDI] = "rdi",
	[WIRE_REG_RBP] = "rbp", [WIRE_REG_RSP] = "rsp", [WIRE_REG_R8] = "r8",
	[WIRE_REG_R9] = "r9",   [WIRE_REG_R10] = "r10", [WIRE_REG_R11] = "r11",
	[WIRE_REG_R12] = "r12", [WIRE_REG_R13] = "r13", [WIRE_REG_R14] = "r14",
	[WIRE_REG_R15] = "r15", [WIRE_REG_RIP] = "rip",
};

const char *expression_register(unsigned int reg)
{
	return register_names[reg];
}

int expression_fail_here(const struct parser *p, const char *what)
{
	if (p->s->token.kind == TOKEN_BAD)
		return -EINVAL;
	return scan_error(p->s, p->s->token.at, "%s", what);
}

int expression_add_node(struct parser *p, struct expr_node node, uint16_t *ret)
{
	AUTO_FREE char *text = node.text;
	int r;

	if (p->x->nodes.n >= EXPRESSION_NODES_MAX)
		return scan_error(p->s, node.at, "the expression is too long");
	r = vec_push(&p->x->nodes, node);
	if (r < 0)
		return r;
	text = NULL;
	*ret = (uint16_t)(p->x->nodes.n - 1);
	return 0;
}

/* Copies the token at hand, or the string value when it is one. */
char *expression_token_text(const struct scan *s)
{
	if (s->token.kind == TOKEN_STRING)
		return strndup(s->string, s->string_bytes);
	return strndup(s->text + s->token.at, s->token.end - s->token.at);
}

/* "(" value ")" */
int expression_parse_operand(struct parser *p, uint16_t *ret)
{
	int r = scan_expect_punct(p->s, "(");

	r = r < 0 ? r : expression_parse_value(p, ret);
	return r < 0 ? r : scan_expect_punct(p->s, ")");
}

static int parse_load(struct parser *p, uint8_t size, bool is_signed, uint32_t at, uint16_t *ret)
{
	uint16_t a;
	int r = expression_parse_operand(p, &a);

	if (r < 0)
		return r;
	return expression_add_node(
		p,
		(struct expr_node){
			.kind = EXPR_LOAD, .size = size, .is_signed = is_signed, .a = a, .at = at},
		ret);
}

/* global(SYMBOL) or global("SYMBOL") */
static int parse_global(struct parser *p, uint32_t at, uint16_t *ret)
{
	struct expr_node node = {.kind = EXPR_GLOBAL, .at = at};
	int r = scan_expect_punct(p->s, "(");

	if (r < 0)
		return r;
	if (p->s->token.kind != TOKEN_IDENT && p->s->token.kind != TOKEN_STRING)
		return expression_fail_here(p, "expected a symbol name");
	node.text = expression_token_text(p->s);
	if (!node.text)
		return -ENOMEM;
	r = expression_add_node(p, node, ret);
	if (r < 0)
		return r;
	scan_next(p->s);
	return scan_expect_punct(p->s, ")");
}

/* getter(FUNCTION, V) */
static int parse_getter(struct parser *p, uint32_t at, uint16_t *ret)
{
	struct expr_node node = {.kind = EXPR_GETTER, .at = at};
	AUTO_FREE char *text = NULL;
	int r = scan_expect_punct(p->s, "(");

	if (r < 0)
		return r;
	if (p->s->token.kind != TOKEN_IDENT && p->s->token.kind != TOKEN_STRING)
		return expression_fail_here(p, "expected the name of a function");
	text = expression_token_text(p->s);
	if (!text)
		return -ENOMEM;
	scan_next(p->s);
	r = scan_expect_punct(p->s, ",");
	r = r < 0 ? r : expression_parse_value(p, &node.a);
	if (r < 0)
		return r;
	node.text = TAKE_PTR(text);
	r = expression_add_node(p, node, ret);
	return r < 0 ? r : scan_expect_punct(p->s, ")");
}

static int parse_entry(struct parser *p, uint32_t at, uint16_t *ret)
{
	struct expr_node node = {.kind = EXPR_ENTRY, .at = at};
	int r;

	if (p->x->n_kept >= WIRE_VALS_MAX)
		return scan_error(p->s, at, "more than %d entry() values", WIRE_VALS_MAX);
	node.number = p->x->n_kept++;
	r = expression_parse_operand(p, &node.a);
	return r < 0 ? r : expression_add_node(p, node, ret);
}

struct load_name {
	const char *name;
	uint8_t size;
	bool is_signed;
};

static const struct load_name load_names[] = {
	{"u8", 1, false}, {"u16", 2, false}, {"u32", 4, false}, {"u64", 8, false},
	{"s8", 1, true},  {"s16", 2, true},  {"s32", 4, true},  {"s64", 8, true},
};

/* argN, a register, ret, a function of values, or a variable. */
static int parse_ident(struct parser *p, uint16_t *ret)
{
	struct scan *s = p->s;
	const char *word = s->text + s->token.at;
	size_t n = s->token.end - s->token.at;
	struct expr_node node = {.kind = EXPR_VAR, .at = (uint32_t)s->token.at};
	const struct load_name *load = NULL;
	bool is_global = scan_is_ident(s, "global");
	bool is_entry = scan_is_ident(s, "entry");
	bool is_getter = scan_is_ident(s, "getter");

	for (size_t i = 0; i < ARRAY_SIZE(load_names); i++)
		if (scan_is_ident(s, load_names[i].name))
			load = &load_names[i];
	if (n == 4 && strncmp(word, "arg", 3) == 0 && word[3] >= '0' && word[3] <= '9') {
		node.kind = EXPR_ARG;
		node.number = (uint64_t)(word[3] - '0');
	} else if (scan_is_ident(s, "ret")) {
		node.kind = EXPR_RET;
	}
	for (unsigned int i = 0; i < WIRE_REG_MAX && node.kind == EXPR_VAR; i++) {
		if (scan_is_ident(s, register_names[i])) {
			node.kind = EXPR_REG;
			node.number = i;
		}
	}
	if (node.kind == EXPR_VAR && !load && !is_global && !is_entry && !is_getter) {
		node.text = expression_token_text(s);
		if (!node.text)
			return -ENOMEM;
	}
	scan_next(s);
	if (load)
		return parse_load(p, load->size, load->is_signed, node.at, ret);
	if (is_global)
		return parse_global(p, node.at, ret);
	if (is_entry)
		return parse_entry(p, node.at, ret);
	if (is_getter)
		return parse_getter(p, node.at, ret);
	if (node.kind == EXPR_VAR && scan_is_punct(s, "(")) {
		int r = scan_error(s, node.at, "unknown function '%s'", node.text);

		free(node.text);
		return r;
	}
	return expression_add_node(p, node, ret);
}

static int parse_primary(struct parser *p, uint16_t *ret)
{
	struct expr_node node = {.kind = EXPR_NUMBER, .at = (uint32_t)p->s->token.at};

	switch (p->s->token.kind) {
	case TOKEN_NUMBER:
		node.number = p->s->token.number;
		scan_next(p->s);
		return expression_add_node(p, node, ret);
	case TOKEN_IDENT:
		return parse_ident(p, ret);
	default:
		if (scan_is_punct(p->s, "("))
			return expression_parse_operand(p, ret);
		if (p->s->text[p->s->token.at] == ':')
			return expression_fail_here(
				p,
				"expected a value (an overload's parameters are in quotes of their own, as in \"'f(std::string)'\")");
		return expression_fail_here(p, "expected a value");
	}
}

/* [NUMBER] after a value. */
static int parse_index(struct parser *p, struct expr_node *node)
{
	if (p->s->token.kind != TOKEN_NUMBER || p->s->token.number > 0xffff)
		return expression_fail_here(p, "expected a constant index");
	node->kind = EXPR_INDEX;
	node->number = p->s->token.number;
	scan_next(p->s);
	return scan_expect_punct(p->s, "]");
}

static int parse_postfix(struct parser *p, uint16_t *ret)
{
	int r = parse_primary(p, ret);

	while (r == 0) {
		struct expr_node node = {.a = *ret, .at = (uint32_t)p->s->token.at};

		if (scan_take_punct(p->s, "[")) {
			r = parse_index(p, &node);
		} else if (scan_is_punct(p->s, "->") || scan_is_punct(p->s, ".")) {
			node.kind = scan_is_punct(p->s, ".") ? EXPR_FIELD : EXPR_ARROW;
			scan_next(p->s);
			if (p->s->token.kind != TOKEN_IDENT)
				return expression_fail_here(p, "expected a field's name");
			node.at = (uint32_t)p->s->token.at;
			node.text = expression_token_text(p->s);
			if (!node.text)
				return -ENOMEM;
			scan_next(p->s);
		} else {
			return 0;
		}
		if (r == 0)
			r = expression_add_node(p, node, ret);
	}
	return r;
}

static int parse_unary(struct parser *p, uint16_t *ret);

static int parse_unary_inner(struct parser *p, uint16_t *ret)
{
	uint32_t at = (uint32_t)p->s->token.at;
	uint16_t a, zero = 0;
	int r;

	if (scan_take_punct(p->s, "*")) {
		r = parse_unary(p, &a);
		if (r < 0)
			return r;
		return expression_add_node(
			p, (struct expr_node){.kind = EXPR_LOAD, .size = 8, .a = a, .at = at}, ret);
	}
	if (scan_take_punct(p->s, "-")) {
		r = expression_add_node(p, (struct expr_node){.kind = EXPR_NUMBER, .at = at},
					&zero);
		r = r < 0 ? r : parse_unary(p, &a);
		if (r < 0)
			return r;
		return expression_add_node(
			p, (struct expr_node){.kind = EXPR_SUB, .a = zero, .b = a, .at = at}, ret);
	}
	return parse_postfix(p, ret);
}

static int parse_unary(struct parser *p, uint16_t *ret)
{
	int r;

	if (++p->depth > EXPRESSION_DEPTH_MAX)
		return expression_fail_here(p, "the expression is nested too deep");
	r = parse_unary_inner(p, ret);
	p->depth--;
	return r;
}

static const struct expr_node *number_node(const struct parser *p, uint16_t idx)
{
	const struct expr_node *n = &p->x->nodes.at[idx];

	return n->kind == EXPR_NUMBER ? n : NULL;
}

/* Adds a node whose right side must be a constant; for & and * the constant may be on the left. */
static int add_constant_op(struct parser *p, enum expr_kind kind, uint16_t a, uint16_t b,
			   uint32_t at, uint16_t *ret)
{
	if (kind != EXPR_SHR && number_node(p, a)) {
		uint16_t t = a;

		a = b;
		b = t;
	}
	if (!number_node(p, b))
		return scan_error(p->s, at, "one side of this operator must be a constant");
	if (kind == EXPR_SHR && number_node(p, b)->number > 63)
		return scan_error(p->s, at, "a shift is at most 63");
	return expression_add_node(
		p,
		(struct expr_node){
			.kind = kind, .a = a, .number = number_node(p, b)->number, .at = at},
		ret);
}

static int parse_product(struct parser *p, uint16_t *ret)
{
	int r = parse_unary(p, ret);

	while (r == 0 && scan_is_punct(p->s, "*")) {
		uint32_t at = (uint32_t)p->s->token.at;
		uint16_t b = 0;

		scan_next(p->s);
		r = parse_unary(p, &b);
		r = r < 0 ? r : add_constant_op(p, EXPR_MUL, *ret, b, at, ret);
	}
	return r;
}

static int parse_sum(struct parser *p, uint16_t *ret)
{
	int r = parse_product(p, ret);

	while (r == 0 && (scan_is_punct(p->s, "+") || scan_is_punct(p->s, "-"))) {
		struct expr_node node = {.kind = scan_is_punct(p->s, "+") ? EXPR_ADD : EXPR_SUB,
					 .a = *ret,
					 .at = (uint32_t)p->s->token.at};

		scan_next(p->s);
		r = parse_product(p, &node.b);
		r = r < 0 ? r : expression_add_node(p, node, ret);
	}
	return r;
}

static int parse_shift(struct parser *p, uint16_t *ret)
{
	int r = parse_sum(p, ret);

	while (r == 0 && (scan_is_punct(p->s, "<<") || scan_is_punct(p->s, ">>"))) {
		bool left = scan_is_punct(p->s, "<<");
		uint32_t at = (uint32_t)p->s->token.at;
		uint16_t b = 0;

		scan_next(p->s);
		r = parse_sum(p, &b);
		r = r < 0 ? r : add_constant_op(p, EXPR_SHR, *ret, b, at, ret);
		if (r == 0 && left) {
			struct expr_node *n = &p->x->nodes.at[*ret];

			n->kind = EXPR_MUL;
			n->number = 1ULL << n->number;
		}
	}
	return r;
}

int expression_parse_value(struct parser *p, uint16_t *ret)
{
	int r = parse_shift(p, ret);

	while (r == 0 && scan_is_punct(p->s, "&")) {
		uint32_t at = (uint32_t)p->s->token.at;
		uint16_t b = 0;

		scan_next(p->s);
		r = parse_shift(p, &b);
		r = r < 0 ? r : add_constant_op(p, EXPR_AND, *ret, b, at, ret);
	}
	return r;
}
