/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/lookup.h"

#include <errno.h>
#include <string.h>

#include "code/section.h"
#include "probe/insn.h"
#include "probe/usdt.h"

static int no_globals(const char *name, struct errmsg *why)
{
	return errmsg_set(
		why, -ENOTSUP,
		"'%.60s' cannot be read here: it is told by the address of the probe, of which there are several",
		name);
}

static int lookup_global(void *ctx, const char *name, struct place *ret, struct errmsg *why)
{
	const struct lookup *l = ctx;
	struct binary *b = l->function->binary;
	struct symtab_list list = {0};
	uint64_t vaddr = 0;
	int r = 0;

	if (!section_find_object(binary_module(b), name, &vaddr)) {
		struct symtab *st = binary_symtab(b);

		r = st ? symtab_find_name(st, name, &list) : -ENOMEM;
		if (r == 0 && list.n == 0)
			r = errmsg_set(why, -ENOENT, "no symbol '%.80s' in %.120s", name,
				       module_path(binary_module(b)));
		else if (r == 0)
			vaddr = list.at[0].vaddr;
		vec_free(&list);
	}
	if (r == 0)
		*ret = (struct place){.kind = PLACE_GLOBAL,
				      .size = 8,
				      .offset = (int64_t)(vaddr - l->function->vaddr)};
	return r == 0 && l->several ? no_globals(name, why) : r;
}

static int lookup_getter(void *ctx, const char *function, struct place *ret, struct errmsg *why)
{
	const struct lookup *l = ctx;
	struct binary *b = l->function->binary;
	struct symtab *st = binary_symtab(b);
	struct symtab_list list = {0};
	uint8_t code[64];
	size_t n;
	int r = st ? symtab_find_name(st, function, &list) : -ENOMEM;

	if (r == 0 && list.n == 0)
		r = errmsg_set(why, -ENOENT, "no function '%.80s' in %.120s", function,
			       module_path(binary_module(b)));
	if (r == 0) {
		n = module_read_code(binary_module(b), list.at[0].vaddr, code, sizeof(code));
		*ret = (struct place){.kind = PLACE_MEMORY};
		if (!insn_find_getter(code, n, &ret->offset, &ret->size))
			r = errmsg_set(why, -ENOENT, "'%.80s' does not just return a field",
				       function);
	}
	vec_free(&list);
	return r;
}

/* "arg12": one of more arguments than are read, not a variable. */
static bool is_argument(const char *name)
{
	size_t n = strlen(name);

	return n > 3 && strncmp(name, "arg", 3) == 0 && strspn(name + 3, "0123456789") == n - 3;
}

static int lookup_variable(void *ctx, const char *name, struct place *ret, struct errmsg *why)
{
	const struct lookup *l = ctx;
	struct variables *v;
	static const enum place_kind kinds[] = {
		[VARIABLE_REGISTER] = PLACE_REGISTER,
		[VARIABLE_REGISTERS] = PLACE_REGISTERS,
		[VARIABLE_STACK] = PLACE_MEMORY,
		[VARIABLE_GLOBAL] = PLACE_GLOBAL,
	};
	struct errmsg e = {""};
	struct variable var;
	int r = binary_variables(l->function->binary, &v, &e);

	if (r < 0)
		errmsg_set(why, r, "'%.60s' is not known: %s", name, e.text);
	else
		r = variables_find(v, l->function->vaddr, name, &var, why);
	if (r == -ENOENT && is_argument(name))
		errmsg_set(why, r, "'%.60s' is not known: arguments are arg0 to arg9", name);
	if (r < 0)
		return r;
	*ret = (struct place){.type = var.type,
			      .reg = (enum wire_reg)var.reg,
			      .second = (enum wire_reg)var.second_reg,
			      .offset = var.offset,
			      .is_signed = var.type.class == VALUE_SIGNED,
			      .size = 8};
	if (var.type.class == VALUE_SIGNED || var.type.class == VALUE_UNSIGNED)
		ret->size = (uint8_t)(var.type.size < 8 ? var.type.size : 8);
	ret->kind = kinds[var.kind];
	if (var.kind == VARIABLE_GLOBAL)
		ret->offset = (int64_t)(var.vaddr - l->function->vaddr);
	return var.kind == VARIABLE_GLOBAL && l->several ? no_globals(name, why) : 0;
}

static int lookup_member(void *ctx, struct value_type type, const char *name, int64_t *ret_offset,
			 struct value_type *ret_type, struct errmsg *why)
{
	const struct lookup *l = ctx;
	struct variables *v;
	int r = binary_variables(l->function->binary, &v, why);

	return r < 0 ? r : variables_member(v, type, name, ret_offset, ret_type, why);
}

static int lookup_element(void *ctx, struct value_type type, struct value_type *ret)
{
	const struct lookup *l = ctx;
	struct variables *v;
	int r = binary_variables(l->function->binary, &v, NULL);

	return r < 0 ? r : variables_element(v, type, ret);
}

static int lookup_argument(void *ctx, unsigned int number, struct place *ret, struct errmsg *why)
{
	const struct lookup *l = ctx;
	int r = parse_usdt_argument(l->usdt_arguments, number, ret);

	if (r == -ENOENT)
		return errmsg_set(why, -EINVAL, "this USDT probe has %u arguments",
				  usdt_n_arguments(l->usdt_arguments));
	if (r < 0)
		return errmsg_set(
			why, r,
			"argument %u of this USDT probe is in a form that is not read: %.80s",
			number, l->usdt_arguments);
	if (ret->kind != PLACE_MEMORY || ret->reg != WIRE_REG_RSP)
		return 0;
	if (l->sp_unknown)
		return errmsg_set(
			why, -ENOTSUP,
			"argument %u of this USDT probe is on the stack, at a place that is not read without end=",
			number);
	ret->offset -= l->sp_shift;
	return 0;
}

void lookup_make_resolver(struct lookup *l, struct expression_resolver *ret)
{
	*ret = (struct expression_resolver){.ctx = l,
					    .global = lookup_global,
					    .getter = lookup_getter,
					    .variable = lookup_variable,
					    .member = lookup_member,
					    .element = lookup_element};
	if (l->usdt_arguments)
		ret->argument = lookup_argument;
}
