/* SPDX-License-Identifier: Apache-2.0 */
/* compile_value.c: values: registers, memory, sums, fields by their types. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "probe/compile_priv.h"

static const enum wire_reg argument_regs[] = {WIRE_REG_RDI, WIRE_REG_RSI, WIRE_REG_RDX,
					      WIRE_REG_RCX, WIRE_REG_R8,  WIRE_REG_R9};

int compile_fail_at(const struct compiler *c, uint32_t at, const char *why)
{
	struct scan s = {.text = c->in->text, .what = "endpoint", .e = c->e};

	return scan_error(&s, at, "%s", why);
}

int compile_emit(struct compiler *c, enum wire_op_code code, unsigned int arg, unsigned int size,
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

int compile_emit_add(struct compiler *c, int64_t imm)
{
	return imm ? compile_emit(c, WIRE_OP_ADD_IMM, 0, 0, imm) : 0;
}

/* A = the part of the register that a value of `size` bytes occupies. */
static int emit_register(struct compiler *c, const struct place *place)
{
	unsigned int bits = 8U * place->size;
	int r = compile_emit(c, WIRE_OP_REG, place->reg, 0, 0);

	if (r < 0 || place->size >= 8 || place->size == 0)
		return r;
	r = compile_emit(c, WIRE_OP_AND_IMM, 0, 0, (int64_t)((1ULL << bits) - 1));
	if (r == 0 && place->is_signed) {
		/* sign extension without a signed shift: (x + sign) - sign in the low bits, as
		 * (x ^ sign) - sign equals ((x + sign) & mask) - sign */
		r = compile_emit_add(c, (int64_t)(1ULL << (bits - 1)));
		r = r < 0 ? r
			  : compile_emit(c, WIRE_OP_AND_IMM, 0, 0, (int64_t)((1ULL << bits) - 1));
		r = r < 0 ? r : compile_emit_add(c, -(int64_t)(1ULL << (bits - 1)));
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
	return compile_emit(c, is_signed && size < 8 ? WIRE_OP_DEREF_S : WIRE_OP_DEREF, 0, size, 0);
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
		return compile_emit(c, WIRE_OP_IMM, 0, 0, place->offset);
	case PLACE_GLOBAL:
		r = compile_emit(c, WIRE_OP_ENTRY_IP, 0, 0, place->offset);
		break;
	case PLACE_MEMORY:
	default:
		r = compile_emit(c, WIRE_OP_REG, place->reg, 0, 0);
		r = r < 0 ? r : compile_emit_add(c, place->offset);
		break;
	}
	return r < 0 ? r : emit_load(c, place->size, place->is_signed, place->type.class);
}

static int resolver_failed(const struct compiler *c, const struct expr_node *node, int r,
			   const struct errmsg *why)
{
	compile_fail_at(c, node->at, why->text[0] ? why->text : "cannot be resolved");
	return r;
}

static int compile_named(struct compiler *c, const struct expr_node *node, struct value_type *ret)
{
	struct errmsg why = {""};
	struct place place = {.size = 8};
	int r;

	if (node->kind == EXPR_GLOBAL) {
		if (!c->resolver || !c->resolver->global)
			return compile_fail_at(c, node->at, "symbols cannot be looked up here");
		r = c->resolver->global(c->resolver->ctx, node->text, &place, &why);
	} else {
		if (!c->resolver || !c->resolver->variable)
			return compile_fail_at(
				c, node->at,
				"unknown name (names of variables need the binary's DWARF)");
		r = c->resolver->variable(c->resolver->ctx, node->text, &place, &why);
	}
	if (r < 0)
		return resolver_failed(c, node, r, &why);
	*ret = place.type;
	if (node->kind == EXPR_GLOBAL)
		return compile_emit(c, WIRE_OP_ENTRY_IP, 0, 0, place.offset);
	return emit_place(c, &place);
}

static int compile_getter(struct compiler *c, const struct expr_node *node)
{
	struct errmsg why = {""};
	struct value_type unused;
	struct place place = {0};
	int r;

	if (!c->resolver || !c->resolver->getter)
		return compile_fail_at(c, node->at, "functions cannot be looked up here");
	r = c->resolver->getter(c->resolver->ctx, node->text, &place, &why);
	if (r < 0)
		return resolver_failed(c, node, r, &why);
	r = compile_value(c, node->a, &unused);
	r = r < 0 ? r : compile_emit_add(c, place.offset);
	return r < 0 || !place.size ? r : emit_load(c, place.size, false, VALUE_UNTYPED);
}

static int compile_argument(struct compiler *c, const struct expr_node *node,
			    struct value_type *ret)
{
	struct errmsg why = {""};
	struct place place = {0};
	int r;

	if (c->in->phase == COMPILE_LEAVE && !(c->resolver && c->resolver->argument))
		return compile_fail_at(c, node->at,
				       "arguments are gone at leave: write entry(argN)");
	if (c->resolver && c->resolver->argument) {
		r = c->resolver->argument(c->resolver->ctx, (unsigned int)node->number, &place,
					  &why);
		if (r < 0)
			return resolver_failed(c, node, r, &why);
		*ret = place.type;
		return emit_place(c, &place);
	}
	if (node->number < ARRAY_SIZE(argument_regs))
		return compile_emit(c, WIRE_OP_REG, argument_regs[node->number], 0, 0);
	/* Stack arguments: above the return address. */
	r = compile_emit(c, WIRE_OP_REG, WIRE_REG_RSP, 0, 0);
	r = r < 0 ? r
		  : compile_emit_add(
			    c, 8 + 8 * ((int64_t)node->number - (int)ARRAY_SIZE(argument_regs)));
	return r < 0 ? r : compile_emit(c, WIRE_OP_DEREF, 0, 8, 0);
}

static int compile_entry(struct compiler *c, const struct expr_node *node)
{
	if (c->in->phase == COMPILE_ENTRY)
		return compile_fail_at(c, node->at, "entry() belongs into leave-name=");
	return compile_emit(c, WIRE_OP_KEPT, (unsigned int)node->number, 0, 0);
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
			     : compile_emit_add(c, node->kind == EXPR_ADD
							   ? (int64_t)b->number
							   : (int64_t)(0 - b->number));
	}
	if (a->kind == EXPR_NUMBER && node->kind == EXPR_ADD) {
		r = compile_value(c, node->b, ret);
		return r < 0 ? r : compile_emit_add(c, (int64_t)a->number);
	}
	r = compile_value(c, node->a, ret);
	if (r < 0)
		return r;
	if (c->temps >= COMPILE_TEMPS)
		return compile_fail_at(c, node->at,
				       "the expression needs too many intermediate values");
	temp = c->temps++;
	r = compile_emit(c, WIRE_OP_SAVE, temp, 0, 0);
	r = r < 0 ? r : compile_value(c, node->b, &unused);
	c->temps--;
	return r < 0 ? r
		     : compile_emit(c, node->kind == EXPR_ADD ? WIRE_OP_ADD : WIRE_OP_SUB, temp, 0,
				    0);
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
		return compile_fail_at(c, node->at,
				       "this field is inside a register and is not read");
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
		return compile_fail_at(
			c, node->at,
			"the type of the value before this field is not known (needs DWARF)");
	if (node->kind == EXPR_FIELD && base.class == VALUE_POINTER && !base.is_reference)
		return compile_fail_at(c, node->at,
				       "the value before this field is a pointer: use ->");
	if (node->kind == EXPR_ARROW && base.class != VALUE_POINTER)
		return compile_fail_at(c, node->at,
				       "the value before this field is not a pointer: use .");
	if (!c->resolver || !c->resolver->member)
		return compile_fail_at(c, node->at, "fields need the binary's DWARF");
	split = base.class == VALUE_SPLIT;
	if (split)
		base.class = VALUE_STRUCT;
	r = c->resolver->member(c->resolver->ctx, base, node->text, &offset, ret, &why);
	if (r < 0)
		return resolver_failed(c, node, r, &why);
	if (split)
		return emit_split_field(c, node, offset, ret);
	r = compile_emit_add(c, offset);
	return r < 0 ? r : emit_load(c, value_bytes(ret), ret->class == VALUE_SIGNED, ret->class);
}

/* The type behind a pointer or an array; false when nothing is known about it. */
bool compile_element_type(const struct compiler *c, struct value_type base, struct value_type *ret)
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
	if (compile_element_type(c, base, &element))
		*ret = element;
	r = compile_emit_add(c, (int64_t)value_bytes(&element) * (int64_t)node->number);
	return r < 0 ? r
		     : emit_load(c, value_bytes(&element), element.class == VALUE_SIGNED,
				 element.class);
}

/* *a is a load of 8 bytes, or of what the type of a leads to. */
static int compile_load(struct compiler *c, const struct expr_node *node, struct value_type base,
			struct value_type *ret)
{
	struct value_type element;

	if (!node->is_signed && node->size == 8 && compile_element_type(c, base, &element)) {
		*ret = element;
		return emit_load(c, value_bytes(&element), element.class == VALUE_SIGNED,
				 element.class);
	}
	*ret = (struct value_type){.class = node->is_signed ? VALUE_SIGNED : VALUE_UNTYPED};
	return compile_emit(c, node->is_signed ? WIRE_OP_DEREF_S : WIRE_OP_DEREF, 0, node->size, 0);
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
		return compile_emit(c, WIRE_OP_AND_IMM, 0, 0, (int64_t)node->number);
	case EXPR_SHR:
		return compile_emit(c, WIRE_OP_SHR_IMM, 0, 0, (int64_t)node->number);
	case EXPR_MUL:
	default:
		return compile_emit(c, WIRE_OP_MUL_IMM, 0, 0, (int64_t)node->number);
	}
}

static int compile_node(struct compiler *c, const struct expr_node *node, struct value_type *ret)
{
	switch ((enum expr_kind)node->kind) {
	case EXPR_NUMBER:
		return compile_emit(c, WIRE_OP_IMM, 0, 0, (int64_t)node->number);
	case EXPR_ARG:
		return compile_argument(c, node, ret);
	case EXPR_REG:
		return compile_emit(c, WIRE_OP_REG, (unsigned int)node->number, 0, 0);
	case EXPR_RET:
		if (c->in->phase != COMPILE_LEAVE)
			return compile_fail_at(c, node->at,
					       "ret is only known at leave: use it in leave-name=");
		return compile_emit(c, WIRE_OP_REG, WIRE_REG_RAX, 0, 0);
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
int compile_any(struct compiler *c, uint16_t idx, struct value_type *ret)
{
	const struct expr_node *node = &c->x->nodes.at[idx];
	int r;

	*ret = (struct value_type){0};
	if (++c->depth > EXPRESSION_NODES_MAX)
		return compile_fail_at(c, node->at, "the expression is nested too deep");
	r = compile_node(c, node, ret);
	c->depth--;
	return r;
}

int compile_value(struct compiler *c, uint16_t idx, struct value_type *ret)
{
	int r = compile_any(c, idx, ret);

	if (r == 0 && ret->class == VALUE_SPLIT)
		return compile_fail_at(
			c, c->x->nodes.at[idx].at,
			ret->is_text
				? "this is a text in two registers: write just its name"
				: "this is a structure in two registers: name one of its fields");
	return r;
}
