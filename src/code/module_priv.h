/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module_priv.h: what a module shows to src/code only: the libelf handle that it owns.
 */
#ifndef SPANPROF_CODE_MODULE_PRIV_H
#define SPANPROF_CODE_MODULE_PRIV_H

#include <libelf.h>

#include "code/module.h"

/* Borrowed; lives as long as the module. Section data that it hands out lives as long, too. */
Elf *module_elf(struct module *m);
/* The open file, borrowed; -1 for an image in memory. */
int module_fd(const struct module *m);

#endif
