/* SPDX-License-Identifier: Apache-2.0 */
/*
 * variable.h: parameters, global variables and structure members by their names in the source, from
 * DWARF. DWARF is hostile: walks have budgets, sections that unpack to too much are not opened.
 */
#ifndef SPANPROF_CODE_VARIABLE_H
#define SPANPROF_CODE_VARIABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/errmsg.h"
#include "code/debugfile.h"
#include "code/module.h"

/* What kind of thing a type is, for naming and member access. */
enum value_class {
	VALUE_UNTYPED,
	VALUE_SIGNED,
	VALUE_UNSIGNED,
	VALUE_POINTER,
	VALUE_TEXT,       /* pointer to characters */
	VALUE_TEXT_ARRAY, /* characters in place, size bytes */
	VALUE_STRUCT,     /* in place; classes and unions, too */
	VALUE_SPLIT,      /* a structure in two registers */
	VALUE_ARRAY,      /* in place */
	VALUE_OTHER,      /* what no expression can use: floating point, vectors */
};

struct value_type {
	enum value_class class;
	uint32_t
		size; /* bytes of the value, or of the element that a POINTER or an ARRAY leads to */
	uint64_t id;  /* of the structure, or of the element's type; 0: none */
	bool is_reference;   /* POINTER: a reference of C++ */
	bool is_text;        /* STRUCT, SPLIT: a string of C++ or Rust, with these fields */
	uint16_t text_off;   /* of the text's address */
	uint16_t length_off; /* of its length, 8 bytes */
};

enum variable_kind { VARIABLE_REGISTER, VARIABLE_REGISTERS, VARIABLE_STACK, VARIABLE_GLOBAL };

struct variable {
	enum variable_kind kind;
	unsigned int reg;        /* DWARF number of x86-64 */
	unsigned int second_reg; /* REGISTERS: of the bytes from the eighth on */
	int64_t offset;          /* STACK: from SP at the function's first instruction */
	uint64_t vaddr;          /* GLOBAL: ELF virtual address */
	struct value_type type;
};

struct variables; /* the open DWARF of one module */

#define VARIABLES_WIDE_BYTES (1ULL << 30)

/*
 * debug may be NULL; both must outlive the result. max_bytes: memory for what is unpacked or not mapped;
 * 0: a wide limit, VARIABLES_WIDE_BYTES. 0, -ENOENT (no DWARF), -ENOMEM, or -EFBIG: it would take
 * ret_bytes, more than the limit, or UINT64_MAX when its headers lie; nothing was unpacked then.
 */
int variables_new(struct variables **ret, struct module *m, const struct debugfile *debug,
		  uint64_t max_bytes, uint64_t *ret_bytes);
struct variables *variables_free(struct variables *v);

/*
 * A parameter of the function that begins at vaddr, as it is passed at its first instruction, or a
 * global variable. 0; -ENOENT: there is none of this name, or it is nowhere at entry (see why).
 */
int variables_find(struct variables *v, uint64_t vaddr, const char *name, struct variable *ret,
		   struct errmsg *why);

/* Member of a STRUCT, or of what a POINTER leads to; members of anonymous ones and bases are found. */
int variables_member(struct variables *v, struct value_type type, const char *name,
		     int64_t *ret_offset, struct value_type *ret, struct errmsg *why);

/* What a POINTER or an ARRAY leads to. */
int variables_element(struct variables *v, struct value_type type, struct value_type *ret);

#endif
