/* SPDX-License-Identifier: Apache-2.0 */
/* variable_priv.h: what variable.c, where variables are, and variable_type.c, what they are, share. */
#ifndef SPANPROF_CODE_VARIABLE_PRIV_H
#define SPANPROF_CODE_VARIABLE_PRIV_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "code/dies.h"
#include "code/dwarffile.h"
#include "code/module.h"
#include "code/variable.h"

enum {
	VARIABLES_STEPS_MAX = 8 << 20, /* for one question; see dies.h */
	VARIABLES_DEPTH_MAX = 12,
};

struct variables {
	struct module *module;     /* borrowed */
	struct dwarffile file;     /* owned */
	struct dies_budget budget; /* for the question at hand */
};

/* A new question. */
void variables_begin(struct variables *v);
/* One step; false: enough of them have been made. */
bool variables_spend(struct variables *v);
/* The type of a DIE without typedefs and qualifiers; false: void, or a lie. */
bool variable_type_of(Dwarf_Die *die, Dwarf_Die *ret);
/* Its bytes; 0: unknown. */
uint32_t variable_size_of(Dwarf_Die *type);
void variable_classify(struct variables *v, Dwarf_Die *type, struct value_type *ret);

#endif
