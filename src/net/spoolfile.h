/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spoolfile.h: a file of fixed largest size that keeps records over a restart.
 *
 * Records lie one after the other, from the front again when the end is reached; each starts at a
 * multiple of SPOOLFILE_BLOCK with a head that holds its number, size and checksum. The file knows
 * nothing of which records are still wanted: the caller says where the next one may go, and erases
 * what is done. Nothing is synced: after a crash of the machine, records that did not reach the disk
 * fail their checksum and are left out.
 */
#ifndef SPANPROF_NET_SPOOLFILE_H
#define SPANPROF_NET_SPOOLFILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/errmsg.h"
#include "base/vec.h"

enum { SPOOLFILE_BLOCK = 512, SPOOLFILE_RECORD_MAX = 64 << 20 };

struct spoolfile;

struct spoolfile_record {
	uint64_t id;
	uint64_t off;
	uint32_t bytes; /* of data */
};

/*
 * Opens or makes the file, mode 0600, and locks it: two daemons cannot share one. A file that is not
 * a spool is left alone: -EEXIST.
 */
int spoolfile_open(struct spoolfile **ret, const char *path, uint64_t max_bytes, struct errmsg *e);
struct spoolfile *spoolfile_close(struct spoolfile *f);

/* All intact records, oldest id first. */
struct spoolfile_scan {
	VEC(struct spoolfile_record) records;
	size_t n_damaged; /* heads whose data does not match */
};
int spoolfile_scan(struct spoolfile *f, struct spoolfile_scan *ret);

/* Bytes of the file that a record takes; 0: it can never fit. */
uint64_t spoolfile_room(const struct spoolfile *f, size_t bytes);
/* Where the next record of this size goes: [*ret_off, *ret_off + room). */
uint64_t spoolfile_place(const struct spoolfile *f, size_t bytes);

/* Writes at spoolfile_place(); records that lay there are gone. 0 or a negative errno. */
int spoolfile_write(struct spoolfile *f, uint64_t id, const void *data, size_t bytes,
		    uint64_t *ret_off);
/* 0, -EBADMSG when it is not what was written, or the errno of the read. Owned by the caller. */
int spoolfile_read(struct spoolfile *f, const struct spoolfile_record *r, void **ret_data);
int spoolfile_erase(struct spoolfile *f, uint64_t off);

#endif
