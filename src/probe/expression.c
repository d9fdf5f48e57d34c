/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/expression.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "probe/expression_priv.h"

static int parse_part(struct parser *p, bool lower);

static void part_deinit(struct expr_part *part)
{
	for (size_t i = 0; i < part->map.n; i++)
		free(part->map.at[i].to);
	vec_free(&part->map);
	free(part->text);
	part->text = NULL;
}

static int add_part(struct parser *p, struct expr_part *take_part)
{
	int r;

	if (p->x->parts.n >= EXPRESSION_PARTS_MAX)
		r = scan_error(p->s, p->s->token.at, "the name has more than %d parts",
			       EXPRESSION_PARTS_MAX);
	else
		r = vec_push(&p->x->parts, *take_part);
	if (r < 0)
		part_deinit(take_part);
	return r;
}

/* "(" ADDR [ "," LEN ] ")" */
static int parse_string_operand(struct parser *p, uint16_t *ret_addr, bool *ret_has_len,
				uint16_t *ret_len)
{
	int r = scan_expect_punct(p->s, "(");

	r = r < 0 ? r : expression_parse_value(p, ret_addr);
	if (r < 0)
		return r;
	if (scan_take_punct(p->s, ",")) {
		*ret_has_len = true;
		r = expression_parse_value(p, ret_len);
		if (r < 0)
			return r;
	}
	return scan_expect_punct(p->s, ")");
}

/* ruststr(argN): pointer and length in two successive arguments. */
static int parse_ruststr(struct parser *p, struct expr_part *part)
{
	struct expr_node node;
	int r = expression_parse_operand(p, &part->node);

	if (r < 0)
		return r;
	node = p->x->nodes.at[part->node];
	if (node.kind != EXPR_ARG)
		return scan_error(p->s, node.at, "ruststr() takes an argument: ruststr(arg0)");
	node.number++;
	part->kind = PART_STR;
	part->has_len = true;
	return expression_add_node(p, node, &part->len_node);
}

/* One "3=\"query\"" of a map. */
static int parse_map_entry(struct parser *p, struct expr_part *part)
{
	struct part_map entry = {0};
	bool negative = scan_take_punct(p->s, "-");
	int r;

	if (p->s->token.kind != TOKEN_NUMBER)
		return expression_fail_here(p, "expected a number, as in map(arg0, 3=\"query\")");
	entry.from = (int64_t)p->s->token.number;
	if (negative)
		entry.from = (int64_t)(0 - (uint64_t)entry.from);
	scan_next(p->s);
	r = scan_expect_punct(p->s, "=");
	if (r < 0)
		return r;
	if (p->s->token.kind != TOKEN_STRING)
		return expression_fail_here(p, "expected a text in double quotes");
	entry.to = expression_token_text(p->s);
	if (!entry.to)
		return -ENOMEM;
	r = vec_push(&part->map, entry);
	if (r < 0)
		free(entry.to);
	else
		scan_next(p->s);
	return r;
}

static int parse_map(struct parser *p, struct expr_part *part)
{
	int r = scan_expect_punct(p->s, "(");

	r = r < 0 ? r : expression_parse_value(p, &part->node);
	while (r == 0 && scan_take_punct(p->s, ","))
		r = parse_map_entry(p, part);
	r = r < 0 ? r : scan_expect_punct(p->s, ")");
	if (r < 0)
		part_deinit(part);
	return r;
}

static int parse_lower(struct parser *p)
{
	int r = scan_expect_punct(p->s, "(");

	if (r == 0 && ++p->depth > EXPRESSION_DEPTH_MAX)
		return expression_fail_here(p, "the expression is nested too deep");
	do {
		r = r < 0 ? r : parse_part(p, true);
	} while (r == 0 && !scan_is_punct(p->s, ")") && p->s->token.kind != TOKEN_END);
	p->depth--;
	return r < 0 ? r : scan_expect_punct(p->s, ")");
}

static int parse_literal(struct parser *p, struct expr_part *part)
{
	part->kind = PART_LITERAL;
	part->text_bytes = (uint16_t)strlen(p->s->string);
	part->text = expression_token_text(p->s);
	if (!part->text)
		return -ENOMEM;
	scan_next(p->s);
	return 0;
}

static const struct {
	const char *name;
	enum part_kind kind;
} part_names[] = {
	{"stdstring", PART_STDSTRING},
	{"libcxxstring", PART_LIBCXXSTRING},
	{"int", PART_INT},
	{"uint", PART_UINT},
	{"hex", PART_HEX},
};

static int parse_part(struct parser *p, bool lower)
{
	struct expr_part part = {.kind = PART_VALUE, .lower = lower};
	struct scan *s = p->s;
	int r = -1;

	for (size_t i = 0; i < ARRAY_SIZE(part_names); i++)
		if (scan_is_ident(s, part_names[i].name))
			part.kind = part_names[i].kind;
	if (scan_is_ident(s, "lower")) {
		scan_next(s);
		return parse_lower(p);
	}
	if (s->token.kind == TOKEN_STRING) {
		r = parse_literal(p, &part);
	} else if (scan_is_ident(s, "str")) {
		part.kind = PART_STR;
		scan_next(s);
		r = parse_string_operand(p, &part.node, &part.has_len, &part.len_node);
	} else if (scan_is_ident(s, "ruststr")) {
		scan_next(s);
		r = parse_ruststr(p, &part);
	} else if (scan_is_ident(s, "map")) {
		part.kind = PART_MAP;
		scan_next(s);
		r = parse_map(p, &part);
	} else if (part.kind != PART_VALUE) {
		scan_next(s);
		r = expression_parse_operand(p, &part.node);
	} else {
		r = expression_parse_value(p, &part.node);
	}
	return r < 0 ? r : add_part(p, &part);
}

static int parse_test_op(struct parser *p, enum test_op *ret)
{
	static const char *const ops[] = {
		[TEST_EQ] = "==", [TEST_NE] = "!=", [TEST_LT] = "<",     [TEST_LE] = "<=",
		[TEST_GT] = ">",  [TEST_GE] = ">=", [TEST_PREFIX] = "^="};

	for (unsigned int i = 0; i < ARRAY_SIZE(ops); i++) {
		if (scan_take_punct(p->s, ops[i])) {
			*ret = (enum test_op)i;
			return p->s->token.kind == TOKEN_BAD ? -EINVAL : 0;
		}
	}
	return expression_fail_here(p, "expected one of == != < <= > >= ^=");
}

static int parse_test_text(struct parser *p, struct expr_test *test)
{
	if (test->op != TEST_EQ && test->op != TEST_PREFIX)
		return expression_fail_here(p, "texts are compared with == or ^= (starts with)");
	if (p->s->token.kind != TOKEN_STRING)
		return expression_fail_here(p, "expected a text in double quotes");
	if (p->s->string_bytes == 0 || p->s->string_bytes > 63)
		return expression_fail_here(p, "a text to compare has 1 to 63 bytes");
	test->text_bytes = (uint16_t)strlen(p->s->string);
	test->text = expression_token_text(p->s);
	if (!test->text)
		return -ENOMEM;
	scan_next(p->s);
	return 0;
}

static int parse_test_number(struct parser *p, struct expr_test *test)
{
	bool negative = scan_take_punct(p->s, "-");

	if (test->op == TEST_PREFIX)
		return expression_fail_here(p, "^= compares texts: str(...) ^= \"text\"");
	if (p->s->token.kind != TOKEN_NUMBER)
		return expression_fail_here(p, "expected a number");
	test->number = (int64_t)p->s->token.number;
	if (negative)
		test->number = (int64_t)(0 - (uint64_t)test->number);
	scan_next(p->s);
	return 0;
}

static int parse_test(struct parser *p)
{
	struct expr_test test = {0};
	enum test_op op = TEST_EQ;
	int r;

	if (scan_is_ident(p->s, "str")) {
		test.is_text = true;
		scan_next(p->s);
		r = parse_string_operand(p, &test.node, &test.has_len, &test.len_node);
	} else {
		r = expression_parse_value(p, &test.node);
	}
	r = r < 0 ? r : parse_test_op(p, &op);
	if (r < 0)
		return r;
	test.op = (uint8_t)op;
	r = test.is_text ? parse_test_text(p, &test) : parse_test_number(p, &test);
	if (r == 0)
		r = vec_push(&p->x->tests, test);
	if (r < 0)
		free(test.text);
	return r;
}

static int parse_tests(struct parser *p)
{
	int r = parse_test(p);

	while (r == 0 && scan_take_punct(p->s, "&&")) {
		if (p->x->tests.n >= EXPRESSION_PARTS_MAX)
			return expression_fail_here(p, "too many conditions");
		r = parse_test(p);
	}
	return r;
}

static int parse_parts(struct parser *p)
{
	int r;

	do
		r = parse_part(p, false);
	while (r == 0 && p->s->token.kind != TOKEN_END && !scan_is_punct(p->s, ")") &&
	       !scan_is_punct(p->s, "|") && !scan_is_punct(p->s, "@"));
	return r;
}

DEFINE_CLEANUP(struct expression *, expression_free)

int parse_expression(struct scan *s, enum expression_kind kind, struct expression **ret)
{
	CLEANUP(expression_freep) struct expression *x = calloc(1, sizeof(*x));
	struct parser p = {.s = s, .x = x};
	int r;

	if (!x)
		return -ENOMEM;
	r = kind == EXPRESSION_NAME ? parse_parts(&p) : parse_tests(&p);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(x);
	return 0;
}

struct expression *expression_free(struct expression *x)
{
	if (!x)
		return NULL;
	for (size_t i = 0; i < x->nodes.n; i++)
		free(x->nodes.at[i].text);
	for (size_t i = 0; i < x->parts.n; i++)
		part_deinit(&x->parts.at[i]);
	for (size_t i = 0; i < x->tests.n; i++)
		free(x->tests.at[i].text);
	vec_free(&x->nodes);
	vec_free(&x->parts);
	vec_free(&x->tests);
	free(x);
	return NULL;
}
