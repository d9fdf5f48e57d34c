/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tickrings.h: the reader of the rings that the ticks of each CPU write: struct wire_tick_ring.
 *
 * Records of one thread come through these rings and through the common one. Their order is that of their
 * times: a record's time is read before there is room for it, that of a span's promotion before the span
 * can have a snapshot, and that of its end when it cannot have one any more. So the caller takes the ticks
 * before a time, just read from the common ring, before it hands on the record with that time.
 * Invariant: each record is handed on once, those of a CPU in their order, of all in the order of time.
 */
#ifndef SPANPROF_PIPE_TICKRINGS_H
#define SPANPROF_PIPE_TICKRINGS_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/wire.h"

/* The memory of n rings, `stride` bytes apart; borrowed. All-zero: none. */
struct tickrings {
	struct wire_tick_ring *first;
	size_t stride;
	size_t n;
};

typedef int (*tickrings_fn)(void *ctx, const void *record, size_t bytes);

/* Maps the rings of a map with n entries; 0 or negative errno. */
int tickrings_map(struct tickrings *t, int map_fd, size_t n);
void tickrings_unmap(struct tickrings *t);

/*
 * Hands on all records with a time before before_ns. Their number, the first negative
 * result of fn, or -EBADMSG: a record has a size that it cannot have.
 */
int tickrings_take(struct tickrings *t, uint64_t before_ns, tickrings_fn fn, void *ctx);

#endif
