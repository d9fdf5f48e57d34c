/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile_priv.h: the compiler's state, and values: for src/probe/compile*.c only.
 */
#ifndef SPANPROF_PROBE_COMPILE_PRIV_H
#define SPANPROF_PROBE_COMPILE_PRIV_H

#include "probe/compile.h"

enum { COMPILE_TEMPS = 4 }; /* T[0..3] of the machine */

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

int compile_fail_at(const struct compiler *c, uint32_t at, const char *why);
int compile_emit(struct compiler *c, enum wire_op_code code, unsigned int arg, unsigned int size,
		 int64_t imm);
int compile_emit_add(struct compiler *c, int64_t imm);

/*
 * A = the node's value, if it is not of class SPLIT. Children have smaller indexes, so this ends; depth
 * is bounded all the same.
 */
int compile_any(struct compiler *c, uint16_t idx, struct value_type *ret);
/* The same where one in two registers is an error. */
int compile_value(struct compiler *c, uint16_t idx, struct value_type *ret);
/* The type of what an address of type `base` leads to; false: not known. */
bool compile_element_type(const struct compiler *c, struct value_type base, struct value_type *ret);

#endif
