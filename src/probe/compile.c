/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/compile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

enum {
	TEMPS = 4,      /* T[0..3] of the machine */
	TEXT_MAX = 240, /* bytes of one captured text; the name buffer cuts further */
};

struct compiler {
	const struct compile_input *in;
	const struct expression *x; /* the one being compiled */
	const struct expression_resolver *resolver;
	struct program *out;
	struct errmsg *e;
	unsigned int temps; /* in use */
	unsigned int depth;
	enum wire_reg split[2]; /* of the last value of class SPLIT */
};

static const enum wire_reg argument_regs[] = {WIRE_REG_RDI, WIRE_REG_RSI, WIRE_REG_RDX,
					      WIRE_REG_RCX, WIRE_REG_R8,  WIRE_REG_R9};

static int compile_value(struct compiler *c, uint16_t idx, struct value_type *ret);
static int compile_any(struct compiler *c, uint16_t idx, struct value_type *ret);

static int fail_at(const struct compiler *c, uint32_t at, const char *why)
{
	struct scan s = {.text = c->in->text, .what = "endpoint", .e = c->e};

	return scan_error(&s, at, "%s", why);
}

static int emit(struct compiler *c, enum wire_op_code code, unsigned int arg, unsigned int size,
		int64_t imm)
{
	if (c->out->n >= WIRE_OPS_MAX - 1)
		return errmsg_set(c->e, -EINVAL,
				  "endpoint '%s': the expression needs more than %d operations",
				  c->in->text, WIRE_OPS_MAX - 1);
	c->out->ops[c->out->n++] = (struct wire_op){
		.code = (uint8_t)code, .arg = (uint8_t)arg, .size = (uint8_t)size, .imm = imm};
	if (code == WIRE_OP_REG)
		c->out->registers |= 1U << arg;
	return 0;
}

static int emit_add(struct compiler *c, int64_t imm)
{
	return imm ? emit(c, WIRE_OP_ADD_IMM, 0, 0, imm) : 0;
}

/* A = the part of the register that a value of `size` bytes occupies. */
static int emit_register(struct compiler *c, const struct place *place)
{
	unsigned int bits = 8U * place->size;
	int r = emit(c, WIRE_OP_REG, place->reg, 0, 0);

	if (r < 0 || place->size >= 8 || place->size == 0)
		return r;
	r = emit(c, WIRE_OP_AND_IMM, 0, 0, (int64_t)((1ULL << bits) - 1));
	if (r == 0 && place->is_signed) {
		/* sign extension without a signed shift: (x + sign) - sign in the low bits, as
		 * (x ^ sign) - sign equals ((x + sign) & mask) - sign */
		r = emit_add(c, (int64_t)(1ULL << (bits - 1)));
		r = r < 0 ? r : emit(c, WIRE_OP_AND_IMM, 0, 0, (int64_t)((1ULL << bits) - 1));
		r = r < 0 ? r : emit_add(c, -(int64_t)(1ULL << (bits - 1)));
	}
	return r;
}

static bool in_place(enum value_class class)
{
	return class == VALUE_STRUCT || class == VALUE_ARRAY || class == VALUE_TEXT_ARRAY;
}

/* A holds an address; load the value of the type from it, or keep the address. */
static int emit_load(struct compiler *c, unsigned int size, bool is_signed, enum value_class class)
{
	if (in_place(class))
		return 0;
	if (size != 1 && size != 2 && size != 4 && size != 8)
		size = 8;
	return emit(c, is_signed && size < 8 ? WIRE_OP_DEREF_S : WIRE_OP_DEREF, 0, size, 0);
}

static int emit_place(struct compiler *c, const struct place *place)
{
	int r;

	switch (place->kind) {
	case PLACE_REGISTER:
		return emit_register(c, place);
	case PLACE_REGISTERS: /* its fields are read one by one */
		c->split[0] = place->reg;
		c->split[1] = place->second;
		return 0;
	case PLACE_CONSTANT:
		return emit(c, WIRE_OP_IMM, 0, 0, place->offset);
	case PLACE_GLOBAL:
		r = emit(c, WIRE_OP_ENTRY_IP, 0, 0, place->offset);
		break;
	case PLACE_MEMORY:
	default:
		r = emit(c, WIRE_OP_REG, place->reg, 0, 0);
		r = r < 0 ? r : emit_add(c, place->offset);
		break;
	}
	return r < 0 ? r : emit_load(c, place->size, place->is_signed, place->type.class);
}

static int resolver_failed(const struct compiler *c, const struct expr_node *node, int r,
			   const struct errmsg *why)
{
	fail_at(c, node->at, why->text[0] ? why->text : "cannot be resolved");
	return r;
}

static int compile_named(struct compiler *c, const struct expr_node *node, struct value_type *ret)
{
	struct errmsg why = {""};
	struct place place = {.size = 8};
	int r;

	if (node->kind == EXPR_GLOBAL) {
		if (!c->resolver || !c->resolver->global)
			return fail_at(c, node->at, "symbols cannot be looked up here");
		r = c->resolver->global(c->resolver->ctx, node->text, &place, &why);
	} else {
		if (!c->resolver || !c->resolver->variable)
			return fail_at(c, node->at,
				       "unknown name (names of variables need the binary's DWARF)");
		r = c->resolver->variable(c->resolver->ctx, node->text, &place, &why);
	}
	if (r < 0)
		return resolver_failed(c, node, r, &why);
	*ret = place.type;
	if (node->kind == EXPR_GLOBAL)
		return emit(c, WIRE_OP_ENTRY_IP, 0, 0, place.offset);
	return emit_place(c, &place);
}

static int compile_getter(struct compiler *c, const struct expr_node *node)
{
	struct errmsg why = {""};
	struct value_type unused;
	struct place place = {0};
	int r;

	if (!c->resolver || !c->resolver->getter)
		return fail_at(c, node->at, "functions cannot be looked up here");
	r = c->resolver->getter(c->resolver->ctx, node->text, &place, &why);
	if (r < 0)
		return resolver_failed(c, node, r, &why);
	r = compile_value(c, node->a, &unused);
	r = r < 0 ? r : emit_add(c, place.offset);
	return r < 0 ? r : emit_load(c, place.size, false, VALUE_UNTYPED);
}

static int compile_argument(struct compiler *c, const struct expr_node *node,
			    struct value_type *ret)
{
	struct errmsg why = {""};
	struct place place = {0};
	int r;

	if (c->in->phase == COMPILE_LEAVE && !(c->resolver && c->resolver->argument))
		return fail_at(c, node->at, "arguments are gone at leave: write entry(argN)");
	if (c->resolver && c->resolver->argument) {
		r = c->resolver->argument(c->resolver->ctx, (unsigned int)node->number, &place,
					  &why);
		if (r < 0)
			return resolver_failed(c, node, r, &why);
		*ret = place.type;
		return emit_place(c, &place);
	}
	if (node->number < ARRAY_SIZE(argument_regs))
		return emit(c, WIRE_OP_REG, argument_regs[node->number], 0, 0);
	/* Stack arguments: above the return address. */
	r = emit(c, WIRE_OP_REG, WIRE_REG_RSP, 0, 0);
	r = r < 0 ? r
		  : emit_add(c, 8 + 8 * ((int64_t)node->number - (int)ARRAY_SIZE(argument_regs)));
	return r < 0 ? r : emit(c, WIRE_OP_DEREF, 0, 8, 0);
}

static int compile_entry(struct compiler *c, const struct expr_node *node)
{
	if (c->in->phase == COMPILE_ENTRY)
		return fail_at(c, node->at, "entry() belongs into leave-name=");
	return emit(c, WIRE_OP_KEPT, (unsigned int)node->number, 0, 0);
}

/* a + b, a - b */
static int compile_sum(struct compiler *c, const struct expr_node *node, struct value_type *ret)
{
	const struct expr_node *b = &c->x->nodes.at[node->b];
	const struct expr_node *a = &c->x->nodes.at[node->a];
	struct value_type unused;
	unsigned int temp;
	int r;

	if (b->kind == EXPR_NUMBER) {
		r = compile_value(c, node->a, ret);
		return r < 0 ? r
			     : emit_add(c, node->kind == EXPR_ADD ? (int64_t)b->number
								  : (int64_t)(0 - b->number));
	}
	if (a->kind == EXPR_NUMBER && node->kind == EXPR_ADD) {
		r = compile_value(c, node->b, ret);
		return r < 0 ? r : emit_add(c, (int64_t)a->number);
	}
	r = compile_value(c, node->a, ret);
	if (r < 0)
		return r;
	if (c->temps >= TEMPS)
		return fail_at(c, node->at, "the expression needs too many intermediate values");
	temp = c->temps++;
	r = emit(c, WIRE_OP_SAVE, temp, 0, 0);
	r = r < 0 ? r : compile_value(c, node->b, &unused);
	c->temps--;
	return r < 0 ? r : emit(c, node->kind == EXPR_ADD ? WIRE_OP_ADD : WIRE_OP_SUB, temp, 0, 0);
}

/* Bytes that a value of the type takes where it lies. */
static unsigned int value_bytes(const struct value_type *t)
{
	return t->class == VALUE_POINTER || t->class == VALUE_TEXT ? 8 : t->size;
}

/* A = the field at `offset` of the structure in two registers. */
static int emit_split_field(struct compiler *c, const struct expr_node *node, int64_t offset,
			    const struct value_type *type)
{
	struct place place = {.size = (uint8_t)value_bytes(type),
			      .is_signed = type->class == VALUE_SIGNED};

	if (in_place(type->class) || offset < 0 || offset > 8 || offset % 8 ||
	    value_bytes(type) > 8)
		return fail_at(c, node->at, "this field is inside a register and is not read");
	place.reg = c->split[offset / 8];
	return emit_register(c, &place);
}

static int compile_member(struct compiler *c, const struct expr_node *node, struct value_type *ret)
{
	struct value_type base = {0};
	struct errmsg why = {""};
	int64_t offset = 0;
	bool split;
	int r = compile_any(c, node->a, &base);

	if (r < 0)
		return r;
	if (base.class == VALUE_UNTYPED)
		return fail_at(
			c, node->at,
			"the type of the value before this field is not known (needs DWARF)");
	if (node->kind == EXPR_FIELD && base.class == VALUE_POINTER)
		return fail_at(c, node->at, "the value before this field is a pointer: use ->");
	if (node->kind == EXPR_ARROW && base.class != VALUE_POINTER)
		return fail_at(c, node->at, "the value before this field is not a pointer: use .");
	if (!c->resolver || !c->resolver->member)
		return fail_at(c, node->at, "fields need the binary's DWARF");
	split = base.class == VALUE_SPLIT;
	if (split)
		base.class = VALUE_STRUCT;
	r = c->resolver->member(c->resolver->ctx, base, node->text, &offset, ret, &why);
	if (r < 0)
		return resolver_failed(c, node, r, &why);
	if (split)
		return emit_split_field(c, node, offset, ret);
	r = emit_add(c, offset);
	return r < 0 ? r : emit_load(c, value_bytes(ret), ret->class == VALUE_SIGNED, ret->class);
}

/* The type behind a pointer or an array; false when nothing is known about it. */
static bool element_type(const struct compiler *c, struct value_type base, struct value_type *ret)
{
	return base.class != VALUE_UNTYPED && base.class != VALUE_SIGNED &&
	       base.class != VALUE_UNSIGNED && c->resolver && c->resolver->element &&
	       c->resolver->element(c->resolver->ctx, base, ret) == 0;
}

/* a[number]: elements of 8 bytes when nothing is known about a. */
static int compile_index(struct compiler *c, const struct expr_node *node, struct value_type *ret)
{
	struct value_type base = {0}, element = {.class = VALUE_UNTYPED, .size = 8};
	int r = compile_value(c, node->a, &base);

	if (r < 0)
		return r;
	if (element_type(c, base, &element))
		*ret = element;
	r = emit_add(c, (int64_t)value_bytes(&element) * (int64_t)node->number);
	return r < 0 ? r
		     : emit_load(c, value_bytes(&element), element.class == VALUE_SIGNED,
				 element.class);
}

/* *a is a load of 8 bytes, or of what the type of a leads to. */
static int compile_load(struct compiler *c, const struct expr_node *node, struct value_type base,
			struct value_type *ret)
{
	struct value_type element;

	if (!node->is_signed && node->size == 8 && element_type(c, base, &element)) {
		*ret = element;
		return emit_load(c, value_bytes(&element), element.class == VALUE_SIGNED,
				 element.class);
	}
	*ret = (struct value_type){.class = node->is_signed ? VALUE_SIGNED : VALUE_UNTYPED};
	return emit(c, node->is_signed ? WIRE_OP_DEREF_S : WIRE_OP_DEREF, 0, node->size, 0);
}

static int compile_unary(struct compiler *c, const struct expr_node *node, struct value_type *ret)
{
	struct value_type base;
	int r = compile_value(c, node->a, &base);

	if (r < 0)
		return r;
	*ret = (struct value_type){0};
	switch (node->kind) {
	case EXPR_LOAD:
		return compile_load(c, node, base, ret);
	case EXPR_AND:
		return emit(c, WIRE_OP_AND_IMM, 0, 0, (int64_t)node->number);
	case EXPR_SHR:
		return emit(c, WIRE_OP_SHR_IMM, 0, 0, (int64_t)node->number);
	case EXPR_MUL:
	default:
		return emit(c, WIRE_OP_MUL_IMM, 0, 0, (int64_t)node->number);
	}
}

static int compile_node(struct compiler *c, const struct expr_node *node, struct value_type *ret)
{
	switch ((enum expr_kind)node->kind) {
	case EXPR_NUMBER:
		return emit(c, WIRE_OP_IMM, 0, 0, (int64_t)node->number);
	case EXPR_ARG:
		return compile_argument(c, node, ret);
	case EXPR_REG:
		return emit(c, WIRE_OP_REG, (unsigned int)node->number, 0, 0);
	case EXPR_RET:
		if (c->in->phase != COMPILE_LEAVE)
			return fail_at(c, node->at,
				       "ret is only known at leave: use it in leave-name=");
		return emit(c, WIRE_OP_REG, WIRE_REG_RAX, 0, 0);
	case EXPR_GLOBAL:
	case EXPR_VAR:
		return compile_named(c, node, ret);
	case EXPR_ENTRY:
		return compile_entry(c, node);
	case EXPR_ADD:
	case EXPR_SUB:
		return compile_sum(c, node, ret);
	case EXPR_ARROW:
	case EXPR_FIELD:
		return compile_member(c, node, ret);
	case EXPR_INDEX:
		return compile_index(c, node, ret);
	case EXPR_GETTER:
		return compile_getter(c, node);
	default:
		return compile_unary(c, node, ret);
	}
}

/*
 * A = the node's value, if it is not of class SPLIT. Children have smaller indexes, so this ends; depth
 * is bounded all the same.
 */
static int compile_any(struct compiler *c, uint16_t idx, struct value_type *ret)
{
	const struct expr_node *node = &c->x->nodes.at[idx];
	int r;

	*ret = (struct value_type){0};
	if (++c->depth > EXPRESSION_NODES_MAX)
		return fail_at(c, node->at, "the expression is nested too deep");
	r = compile_node(c, node, ret);
	c->depth--;
	return r;
}

static int compile_value(struct compiler *c, uint16_t idx, struct value_type *ret)
{
	int r = compile_any(c, idx, ret);

	if (r == 0 && ret->class == VALUE_SPLIT)
		return fail_at(
			c, c->x->nodes.at[idx].at,
			ret->is_text
				? "this is a text in two registers: write just its name"
				: "this is a structure in two registers: name one of its fields");
	return r;
}

/* Captures, or with a match compares, the text at `addr` of length `len`. */
static int compile_text(struct compiler *c, uint16_t addr, bool has_len, uint16_t len)
{
	struct value_type type;
	int r;

	if (!has_len) {
		r = compile_value(c, addr, &type);
		return r < 0 ? r : emit(c, WIRE_OP_STR, 0, 0, TEXT_MAX);
	}
	if (c->temps >= TEMPS)
		return fail_at(c, c->x->nodes.at[addr].at,
			       "the expression needs too many intermediate values");
	r = compile_value(c, len, &type);
	r = r < 0 ? r : emit(c, WIRE_OP_SAVE, c->temps, 0, 0);
	if (r < 0)
		return r;
	c->temps++;
	r = compile_value(c, addr, &type);
	c->temps--;
	return r < 0 ? r : emit(c, WIRE_OP_STRN, c->temps, 0, TEXT_MAX);
}

/* T[base] = address of the string object; captures `length` bytes at the loaded pointer. */
static int emit_string_object(struct compiler *c, int64_t ptr_off, int64_t len_off)
{
	int r = emit(c, WIRE_OP_LOAD, 0, 0, 0);

	r = r < 0 ? r : emit_add(c, len_off);
	r = r < 0 ? r : emit(c, WIRE_OP_DEREF, 0, 8, 0);
	r = r < 0 ? r : emit(c, WIRE_OP_SAVE, 1, 0, 0);
	r = r < 0 ? r : emit(c, WIRE_OP_LOAD, 0, 0, 0);
	r = r < 0 ? r : emit_add(c, ptr_off);
	r = r < 0 ? r : emit(c, WIRE_OP_DEREF, 0, 8, 0);
	return r < 0 ? r : emit(c, WIRE_OP_STRN, 1, 0, TEXT_MAX);
}

static int compile_stdstring(struct compiler *c, uint16_t node)
{
	struct value_type type;
	int r = compile_value(c, node, &type);

	r = r < 0 ? r : emit(c, WIRE_OP_SAVE, 0, 0, 0);
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

	r = r < 0 ? r : emit(c, WIRE_OP_SAVE, 0, 0, 0);
	r = r < 0 ? r : emit(c, WIRE_OP_DEREF, 0, 1, 0);
	r = r < 0 ? r : emit(c, WIRE_OP_AND_IMM, 0, 0, 1);
	skip = c->out->n;
	r = r < 0 ? r : emit(c, WIRE_OP_SKIP_Z, 0, 0, 0);
	r = r < 0 ? r : emit_string_object(c, 16, 8);
	r = r < 0 ? r : emit(c, WIRE_OP_IMM, 0, 0, 0);
	end = c->out->n;
	r = r < 0 ? r : emit(c, WIRE_OP_SKIP_Z, 0, 0, 0);
	if (r < 0)
		return r;
	c->out->ops[skip].arg = (uint8_t)(c->out->n - skip - 1);
	r = emit(c, WIRE_OP_LOAD, 0, 0, 0);
	r = r < 0 ? r : emit(c, WIRE_OP_DEREF, 0, 1, 0);
	r = r < 0 ? r : emit(c, WIRE_OP_SHR_IMM, 0, 0, 1);
	r = r < 0 ? r : emit(c, WIRE_OP_SAVE, 1, 0, 0);
	r = r < 0 ? r : emit(c, WIRE_OP_LOAD, 0, 0, 0);
	r = r < 0 ? r : emit_add(c, 1);
	r = r < 0 ? r : emit(c, WIRE_OP_STRN, 1, 0, TEXT_MAX);
	if (r == 0)
		c->out->ops[end].arg = (uint8_t)(c->out->n - end - 1);
	return r;
}

/* A string of C++ or Rust: A is its address, unless it is in two registers. */
static int emit_string_value(struct compiler *c, const struct value_type *type)
{
	int r;

	if (type->class != VALUE_SPLIT) {
		r = emit(c, WIRE_OP_SAVE, 0, 0, 0);
		return r < 0 ? r : emit_string_object(c, type->text_off, type->length_off);
	}
	r = emit(c, WIRE_OP_REG, c->split[type->length_off / 8 & 1], 0, 0);
	r = r < 0 ? r : emit(c, WIRE_OP_SAVE, 1, 0, 0);
	r = r < 0 ? r : emit(c, WIRE_OP_REG, c->split[type->text_off / 8 & 1], 0, 0);
	return r < 0 ? r : emit(c, WIRE_OP_STRN, 1, 0, TEXT_MAX);
}

static int compile_typed(struct compiler *c, uint16_t node)
{
	struct value_type type, element;
	int r = compile_any(c, node, &type);

	if (r < 0)
		return r;
	if (type.class == VALUE_POINTER && element_type(c, type, &element) && element.is_text)
		type = element;
	if (type.is_text)
		return emit_string_value(c, &type);
	switch (type.class) {
	case VALUE_TEXT:
		return emit(c, WIRE_OP_STR, 0, 0, TEXT_MAX);
	case VALUE_TEXT_ARRAY:
		return emit(c, WIRE_OP_STR, 0, 0, type.size < TEXT_MAX ? type.size : TEXT_MAX);
	case VALUE_SIGNED:
		return emit(c, WIRE_OP_INT, 0, 0, 0);
	case VALUE_STRUCT:
	case VALUE_SPLIT:
	case VALUE_ARRAY:
		return fail_at(c, c->x->nodes.at[node].at,
			       "this is a structure: name one of its fields");
	default:
		return emit(c, WIRE_OP_UINT, 0, 0, 0);
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
			     : emit(c,
				    part->kind == PART_UINT || part->kind == PART_HEX ? WIRE_OP_UINT
										      : WIRE_OP_INT,
				    0, 0, 0);
	}
}

/* A number test; A > n is A >= n + 1. The text says what a comparison that is always false does. */
static int emit_number_test(struct compiler *c, const struct expr_test *test)
{
	int64_t n = test->number;

	if ((test->op == TEST_GT || test->op == TEST_LE) && n == INT64_MAX)
		return fail_at(c, c->x->nodes.at[test->node].at,
			       "the number is too large to compare with");
	switch ((enum test_op)test->op) {
	case TEST_EQ:
		return emit(c, WIRE_OP_IF_EQ, 0, 0, n);
	case TEST_NE:
		return emit(c, WIRE_OP_IF_NE, 0, 0, n);
	case TEST_LT:
		return emit(c, WIRE_OP_IF_LT, 0, 0, n);
	case TEST_LE:
		return emit(c, WIRE_OP_IF_LT, 0, 0, n + 1);
	case TEST_GT:
		return emit(c, WIRE_OP_IF_GE, 0, 0, n + 1);
	default:
		return emit(c, WIRE_OP_IF_GE, 0, 0, n);
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
		return fail_at(c, c->x->nodes.at[test->node].at,
			       "the texts to compare have more than 64 bytes together");
	memcpy(out->match + at, test->text, bytes); /* owned text has a NUL at its end */
	out->match_bytes += bytes;
	if (test->has_len) {
		r = compile_value(c, test->len_node, &type);
		r = r < 0 ? r
			  : emit(c, test->op == TEST_EQ ? WIRE_OP_IF_EQ : WIRE_OP_IF_GE, 0, 0,
				 bytes);
	}
	r = r < 0 ? r : compile_value(c, test->node, &type);
	return r < 0 ? r : emit(c, WIRE_OP_IF_PREFIX, at, 0, bytes);
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
		r = r < 0 ? r : emit(c, WIRE_OP_KEEP, (unsigned int)node->number, 0, 0);
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
