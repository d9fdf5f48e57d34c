/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module.h: one ELF file that is mapped into a process, and a table of those seen.
 *
 * A module is opened once per file (device, inode, build ID), stays open until its last user lets
 * go, and so still unwinds and symbolizes after the process has exited or the file was replaced.
 * It owns the Elf handle and the section data; nobody outside src/code sees libelf types.
 */
#ifndef SPANPROF_CODE_MODULE_H
#define SPANPROF_CODE_MODULE_H

#include "base/errmsg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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
struct module *module_ref(struct module *m);
struct module *module_unref(struct module *m);

const char *module_path(const struct module *m);
enum module_kind module_kind(const struct module *m);
/* 0 bytes when the file has none. */
size_t module_build_id(const struct module *m, const uint8_t **ret_id);

/* File offset <-> ELF virtual address, by the PT_LOAD headers. False when no segment has it. */
bool module_vaddr_of_offset(const struct module *m, uint64_t file_off, uint64_t *ret_vaddr);
bool module_offset_of_vaddr(const struct module *m, uint64_t vaddr, uint64_t *ret_file_off);

/* Code bytes at an ELF virtual address: up to n bytes copied, the count copied is returned. */
size_t module_read_code(const struct module *m, uint64_t vaddr, void *buf, size_t n);

#endif
