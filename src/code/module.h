/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module.h: one ELF file that is mapped into a process, and a table of those seen.
 *
 * A module is opened once per file (device, inode), stays open until its last user lets go, and so
 * still unwinds and symbolizes after the process has exited or the file was replaced. Files are
 * read with pread(), never mapped: a file that shrinks gives short reads, not SIGBUS, and memory
 * holds only what was asked for.
 */
#ifndef SPANPROF_CODE_MODULE_H
#define SPANPROF_CODE_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/errmsg.h"
#include "code/cfi.h"

struct Elf; /* libelf's Elf: for src/code only */
struct module;

enum module_kind { MODULE_ELF, MODULE_VDSO };

/*
 * Opens an ELF file. take_fd is consumed on success. path is for people. 0; -ENOEXEC: not an ELF
 * file that can be used (the message says why: 32-bit, other architecture, truncated, ...).
 */
int module_open_fd(struct module **ret, int take_fd, const char *path, struct errmsg *e);
/* An image in memory (vDSO): the bytes are copied. */
int module_open_image(struct module **ret, const void *image, size_t bytes, const char *path,
		      struct errmsg *e);
/* The vDSO of this very process: the same image as in every 64-bit process of this kernel. */
int module_open_own_vdso(struct module **ret, struct errmsg *e);
struct module *module_ref(struct module *m);
struct module *module_unref(struct module *m);
/* How many references there are: 1 when only the caller holds it. */
unsigned int module_refs(const struct module *m);

const char *module_path(const struct module *m);
enum module_kind module_kind(const struct module *m);
/* Unique while the program runs, never 0, never reused. */
uint32_t module_id(const struct module *m);
/*
 * Whether the file has been written to since it was opened, or somebody waits to. Then it is another program,
 * and what is known of it is wrong.
 */
bool module_is_changed(struct module *m);
/*
 * Lets nobody write to the file before the module is let go, or dies, where the kernel can do that (a lease:
 * on local file systems, to the owner of the file or with CAP_LEASE; it ends it by itself after 45 s).
 */
void module_hold(struct module *m);
void module_let_go(struct module *m);
bool module_is_held(const struct module *m);
/* Borrowed; -1 for an image in memory. */
int module_fd(const struct module *m);
uint64_t module_bytes(const struct module *m);
/* 0 bytes when the file has none. */
size_t module_build_id(const struct module *m, const uint8_t **ret_id);

/* File offset <-> ELF virtual address, by the PT_LOAD headers. False when no segment has it. */
bool module_vaddr_of_offset(const struct module *m, uint64_t file_off, uint64_t *ret_vaddr);
/* The same for the start of a mapping, which is rounded down to a page. */
bool module_vaddr_of_mapping(const struct module *m, uint64_t file_off, uint64_t *ret_vaddr);
bool module_offset_of_vaddr(const struct module *m, uint64_t vaddr, uint64_t *ret_file_off);

/* Code bytes at an ELF virtual address: up to n bytes copied, the count copied is returned. */
size_t module_read_code(const struct module *m, uint64_t vaddr, void *buf, size_t n);
/* How many there are up to the end of the segment and of the file; 0 when vaddr is in none. */
uint64_t module_code_bytes(const struct module *m, uint64_t vaddr);
/* File bytes at an offset: up to n bytes copied, the count copied is returned. */
size_t module_read(const struct module *m, uint64_t file_off, void *buf, size_t n);

/*
 * The libelf handle, made on first use (ELF_C_READ: sections are read when asked for) and owned by
 * the module; NULL when libelf refuses the file.
 */
struct Elf *module_elf(struct module *m);

/*
 * The call frame rule at an ELF virtual address: .eh_frame, else .debug_frame. CFI_OK or another
 * enum cfi_result, or -ENOMEM.
 */
int module_find_cfi(struct module *m, uint64_t vaddr, struct cfi_buf *ret);
/* All that has such a rule: see cfi_table_each. Of each section by the starts, of one after the other. */
int module_each_cfi(struct module *m, cfi_range_fn fn, void *ctx);

#endif
