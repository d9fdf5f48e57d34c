/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elffile.h: libelf handles and checked access to what they hold, for src/code only.
 *
 * A file is mapped only when no one but root can change it: a mapped file that shrinks kills the reader
 * (SIGBUS). Others are read into memory, section by section, within a limit.
 */
#ifndef SPANPROF_CODE_ELFFILE_H
#define SPANPROF_CODE_ELFFILE_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* fd stays the caller's and must outlive the handle. 0, -ENOEXEC (not x86-64 ELF), -ENOMEM. */
int elffile_begin(int fd, Elf **ret);
/*
 * The same for one who reads DWARF: a file with compressed sections is not mapped, so that their packed
 * form does not stay in memory, and sections that no line or function is found by are hidden.
 */
int elffile_begin_dwarf(int fd, Elf **ret);

/*
 * Gives back the memory of a mapped file's pages that were looked at; they come back when they are
 * looked at again. Nothing for a file that is not mapped.
 */
void elffile_release(Elf *elf, int fd);

/* The section's contents; NULL when there is none, it has no data, or its header lies. */
Elf_Scn *elffile_section(Elf *elf, const char *name, Elf64_Shdr *ret);
Elf_Scn *elffile_section_of_type(Elf *elf, uint32_t type, Elf64_Shdr *ret);
/* Not decompressed. ret_bytes is 0 without data. */
const void *elffile_data(Elf_Scn *scn, size_t *ret_bytes);

/* The build ID note; 0 bytes when there is none or it is longer than max. */
size_t elffile_build_id(Elf *elf, uint8_t *ret, size_t max);

/*
 * Memory that the DWARF reader will take for this file's debug sections: all of what is compressed, once
 * unpacked, and of what is not mapped. More than max_bytes is told from headers only; otherwise what is
 * compressed is in memory afterwards, so that the answer holds though the file is changed. UINT64_MAX: a
 * header lies.
 */
uint64_t elffile_debug_bytes(Elf *elf, int fd, uint64_t max_bytes);
/* Whether elffile_begin maps this file. */
bool elffile_is_mapped(int fd);
bool elffile_has_dwarf(Elf *elf);
/* The DWARF string sections end in NUL: libdw relies on it. To be asked once they are unpacked. */
bool elffile_strings_end(Elf *elf);

#endif
