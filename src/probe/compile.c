/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/compile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "probe/compile_priv.h"

enum { TEXT_MAX = 240 }; /* bytes of one captured text; the name buffer cuts further */
/* Captures, or with a match compares, the text at `addr` of length `len`. */
static int compile_text(struct compiler *c, uint16_t addr, bool has_len, uint16_t len)
{
	struct value_type type;
	int r;

	if (!has_len) {
		r = compile_value(c, addr, &type);
		return r < 0 ? r : compile_emit(c, WIRE_OP_STR, 0, 0, TEXT_MAX);
	}
	if (c->temps >= COMPILE_TEMPS)
		return compile_fail_at(c, c->x->nodes.at[addr].at,
				       "the expression needs too many intermediate values");
	r = compile_value(c, len, &type);
	r = r < 0 ? r : compile_emit(c, WIRE_OP_SAVE, c->temps, 0, 0);
	if (r < 0)
		return r;
	c->temps++;
	r = compile_value(c, addr, &type);
	c->temps--;
	return r < 0 ? r : compile_emit(c, WIRE_OP_STRN, c->temps, 0, TEXT_MAX);
}

/* T[base] = address of the string object; captures `length` bytes at the loaded pointer. */
static int emit_string_object(struct compiler *c, int64_t ptr_off, int64_t len_off)
{
	int r = compile_emit(c, WIRE_OP_LOAD, 0, 0, 0);

	r = r < 0 ? r : compile_emit_add(c, len_off);
	r = r < 0 ? r : compile_emit(c, WIRE_OP_DEREF, 0, 8, 0);
	r = r < 0 ? r : compile_emit(c, WIRE_OP_SAVE, 1, 0, 0);
	r = r < 0 ? r : compile_emit(c, WIRE_OP_LOAD, 0, 0, 0);
	r = r < 0 ? r : compile_emit_add(c, ptr_off);
	r = r < 0 ? r : compile_emit(c, WIRE_OP_DEREF, 0, 8, 0);
	return r < 0 ? r : compile_emit(c, WIRE_OP_STRN, 1, 0, TEXT_MAX);
}

static int compile_stdstring(struct compiler *c, uint16_t node)
{
	struct value_type type;
	int r = compile_value(c, node, &type);

	r = r < 0 ? r : compile_emit(c, WIRE_OP_SAVE, 0, 0, 0);
	return r < 0 ? r : emit_string_object(c, 0, 8);
}

/*
 * libc++ (ABI version 1, little-endian): bit 0 of the first byte set: {capacity, size, pointer};
 * clear: size in the upper 7 bits of that byte, text from the second byte on.
 */
static int compile_libcxxstring(struct compiler *c, uint16_t node)
{
	struct value_type type;
	unsigned int skip, end;
	int r = compile_value(c, node, &type);

	r = r < 0 ? r : compile_emit(c, WIRE_OP_SAVE, 0, 0, 0);
	r = r < 0 ? r : compile_emit(c, WIRE_OP_DEREF, 0, 1, 0);
	r = r < 0 ? r : compile_emit(c, WIRE_OP_AND_IMM, 0, 0, 1);
	skip = c->out->n;
	r = r < 0 ? r : compile_emit(c, WIRE_OP_SKIP_Z, 0, 0, 0);
	r = r < 0 ? r : emit_string_object(c, 16, 8);
	r = r < 0 ? r : compile_emit(c, WIRE_OP_IMM, 0, 0, 0);
	end = c->out->n;
	r = r < 0 ? r : compile_emit(c, WIRE_OP_SKIP_Z, 0, 0, 0);
	if (r < 0)
		return r;
	c->out->ops[skip].arg = (uint8_t)(c->out->n - skip - 1);
	r = compile_emit(c, WIRE_OP_LOAD, 0, 0, 0);
	r = r < 0 ? r : compile_emit(c, WIRE_OP_DEREF, 0, 1, 0);
	r = r < 0 ? r : compile_emit(c, WIRE_OP_SHR_IMM, 0, 0, 1);
	r = r < 0 ? r : compile_emit(c, WIRE_OP_SAVE, 1, 0, 0);
	r = r < 0 ? r : compile_emit(c, WIRE_OP_LOAD, 0, 0, 0);
	r = r < 0 ? r : compile_emit_add(c, 1);
	r = r < 0 ? r : compile_emit(c, WIRE_OP_STRN, 1, 0, TEXT_MAX);
	if (r == 0)
		c->out->ops[end].arg = (uint8_t)(c->out->n - end - 1);
	return r;
}

/* A string of C++ or Rust: A is its address, unless it is in two registers. */
static int emit_string_value(struct compiler *c, const struct value_type *type)
{
	int r;

	if (type->class != VALUE_SPLIT) {
		r = compile_emit(c, WIRE_OP_SAVE, 0, 0, 0);
		return r < 0 ? r : emit_string_object(c, type->text_off, type->length_off);
	}
	r = compile_emit(c, WIRE_OP_REG, c->split[type->length_off / 8 & 1], 0, 0);
	r = r < 0 ? r : compile_emit(c, WIRE_OP_SAVE, 1, 0, 0);
	r = r < 0 ? r : compile_emit(c, WIRE_OP_REG, c->split[type->text_off / 8 & 1], 0, 0);
	return r < 0 ? r : compile_emit(c, WIRE_OP_STRN, 1, 0, TEXT_MAX);
}

/* Where the value stands that a sum or an element has its type from: what is wrong with it is said there. */
static uint32_t typed_at(const struct compiler *c, uint16_t idx)
{
	const struct expr_node *nodes = c->x->nodes.at, *n = &nodes[idx];

	while (n->kind == EXPR_ADD || n->kind == EXPR_SUB || n->kind == EXPR_INDEX) {
		bool second = n->kind == EXPR_ADD && nodes[n->a].kind == EXPR_NUMBER &&
			      nodes[n->b].kind != EXPR_NUMBER;

		n = &nodes[second ? n->b : n->a];
	}
	return n->at;
}

static int compile_typed(struct compiler *c, uint16_t node)
{
	struct value_type type, element;
	int r = compile_any(c, node, &type);

	if (r < 0)
		return r;
	if (type.class == VALUE_POINTER && compile_element_type(c, type, &element)) {
		if (element.class == VALUE_STRUCT && !element.is_text)
			return compile_fail_at(
				c, typed_at(c, node),
				"this is the address of a structure: name one of its fields");
		type = element.is_text ? element : type;
	}
	if (type.is_text)
		return emit_string_value(c, &type);
	switch (type.class) {
	case VALUE_TEXT:
		return compile_emit(c, WIRE_OP_STR, 0, 0, TEXT_MAX);
	case VALUE_TEXT_ARRAY:
		return compile_emit(c, WIRE_OP_STR, 0, 0,
				    type.size < TEXT_MAX ? type.size : TEXT_MAX);
	case VALUE_SIGNED:
		return compile_emit(c, WIRE_OP_INT, 0, 0, 0);
	case VALUE_STRUCT:
	case VALUE_SPLIT:
		return compile_fail_at(c, typed_at(c, node),
				       "this is a structure: name one of its fields");
	case VALUE_ARRAY:
		return compile_fail_at(c, typed_at(c, node),
				       "this is an array: name one of its elements, as in [0]");
	default:
		return compile_emit(c, WIRE_OP_UINT, 0, 0, 0);
	}
}

static int compile_part(struct compiler *c, const struct expr_part *part)
{
	struct value_type type;
	int r;

	switch ((enum part_kind)part->kind) {
	case PART_LITERAL:
		return 0;
	case PART_STR:
		return compile_text(c, part->node, part->has_len, part->len_node);
	case PART_STDSTRING:
		return compile_stdstring(c, part->node);
	case PART_LIBCXXSTRING:
		return compile_libcxxstring(c, part->node);
	case PART_VALUE:
		return compile_typed(c, part->node);
	default:
		r = compile_value(c, part->node, &type);
		return r < 0 ? r
			     : compile_emit(c,
					    part->kind == PART_UINT || part->kind == PART_HEX
						    ? WIRE_OP_UINT
						    : WIRE_OP_INT,
					    0, 0, 0);
	}
}

/* A number test; A > n is A >= n + 1. The text says what a comparison that is always false does. */
static int emit_number_test(struct compiler *c, const struct expr_test *test)
{
	int64_t n = test->number;

	if ((test->op == TEST_GT || test->op == TEST_LE) && n == INT64_MAX)
		return compile_fail_at(c, c->x->nodes.at[test->node].at,
				       "the number is too large to compare with");
	switch ((enum test_op)test->op) {
	case TEST_EQ:
		return compile_emit(c, WIRE_OP_IF_EQ, 0, 0, n);
	case TEST_NE:
		return compile_emit(c, WIRE_OP_IF_NE, 0, 0, n);
	case TEST_LT:
		return compile_emit(c, WIRE_OP_IF_LT, 0, 0, n);
	case TEST_LE:
		return compile_emit(c, WIRE_OP_IF_LT, 0, 0, n + 1);
	case TEST_GT:
		return compile_emit(c, WIRE_OP_IF_GE, 0, 0, n + 1);
	default:
		return compile_emit(c, WIRE_OP_IF_GE, 0, 0, n);
	}
}

/* str(addr) == "x" compares the NUL too; str(addr, len) tests the length first. */
static int compile_text_test(struct compiler *c, const struct expr_test *test)
{
	struct program *out = c->out;
	uint32_t bytes = test->text_bytes;
	uint32_t at = out->match_bytes;
	struct value_type type;
	int r = 0;

	if (test->op == TEST_EQ && !test->has_len)
		bytes++;
	if (bytes > sizeof(out->match) - at)
		return compile_fail_at(c, c->x->nodes.at[test->node].at,
				       "the texts to compare have more than 64 bytes together");
	memcpy(out->match + at, test->text, bytes); /* owned text has a NUL at its end */
	out->match_bytes += bytes;
	if (test->has_len) {
		r = compile_value(c, test->len_node, &type);
		r = r < 0 ? r
			  : compile_emit(c, test->op == TEST_EQ ? WIRE_OP_IF_EQ : WIRE_OP_IF_GE, 0,
					 0, bytes);
	}
	r = r < 0 ? r : compile_value(c, test->node, &type);
	return r < 0 ? r : compile_emit(c, WIRE_OP_IF_PREFIX, at, 0, bytes);
}

static int compile_condition(struct compiler *c, const struct expression *x)
{
	struct value_type type;
	int r = 0;

	c->x = x;
	for (size_t i = 0; i < x->tests.n && r == 0; i++) {
		const struct expr_test *test = &x->tests.at[i];

		if (test->is_text) {
			r = compile_text_test(c, test);
			continue;
		}
		r = compile_value(c, test->node, &type);
		r = r < 0 ? r : emit_number_test(c, test);
	}
	return r;
}

static int compile_keep(struct compiler *c, const struct expression *x)
{
	struct value_type type;
	int r = 0;

	c->x = x;
	for (size_t i = 0; i < x->nodes.n && r == 0; i++) {
		const struct expr_node *node = &x->nodes.at[i];

		if (node->kind != EXPR_ENTRY)
			continue;
		r = compile_value(c, node->a, &type);
		r = r < 0 ? r : compile_emit(c, WIRE_OP_KEEP, (unsigned int)node->number, 0, 0);
	}
	return r;
}

static int compile_name(struct compiler *c, const struct expression *x)
{
	int r = 0;

	c->x = x;
	for (size_t i = 0; i < x->parts.n && r == 0; i++)
		r = compile_part(c, &x->parts.at[i]);
	return r;
}

int compile_program(const struct compile_input *in, const struct expression_resolver *resolver,
		    struct program *out, struct errmsg *e)
{
	struct compiler c = {.in = in, .resolver = resolver, .out = out, .e = e};
	int r = 0;

	if (in->condition)
		r = compile_condition(&c, in->condition);
	if (r == 0 && in->keep)
		r = compile_keep(&c, in->keep);
	if (r == 0 && in->name)
		r = compile_name(&c, in->name);
	return r;
}
