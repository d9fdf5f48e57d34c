/* SPDX-License-Identifier: Apache-2.0 */
/*
 * space.h: the address space of one process: which module is mapped where.
 *
 * A space is filled from /proc/PID/maps (live) or from a capture file's module list (replay). It
 * answers "which module and ELF address is this PC", and unwinds windows with the modules' rules.
 * Files are opened through the process (/proc/PID/map_files, then /proc/PID/root), so that deleted
 * or replaced binaries and other mount namespaces work.
 */
#ifndef SPANPROF_CODE_SPACE_H
#define SPANPROF_CODE_SPACE_H

#include "code/module.h"
#include "code/unwind.h"
#include "model/counters.h"

struct space;
struct space_cache; /* modules by (dev, inode), shared by all spaces; bounded PC -> rule cache */

#define SPACE_REFRESH_NS 200000000ULL

int space_cache_new(struct space_cache **ret);
struct space_cache *space_cache_free(struct space_cache *c);

enum space_kind {
	SPACE_FILE, /* mapped from a file */
	SPACE_VDSO,
	SPACE_ANONYMOUS,  /* executable memory of no file: JIT code */
	SPACE_TRAMPOLINE, /* "[uprobes]": where uretprobes make functions return to */
	SPACE_OTHER,      /* "[vsyscall]" */
};

/* One executable mapping. */
struct space_range {
	uint64_t start;
	uint64_t end;
	uint64_t file_off;
	uint64_t
		dev; /* as stat: st_dev encoding of major:minor in maps; 0 for vDSO and anonymous */
	uint64_t ino;
	uint8_t kind;          /* enum space_kind */
	bool unusable;         /* opening the module was tried and failed */
	const char *path;      /* borrowed; as in maps, without " (deleted)" */
	struct module *module; /* borrowed; NULL: not opened yet, or not usable */
	uint64_t bias;         /* run-time address - ELF virtual address; valid with a module */
};

/* pid 0: replay, ranges come from space_add_range. No ranges are read yet. */
int space_new(struct space **ret, struct space_cache *cache, pid_t pid);
struct space *space_free(struct space *s);

/* Reads /proc/PID/maps again. 0, -ESRCH when the process is gone (the old ranges stay), -ENOMEM. */
int space_refresh(struct space *s);

/* Changes whenever the ranges do: by a refresh that found something new, or by space_add_range. */
uint32_t space_generation(const struct space *s);

/* Replay: adds a range by hand; the module is referenced, may be NULL. */
int space_add_range(struct space *s, const struct space_range *r);

/* The range that holds pc, or NULL; does not refresh. The module is opened on first use. */
const struct space_range *space_find(struct space *s, uint64_t pc);
/* All ranges, ordered by start. */
size_t space_ranges(const struct space *s, const struct space_range **ret);

/* pc -> module and ELF virtual address; false when it is in no usable module. */
bool space_resolve(struct space *s, uint64_t pc, struct module **ret_module, uint64_t *ret_vaddr);

/*
 * pc -> file and offset in it, whether the file can be read or not; false when no file is mapped there.
 * The path lives as long as the cache; equal paths are the same text.
 */
bool space_locate(struct space *s, uint64_t pc, const char **ret_path, uint64_t *ret_file_off);

/*
 * Unwinds one window. When the walk meets trouble that a change of mappings would explain, the
 * ranges are refreshed (at most once per SPACE_REFRESH_NS of mono_ns) and the walk is repeated.
 * Never fails: trouble is in ret->stop. Counters get what happened.
 */
void space_unwind(struct space *s, const struct unwind_input *in, uint64_t mono_ns,
		  struct unwind_stack *ret, struct counters *counters);

#endif
