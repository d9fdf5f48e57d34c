/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.h: the records of the BPF programs, of the common ring and of the ticks' rings, in their order.
 *
 * Knows how the two kinds of rings are mapped, waited for and read; nothing of what is in a record but its
 * time. A ring may be unmapped while nobody reads it: records wait in it meanwhile.
 */
#ifndef SPANPROF_PIPE_RING_H
#define SPANPROF_PIPE_RING_H

#include <stddef.h>
#include <stdint.h>

struct ring;

/* A record, valid during the call; a negative return ends the poll with that error. */
typedef int (*ring_fn)(void *ctx, const void *record, size_t bytes);

/* The maps are borrowed and outlive the ring, which is not mapped yet. 0 or negative errno. */
int ring_new(struct ring **ret, int ring_map_fd, int tick_map_fd, size_t n_tick_rings);
struct ring *ring_free(struct ring *r);

/* Each is harmless when it has been done. */
int ring_map(struct ring *r);
void ring_unmap(struct ring *r);

/* For epoll, mapped or not; readable when urgent records are there. */
int ring_fd(const struct ring *r);
/*
 * Waits at most timeout_ms and hands on all there is; what comes meanwhile is left for the next call, as it may
 * come as fast as it is taken. The number of records, or negative errno.
 */
int ring_poll(struct ring *r, int timeout_ms, ring_fn fn, void *ctx);

#endif
