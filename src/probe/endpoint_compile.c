/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint_compile.c: an endpoint's expressions as one configuration for BPF. */
#include <errno.h>
#include <string.h>

#include "base/glob.h"
#include "probe/endpoint_priv.h"

static bool guard_holds(const char *guard, const struct endpoint_build *build)
{
	const char *build_id = build->build_id;

	if (!guard)
		return true;
	if (strncmp(guard, "text:", 5) == 0)
		return build->has_text && build->has_text(build->ctx, guard + 5);
	if (strncmp(guard, "build-id:", 9) == 0) {
		const char *wanted = guard + 9;

		/* a prefix will do */
		while (build_id && *wanted && *wanted == *build_id) {
			wanted++;
			build_id++;
		}
		return build_id && !*wanted;
	}
	return build->path && glob_match(guard, build->path);
}

/* What compile_choice needs besides the alternatives. */
struct choice_input {
	struct compile_input in; /* name is filled in */
	const struct expression_resolver *resolver;
	const struct endpoint_build *build;
	bool keeps; /* alternatives are compiled for their entry() values only */
};

/*
 * Compiles the first alternative that fits this build. Without any: no name when there are several
 * (their writer knows that builds differ), else the error.
 */
static int compile_choice(const struct choice_input *ci, const struct name_choice *choice,
			  struct program *out, bool *ret_named, struct errmsg *e)
{
	struct compile_input in = ci->in;
	struct errmsg why = {""};
	int r = -ENOENT;

	for (size_t i = 0; i < choice->n; i++) {
		struct program tried = *out;

		if (!guard_holds(choice->at[i].guard, ci->build))
			continue;
		in.name = ci->keeps ? NULL : choice->at[i].name;
		in.keep = ci->keeps ? choice->at[i].name : NULL;
		r = compile_program(&in, ci->resolver, &tried, why.text[0] ? NULL : &why);
		if (r == 0) {
			*out = tried;
			*ret_named = true;
			return 0;
		}
	}
	*ret_named = false;
	if (choice->n == 1 && r < 0) {
		if (why.text[0])
			errmsg_set(e, r, "%s", why.text);
		return r;
	}
	in.name = in.keep = NULL;
	return compile_program(&in, ci->resolver, out, e);
}

static int compile_entry_program(const struct endpoint *ep, const struct expression_resolver *entry,
				 const struct endpoint_build *build, struct program *out,
				 bool *ret_named, struct errmsg *e)
{
	struct choice_input ci = {
		.in = {.text = ep->text, .condition = ep->condition, .phase = COMPILE_ENTRY},
		.resolver = entry,
		.build = build,
		.keeps = ep->leave_name.n > 0};

	return compile_choice(&ci, ci.keeps ? &ep->leave_name : &ep->name, out, ret_named, e);
}

static int compile_leave_program(const struct endpoint *ep, const struct expression_resolver *end,
				 const struct endpoint_build *build, struct program *out,
				 bool *ret_named, struct errmsg *e)
{
	struct choice_input ci = {.in = {.text = ep->text,
					 .condition = ep->end_condition,
					 .phase = ep->has_end ? COMPILE_END : COMPILE_LEAVE},
				  .resolver = ep->has_end ? end : NULL,
				  .build = build};

	out->registers = 0;
	out->n = 0; /* the bytes to match stay: one table serves both programs */
	return compile_choice(&ci, &ep->leave_name, out, ret_named, e);
}

static bool reads_memory(const struct program *program)
{
	for (uint32_t i = 0; i < program->n; i++) {
		switch ((enum wire_op_code)program->ops[i].code) {
		case WIRE_OP_DEREF:
		case WIRE_OP_DEREF_S:
		case WIRE_OP_STR:
		case WIRE_OP_STRN:
		case WIRE_OP_IF_PREFIX:
			return true;
		default:
			break;
		}
	}
	return false;
}

int endpoint_compile(const struct endpoint *ep, const struct expression_resolver *entry,
		     const struct expression_resolver *end, const struct endpoint_build *build,
		     struct endpoint_code *ret, struct errmsg *e)
{
	struct wire_endpoint *wire = &ret->wire;
	struct program program = {0};
	bool entry_named, leave_named;
	int r = compile_entry_program(ep, entry, build, &program, &entry_named, e);

	if (r < 0)
		return r;
	memset(ret, 0, sizeof(*ret));
	memcpy(wire->entry_ops, program.ops, program.n * sizeof(program.ops[0]));
	wire->n_entry_ops = program.n;
	ret->registers = program.registers;
	ret->reads_memory = reads_memory(&program);
	r = compile_leave_program(ep, end, build, &program, &leave_named, e);
	if (r < 0)
		return r;
	memcpy(wire->leave_ops, program.ops, program.n * sizeof(program.ops[0]));
	memcpy(wire->match, program.match, sizeof(wire->match));
	wire->n_leave_ops = program.n;
	ret->end_registers = program.registers;
	ret->end_reads_memory = reads_memory(&program);
	wire->flags = (ep->once ? WIRE_EP_F_BEGIN_IF_NONE : 0) |
		      (ep->has_end ? WIRE_EP_F_END_PROBE : 0) |
		      (leave_named ? WIRE_EP_F_NAME_AT_LEAVE : 0) |
		      (wire->n_entry_ops ? WIRE_EP_F_HAS_OPS : 0) |
		      (ep->end_condition ? WIRE_EP_F_END_OPS : 0);
	ret->nameless = (ep->name.n && !entry_named) || (ep->leave_name.n && !leave_named);
	return 0;
}
