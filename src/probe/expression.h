/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expression.h: name expressions and conditions: text to tree. Pure; fuzzed.
 *
 *   name      = part { part }                     parts are joined without a separator
 *   part      = "literal" | str(ADDR[, LEN]) | stdstring(ADDR) | libcxxstring(ADDR) | ruststr(argN)
 *             | int(V) | uint(V) | hex(V) | map(V, 3="query", ...) | lower(name) | V
 *   V, ADDR   = sums, &, <<, >>, * CONST over: number, argN, register, ret, *V, u8..u64(V),
 *               s8..s64(V), global(SYMBOL), getter(FUNCTION, V), entry(V),
 *               variable, V->field, V.field, V[CONST]
 *   condition = test { && test }, test = V OP NUMBER | str(ADDR[, LEN]) OP "text"
 *               OP is == != < <= > >= for numbers, == ^= (starts with) for texts
 *
 * Trees are stored in one array per expression and refer to each other by index; a node's children
 * always have smaller indexes.
 */
#ifndef SPANPROF_PROBE_EXPRESSION_H
#define SPANPROF_PROBE_EXPRESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errmsg.h"
#include "base/vec.h"
#include "bpf/wire.h"
#include "probe/scan.h"

enum { EXPRESSION_DEPTH_MAX = 32, EXPRESSION_NODES_MAX = 256, EXPRESSION_PARTS_MAX = 24 };

enum expr_kind {
	EXPR_NUMBER, /* number */
	EXPR_ARG,    /* number: argument index, or a USDT probe's argument */
	EXPR_REG,    /* number: enum wire_reg */
	EXPR_RET,    /* the return value */
	EXPR_GLOBAL, /* text: symbol; its address */
	EXPR_VAR,    /* text: parameter or global variable by its name in the source */
	EXPR_ENTRY,  /* a, as it was at entry; number: slot among the kept values */
	EXPR_LOAD,   /* a is an address; size, is_signed */
	EXPR_ADD,    /* a + b */
	EXPR_SUB,    /* a - b */
	EXPR_AND,    /* a & number */
	EXPR_SHR,    /* a >> number */
	EXPR_MUL,    /* a * number */
	EXPR_ARROW,  /* a->text */
	EXPR_FIELD,  /* a.text */
	EXPR_INDEX,  /* a[number] */
	EXPR_GETTER, /* the field of a that the function `text` returns */
};

struct expr_node {
	uint8_t kind; /* enum expr_kind */
	uint8_t size; /* EXPR_LOAD: 1, 2, 4, 8 */
	bool is_signed;
	uint16_t a;
	uint16_t b;
	uint32_t at; /* column in the specification, for messages */
	uint64_t number;
	char *text; /* owned */
};

enum part_kind {
	PART_LITERAL,
	PART_STR,          /* node: address; len_node when has_len */
	PART_STDSTRING,    /* libstdc++: {pointer, length, ...} */
	PART_LIBCXXSTRING, /* libc++: short form when bit 0 of the first byte is 0 */
	PART_INT,
	PART_UINT,
	PART_HEX,
	PART_MAP,   /* number to text */
	PART_VALUE, /* what its type says; a number when it has none */
};

struct part_map {
	int64_t from;
	char *to; /* owned */
};

struct expr_part {
	uint8_t kind; /* enum part_kind */
	bool has_len;
	bool lower;
	uint16_t node;
	uint16_t len_node;
	uint16_t text_bytes; /* PART_LITERAL */
	char *text;          /* owned; PART_LITERAL */
	VEC(struct part_map) map;
};

enum test_op { TEST_EQ, TEST_NE, TEST_LT, TEST_LE, TEST_GT, TEST_GE, TEST_PREFIX };

struct expr_test {
	uint8_t op; /* enum test_op */
	bool is_text;
	bool has_len;
	uint16_t node;
	uint16_t len_node;
	uint16_t text_bytes;
	int64_t number;
	char *text; /* owned */
};

struct expression {
	VEC(struct expr_node) nodes;
	VEC(struct expr_part) parts; /* of a name */
	VEC(struct expr_test) tests; /* of a condition: all must hold */
	unsigned int n_kept;         /* entry() values */
};

enum expression_kind { EXPRESSION_NAME, EXPRESSION_CONDITION };

/*
 * Parses from the token at hand of `s` up to the first token that cannot continue the expression
 * (the caller checks it). 0, -EINVAL with the message set, -ENOMEM.
 */
int parse_expression(struct scan *s, enum expression_kind kind, struct expression **ret);
struct expression *expression_free(struct expression *x);

/* "rdi" for an enum wire_reg below WIRE_REG_MAX. */
const char *expression_register(unsigned int reg);

#endif
