/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srcline.h: source file, line and inlined frames of an address, from DWARF. For src/code only.
 *
 * Reads the DWARF of the separate debug file or of the module itself. What was read stays in memory
 * until a limit, then all of it is dropped and read again as needed. DWARF is hostile: every walk has
 * a depth limit and a budget for all look-ups together, sections that unpack to too much are not opened.
 */
#ifndef SPANPROF_CODE_SRCLINE_H
#define SPANPROF_CODE_SRCLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "code/debugfile.h"
#include "code/module.h"

enum { SRCLINE_FRAMES_MAX = 32 };

struct srcline;
struct srcline_options {
	struct debugfile_search *search; /* for the dwz supplement; may be NULL */
	uint64_t max_bytes;              /* memory for what is unpacked and read; 0: wide limits */
	uint64_t max_steps; /* work on a file that is not root's (see dies.h); 0: a wide limit */
	uint64_t n_spent;   /* of that, before: by an srcline of the same file that was freed */
	uint64_t *
		n_cut; /* borrowed; counts units and functions that are read in part; may be NULL */
	bool (*shall_stop)(void *ctx); /* asked during long work: true wears it out; may be NULL */
	void *ctx;
};

struct srcline_frame {
	const char *name;    /* NULL: unknown */
	const char *linkage; /* mangled; NULL: none */
	const char *file;    /* NULL: unknown */
	uint32_t line;       /* 0: unknown */
	uint32_t start_line;
};

/*
 * debug may be NULL. All must outlive the result. 0, -ENOENT (no DWARF that can be used), -EFBIG (too
 * large to open), -ENOMEM.
 */
int srcline_new(struct srcline **ret, struct module *m, const struct debugfile *debug,
		const struct srcline_options *options);
struct srcline *srcline_free(struct srcline *s);
/* As max_bytes, from now on: others hold more or less than before. */
void srcline_limit(struct srcline *s, uint64_t max_bytes);
/* Memory that it holds, estimated: never much more than max_bytes. */
uint64_t srcline_bytes(const struct srcline *s);
/* What was spent so far. */
uint64_t srcline_steps(const struct srcline *s);
/* It was read anew too often for its limit, or took too much work, and is not read any more. */
bool srcline_is_worn_out(const struct srcline *s);

/*
 * Frames at an ELF virtual address, innermost inlined one first, at most SRCLINE_FRAMES_MAX (the
 * outermost is kept). The number of frames, 0 when DWARF has nothing; -ENOMEM. Texts are borrowed until
 * the next call and hold any byte but NUL.
 */
int srcline_find(struct srcline *s, uint64_t vaddr, struct srcline_frame *ret);

#endif
