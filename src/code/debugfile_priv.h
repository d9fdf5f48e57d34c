/* SPDX-License-Identifier: Apache-2.0 */
/*
 * debugfile_priv.h: what a debug file shows to src/code only: the libelf handles that it owns.
 */
#ifndef SPANPROF_CODE_DEBUGFILE_PRIV_H
#define SPANPROF_CODE_DEBUGFILE_PRIV_H

#include <libelf.h>

#include "code/debugfile.h"

/* Borrowed; lives as long as the debug file. */
Elf *debugfile_elf(const struct debugfile *f);
int debugfile_fd(const struct debugfile *f);
/* The dwz supplement's file (.gnu_debugaltlink), -1 when the file names none. */
int debugfile_alt_fd(const struct debugfile *f);
/* The file names a dwz supplement that was not found: its DWARF is not complete. */
bool debugfile_alt_missing(const struct debugfile *f);

/* The folder that the current process (debugfile_search_use_process) sees as its root; borrowed. */
int debugfile_search_root(const struct debugfile_search *s);

/*
 * The dwz supplement that the file at path `from` names: *ret_fd (the caller's) when it was found, else
 * *ret_missing tells whether one is named. 0 or -ENOMEM.
 */
int debugfile_find_alt(struct debugfile_search *s, Elf *elf, const char *from, int *ret_fd,
		       bool *ret_missing);

#endif
