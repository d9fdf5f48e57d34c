/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stacks.h: distinct stacks before symbolization.
 *
 * Snapshots arrive much faster than symbols can be looked up, so a stack is first kept as a run of
 * (module, address) locations and gets symbols only when its span is finished. Holds a reference on
 * every module it names. Bounded: beyond the limits new stacks become "none" and are counted.
 */
#ifndef SPANPROF_PIPE_STACKS_H
#define SPANPROF_PIPE_STACKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "code/module.h"
#include "code/symbolize.h"
#include "model/profile.h"

struct stacks;

enum raw_kind {
	RAW_MODULE,
	RAW_ANONYMOUS,
	RAW_KERNEL,
	RAW_SYNTHETIC,
	RAW_FILE, /* of a file that cannot be read: no name but "file+0x1234" */
};

struct raw_location {
	uint8_t kind;           /* enum raw_kind */
	uint8_t return_address; /* the look-up is for address - 1 */
	uint16_t flags;         /* enum profile_location_flag */
	uint32_t pid;           /* RAW_ANONYMOUS: whose perf map */
	struct module *module;  /* RAW_MODULE: borrowed from the caller, referenced inside */
	uint64_t address;       /* RAW_MODULE: ELF virtual address; RAW_FILE: offset; else the PC */
	const char *text;       /* RAW_SYNTHETIC: a string constant; RAW_FILE: path, interned */
	uint64_t pc;            /* run-time address; not part of the identity */
};

/* live: names that are not in the mapped files may be looked up on this system. */
int stacks_new(struct stacks **ret, bool live);
struct stacks *stacks_free(struct stacks *s);

/* 0, -ENOMEM, -ENOSPC. Index 0 is the empty stack. */
int stacks_add_location(struct stacks *s, const struct raw_location *l, uint32_t *ret_idx);
int stacks_add(struct stacks *s, const uint32_t *locations, size_t n, enum stack_stop stop,
	       uint32_t *ret_idx);

/*
 * A name that cannot be looked up later or elsewhere: of a kernel address, or of code without a
 * file. Texts are borrowed.
 */
struct stacks_name {
	uint8_t kind; /* RAW_ANONYMOUS, RAW_KERNEL */
	uint32_t pid;
	uint64_t address;
	uint32_t frame_flags; /* enum profile_frame_flag */
	const char *module;
	const char *function;
	const char *system_name;
};

/* Replay: stacks_resolve uses this name instead of looking it up. The texts are interned. */
int stacks_add_name(struct stacks *s, struct profile *profile, const struct stacks_name *name);
/* Record: looks up the names of all such locations and hands them out. */
int stacks_each_name(struct stacks *s, struct symbolizer *symbolizer, struct profile *profile,
		     int (*fn)(void *ctx, const struct stacks_name *name), void *ctx);

/*
 * A stack of `text`, a string constant, in the frames that two complete ones share: the same calls from the
 * endpoint's function on. Of either the innermost function of the program is left out, since it may
 * have returned meanwhile, and so are the kernel's. 0, -ENOMEM, -ENOSPC; -ENOENT: they share no more than the
 * endpoint's function.
 */
int stacks_add_shared(struct stacks *s, uint32_t a, uint32_t b, const char *text,
		      uint32_t *ret_idx);

enum stack_stop stacks_stop(const struct stacks *s, uint32_t stack);

/* No location of it will have to be looked up. */
bool stacks_is_resolved(const struct stacks *s, uint32_t stack);
/*
 * The stack in the profile's tables, without the endpoint's own location where its caller has it already; symbolizes locations not seen before. 0 or negative errno.
 */
int stacks_resolve(struct stacks *s, uint32_t stack, struct symbolizer *symbolizer,
		   struct profile *profile, uint32_t *ret_profile_stack);

/*
 * For a stack that is resolved later: looks up at once what needs the process (JIT names, debug files
 * in its mount namespace). stacks_resolve_noted then looks up the rest of all those stacks, one module
 * after another, so that the symbols of one at a time are in memory.
 */
int stacks_note(struct stacks *s, uint32_t stack, struct symbolizer *symbolizer,
		struct profile *profile);
int stacks_resolve_noted(struct stacks *s, struct symbolizer *symbolizer, struct profile *profile);

#endif
