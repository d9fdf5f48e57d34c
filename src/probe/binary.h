/* SPDX-License-Identifier: Apache-2.0 */
/*
 * binary.h: what the probe layer knows of one module, found once: its functions, its runtime, and
 * whether a uretprobe could kill it.
 */
#ifndef SPANPROF_PROBE_BINARY_H
#define SPANPROF_PROBE_BINARY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "code/bounds.h"
#include "code/module.h"
#include "code/symtab.h"
#include "code/variable.h"
#include "probe/insn.h"

/* Runtimes seen in a module, bits. */
enum binary_runtime {
	BINARY_GO = 1 << 0,      /* .gopclntab or .go.buildinfo */
	BINARY_CXX = 1 << 1,     /* needs libstdc++ or libc++ */
	BINARY_RUST = 1 << 2,    /* panics unwind */
	BINARY_UNWINDS = 1 << 3, /* uses or provides _Unwind_RaiseException */
	BINARY_CONTEXT = 1 << 4, /* swapcontext and its kin: stacks are switched */
	BINARY_CANCEL = 1 << 5,  /* pthread_exit or pthread_cancel */
};

struct binary;
struct binaries; /* all modules seen, by module_id */

/* debug_max_bytes: memory for DWARF, of which one file at a time is open; see binary_variables. */
int binaries_new(struct binaries **ret, const char *debug_dirs, uint64_t debug_max_bytes);
struct binaries *binaries_free(struct binaries *t);

/* Debug files are looked for inside this process's root from now on. */
void binaries_use_process(struct binaries *t, pid_t pid);

/* The module is referenced. Borrowed, lives as long as the table. 0 or -ENOMEM. */
int binaries_get(struct binaries *t, struct module *m, struct binary **ret);

struct module *binary_module(const struct binary *b);
/* Made on first use; NULL only without memory. */
struct symtab *binary_symtab(struct binary *b);
/* Separate debug file, NULL without one. */
const struct debugfile *binary_debugfile(struct binary *b);
/*
 * DWARF, valid until another binary is asked for its own, or binaries_close_variables. 0, -ENOENT (none, or
 * more than the limit), -ENOMEM, with the message set.
 */
int binary_variables(struct binary *b, struct variables **ret, struct errmsg *e);
void binaries_close_variables(struct binaries *t);
unsigned int binary_runtimes(struct binary *b); /* enum binary_runtime bits */

/*
 * Whether some NUL-terminated text in .rodata, or the end of one, matches the glob, which begins with
 * at least three bytes that are no pattern: versions are told by such texts.
 */
bool binary_has_text(struct binary *b, const char *glob);

/* First byte and size of the function around vaddr: symbols, else .eh_frame. */
bool binary_function(struct binary *b, uint64_t vaddr, uint64_t *ret_start, uint64_t *ret_bytes);
/* The same by what the file itself says to whoever unwinds: .eh_frame. */
bool binary_unwound_function(struct binary *b, uint64_t vaddr, struct bounds_function *ret);

/* The instruction at vaddr; -EINVAL: there is none. */
int binary_decode(const struct binary *b, uint64_t vaddr, struct insn *ret);

#endif
