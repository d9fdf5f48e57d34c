/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symtab_priv.h: what a symtab shows to src/code only: the libelf handle that it reads through.
 */
#ifndef SPANPROF_CODE_SYMTAB_PRIV_H
#define SPANPROF_CODE_SYMTAB_PRIV_H

#include <libelf.h>

#include "code/symtab.h"

/* Of the module's own file; borrowed; lives as long as the symtab. NULL: libelf refuses the file. */
Elf *symtab_elf(const struct symtab *st);

#endif
