/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena.h: zeroed memory for the many small parts of one message, freed all at once.
 */
#ifndef SPANPROF_EXPORT_ARENA_H
#define SPANPROF_EXPORT_ARENA_H

#include <stddef.h>

struct arena {
	struct arena_block *blocks; /* owned, newest first */
};

/* n zeroed elements of `bytes` each, aligned for any type; NULL: no memory. */
void *arena_alloc(struct arena *a, size_t n, size_t bytes);
/* n pointers to n zeroed elements: the form of a repeated message in protobuf-c. */
void *arena_rows(struct arena *a, size_t n, size_t bytes);
void arena_deinit(struct arena *a);

#endif
