/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jitmaps.h: the perf maps of processes, each read when it is first needed, and again now and then when
 * an address is not in it. For src/code only.
 */
#ifndef SPANPROF_CODE_JITMAPS_H
#define SPANPROF_CODE_JITMAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "code/debugfile.h"

struct jitmaps;

struct jitmap {
	struct perfmap *map; /* owned */
	pid_t pid;
	uint32_t n_misses;
	uint32_t module_idx; /* the user's own; 0 at first */
};

/* search: borrowed; it tells the roots of processes. */
int jitmaps_new(struct jitmaps **ret, struct debugfile_search *search);
struct jitmaps *jitmaps_free(struct jitmaps *t);

/* Borrowed until the next call. 0 or -ENOMEM. */
int jitmaps_get(struct jitmaps *t, pid_t pid, struct jitmap **ret);
/*
 * The name of what is at pc, borrowed until the next call; NULL: unknown. *ret_full: the file is larger
 * than what is kept of it.
 */
const char *jitmaps_find(struct jitmaps *t, struct jitmap *m, uint64_t pc, bool *ret_full);

#endif
