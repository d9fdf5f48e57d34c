/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbolize.h: from a module and an address to functions, files and lines, inlined frames included.
 *
 * Sources, best first: DWARF of the file or of its separate debug file (build-id folders, debug
 * link, debuginfod when allowed), .symtab, .gnu_debugdata, .dynsym; JIT perf maps; kallsyms.
 * Results go into a profile's tables; each distinct (module, address) is looked up once. Texts in
 * them are printable whatever the file said; what no longer fits into the profile's string memory
 * becomes "[strings full]" and is counted as such.
 *
 * Code without any name is "module+0x1234", flagged PROFILE_FRAME_UNKNOWN, where the number is the
 * start of its function if unwind data tells, so that all of a function's addresses have one name.
 */
#ifndef SPANPROF_CODE_SYMBOLIZE_H
#define SPANPROF_CODE_SYMBOLIZE_H

#include <sys/types.h>

#include "code/module.h"
#include "model/profile.h"

struct symbolizer;

struct symbolize_options {
	const char *debug_dirs;        /* colon-separated; NULL: /usr/lib/debug */
	bool debuginfod;               /* off unless asked */
	uint64_t debuginfod_budget_ns; /* for all look-ups together */
	bool lines;                    /* file:line and inlined frames (needs DWARF) */
	uint64_t debug_max_bytes;      /* memory for DWARF of all files together; 0: wide limits */
	uint64_t
		debug_max_steps; /* work on one file's DWARF, if it is not root's; 0: a wide limit */
	/* Asked during long work on DWARF: true, and there is no more of it; may be NULL. */
	bool (*shall_stop)(void *ctx);
	/* Told once of each file whose DWARF is not used because of these limits; may be NULL. */
	void (*on_debug_left_out)(void *ctx, const char *path);
	void *ctx;
};

int symbolizer_new(struct symbolizer **ret, struct profile *profile /* borrowed */,
		   const struct symbolize_options *options);
struct symbolizer *symbolizer_free(struct symbolizer *s);

/*
 * Debug files and perf maps are looked for in this process's root first from now on; its root is held
 * open. Call it when a process is first seen, and before the look-ups for its stacks; cheap to repeat.
 */
int symbolizer_use_process(struct symbolizer *s, pid_t pid);

/*
 * Interns the location of an ELF virtual address. return_address: look up address - 1; that is
 * the location's module_off, too.
 * runtime_pc is kept for output. 0, -ENOMEM, -ENOSPC.
 */
int symbolize_module(struct symbolizer *s, struct module *m, uint64_t vaddr, bool return_address,
		     uint32_t location_flags, uint64_t runtime_pc, uint32_t *ret_location);
/*
 * For look-ups that come later, perhaps when the process is gone: finds the module's debug file now,
 * and holds it open. The arguments are those of the first look-up.
 */
int symbolizer_note_module(struct symbolizer *s, struct module *m, uint64_t vaddr,
			   uint64_t runtime_pc);
/* All look-ups in this module are done: what they hold in memory goes. It is opened again if needed. */
void symbolizer_close_module(struct symbolizer *s, const struct module *m);
/*
 * The same for all modules: nothing new has been asked for a while. The kernel's table stays: stacks in it
 * differ for long, and to read it takes more time than memory.
 */
void symbolizer_rest(struct symbolizer *s);
/* A PC in no module: JIT perf map of the process (NSpid, its root; module "[jit:PID]"), else "[unknown]". */
int symbolize_anonymous(struct symbolizer *s, pid_t pid, uint64_t pc, bool return_address,
			uint32_t location_flags, uint32_t *ret_location);
/* A kernel address; "[kernel]" when kallsyms cannot be read. One location for each kernel function. */
int symbolize_kernel(struct symbolizer *s, uint64_t pc, uint32_t *ret_location);
/* Several of them, sorted, with what little memory that needs. ret_locations has room for n. */
int symbolize_kernel_all(struct symbolizer *s, const uint64_t *pcs, size_t n,
			 uint32_t *ret_locations);

#endif
