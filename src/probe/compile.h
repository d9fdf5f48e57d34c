/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile.h: expression trees to the operations of bpf/wire.h.
 *
 * What only the binary knows is asked of an expression_resolver; without one, expressions that need
 * it are refused with the place marked. A value is an address, a number, or, for a structure or an
 * array, the address where it lies.
 */
#ifndef SPANPROF_PROBE_COMPILE_H
#define SPANPROF_PROBE_COMPILE_H

#include "base/errmsg.h"
#include "bpf/wire.h"
#include "code/variable.h"
#include "probe/expression.h"

/* Where a value is when the probe fires. */
enum place_kind {
	PLACE_REGISTER,  /* value = register */
	PLACE_REGISTERS, /* value = a structure of 16 bytes in register and second */
	PLACE_MEMORY,    /* value is at register + offset */
	PLACE_CONSTANT,  /* value = offset */
	PLACE_GLOBAL,    /* value is at the module's address entry_ip + offset */
};

struct place {
	enum place_kind kind;
	enum wire_reg reg;
	int64_t offset;
	uint8_t size; /* 1, 2, 4, 8: of the load, or of the register's used part */
	bool is_signed;
	struct value_type type;
	enum wire_reg second; /* REGISTERS */
};

struct expression_resolver {
	void *ctx;
	/* Each: 0, or a negative errno with why[] filled in. Any may be NULL. */
	int (*global)(void *ctx, const char *name, struct place *ret, struct errmsg *why);
	int (*variable)(void *ctx, const char *name, struct place *ret, struct errmsg *why);
	/* The offset in its first argument from which a function returns a value of `size` bytes. */
	int (*getter)(void *ctx, const char *function, struct place *ret, struct errmsg *why);
	int (*argument)(void *ctx, unsigned int number, struct place *ret, struct errmsg *why);
	/* Member of the structure `type` (or of what it points to): its offset and type. */
	int (*member)(void *ctx, struct value_type type, const char *name, int64_t *ret_offset,
		      struct value_type *ret_type, struct errmsg *why);
	/* What a pointer or an array leads to. */
	int (*element)(void *ctx, struct value_type type, struct value_type *ret);
};

enum compile_phase {
	COMPILE_ENTRY,
	COMPILE_LEAVE, /* at a return site: arguments are gone, ret is there */
	COMPILE_END,   /* at a declared end function: its own arguments */
};

struct program {
	struct wire_op ops[WIRE_OPS_MAX];
	uint32_t n;
	uint8_t match[64];
	uint32_t match_bytes;
	uint32_t registers; /* bit i: reads enum wire_reg i */
};

/*
 * Appends to *out: conditions first, then kept values of `leave` (in the entry phase), then the name.
 * Each may be NULL. text is the specification, for messages. 0, -EINVAL or the resolver's error.
 */
struct compile_input {
	const char *text;
	const struct expression *condition;
	const struct expression *keep; /* expression whose entry() values are to be kept */
	const struct expression *name;
	enum compile_phase phase;
};

int compile_program(const struct compile_input *in, const struct expression_resolver *resolver,
		    struct program *out, struct errmsg *e);

#endif
