/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plt.h: names of procedure linkage stubs, which have no symbols: "read@plt". For src/code only.
 *
 * A stub jumps through a slot of the global offset table; the relocation of that slot has the name.
 */
#ifndef SPANPROF_CODE_PLT_H
#define SPANPROF_CODE_PLT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "code/module.h"
#include "code/symtab.h"

/* st is m's. buf gets the symbol's name as in the file (any byte but NUL), without "@plt". */
bool plt_find(const struct symtab *st, struct module *m, uint64_t vaddr, char *buf, size_t n);

#endif
