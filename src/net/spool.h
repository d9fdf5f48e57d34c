/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool.h: finished spans that wait until a backend has them: bounded, in memory and then on disk.
 *
 * An item is one whole span as bytes. Items stay in order; when there is no room, the oldest in
 * memory goes to disk, and when there is none either, the oldest is dropped and counted. An item
 * that is out (being sent) stays where it is until it comes back or is done. What is done is gone
 * for good, also from the disk: after a restart only what nobody has confirmed is sent again.
 */
#ifndef SPANPROF_NET_SPOOL_H
#define SPANPROF_NET_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errmsg.h"

struct spool;

struct spool_options {
	size_t max_memory_bytes; /* 0: 8 MiB */
	const char *file;        /* NULL: no disk */
	uint64_t max_file_bytes; /* 0: 64 MiB */
	/* An item was dropped: not for want of a backend alone, but for want of room. May be NULL. */
	void (*dropped)(void *ctx, uint64_t owner);
	void *ctx;
};

/* Borrowed by whoever took it out. */
struct spool_item {
	uint64_t id;
	uint64_t owner; /* the caller's; 0 after a restart */
	void *data;     /* NULL while it is only on disk */
	size_t bytes;
	bool out;
	uint32_t tries;    /* the caller's, too */
	uint32_t progress; /* the caller's, 0 at first: survives a failed try, not a restart */
	uint64_t off;      /* in the file; 0: not there */
	struct spool_item *prev, *next;
};

struct spool_status {
	size_t n_items;
	size_t memory_bytes;
	uint64_t disk_bytes;
	uint64_t n_dropped;   /* for want of room */
	uint64_t n_damaged;   /* could not be read back from disk */
	uint64_t n_recovered; /* found on disk at the start */
	uint64_t n_disk_errors;
};

int spool_new(struct spool **ret, const struct spool_options *o, struct errmsg *e);
/* With a file: what is in memory is written to it as far as it fits. */
struct spool *spool_free(struct spool *s);

/*
 * Adds an item; take_data (malloc) is consumed always. 0, -ENOSPC when it had to be dropped itself
 * (counted, but dropped() is not called for it), or -ENOMEM.
 */
int spool_push(struct spool *s, uint64_t owner, void *take_data, size_t bytes);

/* The oldest item that is not out, with its bytes in memory; NULL when there is none. */
struct spool_item *spool_take(struct spool *s);
/* It could not be sent now. */
void spool_return(struct spool *s, struct spool_item *i);
/* It is where it belongs, or nobody wants it. */
void spool_done(struct spool *s, struct spool_item *i);

void spool_status(const struct spool *s, struct spool_status *ret);

#endif
