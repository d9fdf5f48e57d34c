/* SPDX-License-Identifier: Apache-2.0 */
/*
 * section.h: sections of a module by name, and the slots through which it calls other modules.
 *
 * Section headers come from the file and may lie: sizes are checked against the file and a limit,
 * and no data is interpreted here beyond relocations.
 */
#ifndef SPANPROF_CODE_SECTION_H
#define SPANPROF_CODE_SECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "code/module.h"

struct section {
	uint64_t vaddr;
	uint64_t file_off;
	uint64_t bytes;
	bool has_data; /* not SHT_NOBITS */
	bool executable;
};

/* False when the module has none of that name. */
bool section_find(struct module *m, const char *name, struct section *ret);

/* Calls fn for each section until it returns false. The name is hostile text. */
typedef bool (*section_fn)(void *ctx, const char *name, const struct section *s);
void section_each(struct module *m, section_fn fn, void *ctx);

/* Whole contents, at most max_bytes; owned by the caller. 0, -ENOENT, -EFBIG, -ENOMEM, -EIO. */
int read_section(struct module *m, const char *name, size_t max_bytes, uint8_t **ret,
		 size_t *ret_bytes);

struct section_slots {
	uint64_t *at;
	size_t n;
	size_t cap;
};

/*
 * ELF addresses of the GOT slots that the loader fills with the address of `symbol` (version cut
 * off). Appends; 0 or -ENOMEM.
 */
int section_got_slots(struct module *m, const char *symbol, struct section_slots *ret);

/* True when the dynamic symbol table names the symbol, defined or needed. */
bool section_has_dynamic_symbol(struct module *m, const char *symbol);

/* The address of a symbol that the module defines; one of each thread (STT_TLS) is none. False: not there. */
bool section_find_object(struct module *m, const char *symbol, uint64_t *ret_vaddr);

#endif
