/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spaces.h: the address spaces of the profiled processes, by (process, address space id).
 *
 * A forked child starts with its parent's layout under the same address space id; its own maps are
 * read when it is first seen. A process that is gone before that is served by a relative's space.
 */
#ifndef SPANPROF_PIPE_SPACES_H
#define SPANPROF_PIPE_SPACES_H

#include <stdbool.h>
#include <stdint.h>

#include "code/space.h"

struct spaces;

/* live: maps of unknown processes are read from /proc. */
int spaces_new(struct spaces **ret, bool live);
struct spaces *spaces_free(struct spaces *s);

struct space_cache *spaces_cache(struct spaces *s);

/* take_space is consumed on success and replaces an older one. */
int spaces_set(struct spaces *s, uint32_t tgid, uint32_t as_id, struct space *take_space);
/* NULL: no space, and none could be read. */
struct space *spaces_get(struct spaces *s, uint32_t tgid, uint32_t as_id);
/* True once for each change of the ranges of the space of (tgid, as_id). */
bool spaces_changed(struct spaces *s, uint32_t tgid, uint32_t as_id);
/* Drops the spaces of a process, except one that may still serve forked relatives. */
void spaces_drop(struct spaces *s, uint32_t tgid);

#endif
