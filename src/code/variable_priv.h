/* SPDX-License-Identifier: Apache-2.0 */
/* variable_priv.h: what variable.c, where variables are, and variable_type.c, what they are, share. */
#ifndef SPANPROF_CODE_VARIABLE_PRIV_H
#define SPANPROF_CODE_VARIABLE_PRIV_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "code/module.h"
#include "code/variable.h"

enum {
	VARIABLES_WALK_MAX = 400000, /* DIEs looked at for one question */
	VARIABLES_DEPTH_MAX = 12,
};

struct variables {
	struct module *module; /* borrowed */
	Elf *elf, *alt_elf;    /* owned */
	Dwarf *dwarf, *alt;    /* owned */
	size_t budget;         /* DIEs left for the question at hand */
};

/* One DIE more is looked at; false: enough of them have been. */
bool variables_spend(struct variables *v);
/* The type of a DIE without typedefs and qualifiers; false: void, or a lie. */
bool variable_type_of(Dwarf_Die *die, Dwarf_Die *ret);
/* Its bytes; 0: unknown. */
uint32_t variable_size_of(Dwarf_Die *type);
void variable_classify(struct variables *v, Dwarf_Die *type, struct value_type *ret);

#endif
