/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resolve.h: from what the user wrote to the function's address in a process's modules.
 *
 * A file may be named by its path, its base name, a glob of either, a library's name without its
 * version, or any other path that leads to the same file. The executable is searched first.
 */
#ifndef SPANPROF_PROBE_RESOLVE_H
#define SPANPROF_PROBE_RESOLVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/errmsg.h"
#include "code/space.h"
#include "probe/binary.h"
#include "probe/endpoint.h"

enum { RESOLVE_NOTE_MAX = 256, RESOLVE_PLACES_MAX = 16 };

struct resolved {
	struct binary *binary;        /* borrowed */
	uint64_t bias;                /* run-time address - ELF virtual address, in this process */
	uint64_t vaddr;               /* the function's first byte, or the USDT probe's place */
	uint64_t bytes;               /* of the function; 0: unknown */
	char name[SYMTAB_NAME_MAX];   /* for people */
	char symbol[SYMTAB_NAME_MAX]; /* as in the symbol table; "" for an address without a name */
	char note[RESOLVE_NOTE_MAX];  /* worth telling the user; "" */
	bool unchecked;               /* nothing says that an instruction begins at this offset */
};

struct resolve_input {
	struct binaries *binaries;
	struct space *space;
	pid_t pid;
};

/*
 * The function that a symbol or an offset stands for. 0; -ENOENT: not in this process (the message
 * has the nearest names); -EINVAL: ambiguous, or nothing that can be probed (IFUNC, .cold part).
 */
int resolve_function(const struct resolve_input *in, const struct endpoint_target *t,
		     struct resolved *ret, struct errmsg *e);

/*
 * Modules of the process in the order of search, each once. Returns the number, at most max.
 * binary: as the user wrote it, NULL for all.
 */
struct resolve_module {
	struct module *module; /* borrowed */
	uint64_t bias;
};
size_t resolve_modules(const struct resolve_input *in, const char *binary,
		       struct resolve_module *ret, size_t max);

#endif
