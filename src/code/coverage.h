/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coverage.h: how much of a module's code has unwind data, and which functions have none.
 *
 * Where a thread is met in code without, its stack ends there or follows frame pointers. The code is
 * .text; what merely fills the space up to an aligned function is not counted.
 */
#ifndef SPANPROF_CODE_COVERAGE_H
#define SPANPROF_CODE_COVERAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "code/module.h"
#include "code/symtab.h"

enum { COVERAGE_NAMES = 3 };

struct coverage {
	uint64_t code_bytes;
	uint64_t covered_bytes;
	size_t n_without;                              /* functions with a symbol that have none */
	char without[COVERAGE_NAMES][SYMTAB_NAME_MAX]; /* the first of them, printable */
	bool is_cut;                                   /* too many entries: there is more */
	bool lies; /* .text is said to be larger than what there is, which was looked at */
};

/* st may be NULL. 0, -ENOENT: the module has no .text in a segment (rules may be found all the same), or -ENOMEM. */
int coverage_read(struct module *m, struct symtab *st, struct coverage *ret);

#endif
