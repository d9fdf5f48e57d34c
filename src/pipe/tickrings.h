/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tickrings.h: the reader of the rings that the ticks of each CPU write: struct wire_tick_ring.
 *
 * Records of one thread come through these rings and through the common one. Their order is that of their
 * times: a record's time is read before there is room for it, that of a span's promotion before the span
 * can have a snapshot, and that of its end when it cannot have one any more.
 *
 * The rings are looked at now and then, and only what was there at the last look is handed on. The caller
 * reads the clock and then the position up to which the common ring is reserved, and looks. So:
 * - what a record before that position comes after has been seen: before the caller hands that record on,
 *   it takes the ticks before its time. Before any other record it looks again;
 * - what led to a tick before the time of the look is before that position: when all up to there has been
 *   handed on, and not while a record that is not written yet holds up the others, the ticks are, too.
 * Invariant: each record is handed on once, those of a CPU in their order, of all in the order of time.
 */
#ifndef SPANPROF_PIPE_TICKRINGS_H
#define SPANPROF_PIPE_TICKRINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/wire.h"

/* What was seen of a ring. */
struct tickring_seen {
	uint64_t end;     /* `written` at the last look */
	uint64_t mono_ns; /* of the oldest record up to there; UINT64_MAX: none */
};

/* All-zero: no rings. */
struct tickrings {
	struct wire_tick_ring *first; /* n of them, one behind the other; borrowed */
	struct tickring_seen *seen;   /* of each; owned */
	size_t n;
	size_t oldest;      /* index of the least seen[].mono_ns */
	uint64_t oldest_ns; /* that */
	uint64_t look_pos;  /* of the common ring, at the last look */
	uint64_t look_ns;
};

typedef int (*tickrings_fn)(void *ctx, const void *record, size_t bytes);

/* 0 or -ENOMEM. */
int tickrings_init(struct tickrings *t, struct wire_tick_ring *first, size_t n);
void tickrings_deinit(struct tickrings *t);

/* The same with the rings of a map with n entries, which are mapped; 0 or negative errno. */
int tickrings_map(struct tickrings *t, int map_fd, size_t n);
void tickrings_unmap(struct tickrings *t);

/* All records of the common ring before the last look's position have been handed on: look again. */
bool tickrings_is_behind(const struct tickrings *t, uint64_t consumed_pos);
/* mono_ns was read before produced_pos, and both just now. */
void tickrings_look(struct tickrings *t, uint64_t mono_ns, uint64_t produced_pos);

/*
 * Hands on what was seen: all with a time before before_ns; or, when the common ring has been handed on up
 * to the look's position, all before the look. Their number, the first negative result of fn, or -EBADMSG:
 * a record has a size that it cannot have.
 */
int tickrings_take(struct tickrings *t, uint64_t before_ns, tickrings_fn fn, void *ctx);
int tickrings_take_rest(struct tickrings *t, uint64_t consumed_pos, tickrings_fn fn, void *ctx);

#endif
