/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symtab.h: the functions of a module by name and by address, from its ELF symbol tables.
 *
 * Tables: .symtab of the separate debug file and of the module, .gnu_debugdata, .dynsym. Only
 * functions count: STT_FUNC, STT_GNU_IFUNC, and STT_NOTYPE labels in code; each must lie in an
 * executable segment. The index by address is built at the first look-up by address and holds one
 * entry of 8 bytes for each distinct address: the best of its aliases. Names are not copied.
 *
 * Names and numbers come from a file that may lie: names hold any byte but NUL (sanitize them before
 * printing, as symtab_display does), sizes may overlap.
 */
#ifndef SPANPROF_CODE_SYMTAB_H
#define SPANPROF_CODE_SYMTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "code/debugfile.h"
#include "code/module.h"

struct symtab;

enum symtab_source {
	SYMTAB_DEBUG,     /* .symtab of the separate debug file */
	SYMTAB_FULL,      /* .symtab */
	SYMTAB_DEBUGDATA, /* .symtab inside .gnu_debugdata */
	SYMTAB_DYNAMIC,   /* .dynsym */
	SYMTAB_SOURCE_MAX
};

struct symtab_symbol {
	const char *name; /* borrowed from the symtab; mangled as in the file, "@VERSION" kept */
	uint64_t vaddr;   /* ELF virtual address */
	uint64_t size;    /* 0: unknown */
	uint8_t type;     /* STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE */
	uint8_t bind;     /* STB_* */
	uint8_t source;   /* enum symtab_source */
	bool hidden;      /* an old version: not what a new program links against */
};

/* A vector (base/vec.h); vec_free(&list) releases it. */
struct symtab_list {
	struct symtab_symbol *at;
	size_t n;
	size_t cap;
};

enum { SYMTAB_NAME_MAX = 256, SYMTAB_NEAREST_MAX = 8 };

/* The module and the debug file (may be NULL) must outlive the symtab. 0 or -ENOMEM. */
int symtab_new(struct symtab **ret, struct module *m, const struct debugfile *debug);
struct symtab *symtab_free(struct symtab *st);

/*
 * The symbol that covers vaddr: one whose size says so, else a label without size that nothing else
 * follows before vaddr. False: none; nothing in the tables says what is there.
 */
bool symtab_find_addr(struct symtab *st, uint64_t vaddr, struct symtab_symbol *ret);

/*
 * All functions with this name, best first, at most one for each address. The name is as in the file
 * ("_ZN3fooEv", "read@@GLIBC_2.2.5", also without the version), or demangled, with or without
 * parameters ("ns::f(int)", "ns::f"). Appends to list. 0 (nothing found included) or -ENOMEM.
 */
int symtab_find_name(struct symtab *st, const char *name, struct symtab_list *list);

/* Calls fn for each function of each table, aliases included, until it returns false. */
typedef bool (*symtab_fn)(void *ctx, const struct symtab_symbol *sym);
void symtab_each(struct symtab *st, symtab_fn fn, void *ctx);

/* Function names most like `name`, likeliest first, for "did you mean"; demangled and printable. */
size_t symtab_nearest(struct symtab *st, const char *name, char (*ret)[SYMTAB_NAME_MAX],
		      size_t max);

/*
 * First address and size of the function that holds vaddr: by symbol, else by its .eh_frame entry (a
 * function without a name). False when neither knows.
 */
bool symtab_bounds(struct symtab *st, uint64_t vaddr, uint64_t *ret_start, uint64_t *ret_size);

/* How a symbol is shown: demangled, version and clone suffix cut off, printable. buf is returned. */
const char *symtab_display(const char *name, char *buf, size_t n);

#endif
