/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dwarffile.h: the DWARF of a file and of its dwz supplement, opened within a limit of memory. For
 * src/code only.
 */
#ifndef SPANPROF_CODE_DWARFFILE_H
#define SPANPROF_CODE_DWARFFILE_H

#include <elfutils/libdw.h>
#include <stdint.h>

struct dwarffile {
	Elf *elf; /* all owned; NULL: closed, or there is none */
	Elf *alt_elf;
	Dwarf *dwarf;
	Dwarf *alt;
	uint64_t bytes; /* memory that it takes; after -EFBIG, that it would take */
};

/*
 * The file descriptors stay the caller's and must outlive it; alt_fd -1: no supplement. 0, -ENOENT (no
 * DWARF that can be used), -EFBIG, -ENOMEM: then it is closed.
 */
int dwarffile_open(struct dwarffile *f, int fd, int alt_fd, uint64_t max_bytes);
/* What is closed stays so. */
void dwarffile_close(struct dwarffile *f);

#endif
