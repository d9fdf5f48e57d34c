/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spoolfile.c: records in a file of fixed largest size.
 */
#include "net/spoolfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/hash.h"

/* First block of the file. */
static const char file_magic[16] = "spanprof spool\n";

#define RECORD_MAGIC 0x314c4f4f50535053ULL /* "SPSPOOL1" */

enum { HASH_SEED = 0x5b0f };

struct record_head {
	uint64_t magic;
	uint64_t id;
	uint32_t bytes;
	uint32_t zero;
	uint64_t hash; /* of id, bytes and the data */
};
_Static_assert(sizeof(struct record_head) == 32, "record_head");

struct spoolfile {
	int fd;
	uint64_t max_bytes;
	uint64_t next_off;
};

static uint64_t record_hash(const struct record_head *h, const void *data)
{
	return hash_bytes(data, h->bytes, hash_mix(h->id ^ HASH_SEED) ^ h->bytes);
}

static int read_at(int fd, void *buf, size_t n, uint64_t off)
{
	ssize_t got;

	for (char *to = buf; n; to += got, n -= (size_t)got, off += (uint64_t)got) {
		got = pread(fd, to, n, (off_t)off);
		if (got < 0 && errno == EINTR)
			got = 0;
		else if (got <= 0)
			return got ? -errno : -ENODATA;
	}
	return 0;
}

static int write_at(int fd, const void *buf, size_t n, uint64_t off)
{
	ssize_t put;

	for (const char *from = buf; n; from += put, n -= (size_t)put, off += (uint64_t)put) {
		put = pwrite(fd, from, n, (off_t)off);
		if (put < 0 && errno == EINTR)
			put = 0;
		else if (put < 0)
			return -errno;
	}
	return 0;
}

/* An empty file becomes a spool. */
static int check_magic(int fd, const char *path, struct errmsg *e)
{
	char head[SPOOLFILE_BLOCK] = {};
	struct stat st;
	int r;

	if (fstat(fd, &st))
		return errmsg_set(e, -errno, "cannot look at the spool \"%s\": %s", path,
				  strerror(errno));
	if (!S_ISREG(st.st_mode))
		return errmsg_set(e, -EINVAL, "the spool \"%s\" is not a regular file", path);
	if (st.st_size == 0) {
		memcpy(head, file_magic, sizeof(file_magic));
		r = write_at(fd, head, sizeof(head), 0);
		return r ? errmsg_set(e, r, "cannot write to the spool \"%s\": %s", path,
				      strerror(-r))
			 : 0;
	}
	r = read_at(fd, head, sizeof(head), 0);
	if (r || memcmp(head, file_magic, sizeof(file_magic)) != 0)
		return errmsg_set(
			e, -EEXIST,
			"\"%s\" exists and is not a spool of spanprof; name another file or remove it",
			path);
	return 0;
}

int spoolfile_open(struct spoolfile **ret, const char *path, uint64_t max_bytes, struct errmsg *e)
{
	struct spoolfile *f;
	AUTO_CLOSE int fd = -1;
	int r;

	if (max_bytes < 4ULL * SPOOLFILE_BLOCK)
		return errmsg_set(e, -EINVAL, "the spool \"%s\" is too small: at least 2048 bytes",
				  path);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return errmsg_set(e, -errno, "cannot open the spool \"%s\": %s", path,
				  strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB))
		return errmsg_set(e, -EBUSY, "the spool \"%s\" is in use by another agent", path);
	r = check_magic(fd, path, e);
	if (r)
		return r;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->fd = TAKE_FD(fd);
	f->max_bytes = max_bytes / SPOOLFILE_BLOCK * SPOOLFILE_BLOCK;
	f->next_off = SPOOLFILE_BLOCK;
	*ret = f;
	return 0;
}

struct spoolfile *spoolfile_close(struct spoolfile *f)
{
	if (!f)
		return NULL;
	close(f->fd);
	free(f);
	return NULL;
}

uint64_t spoolfile_room(const struct spoolfile *f, size_t bytes)
{
	uint64_t room;

	if (bytes > SPOOLFILE_RECORD_MAX)
		return 0;
	room = (bytes + sizeof(struct record_head) + SPOOLFILE_BLOCK - 1) / SPOOLFILE_BLOCK *
	       SPOOLFILE_BLOCK;
	return room <= f->max_bytes - SPOOLFILE_BLOCK ? room : 0;
}

uint64_t spoolfile_place(const struct spoolfile *f, size_t bytes)
{
	return spoolfile_room(f, bytes) > f->max_bytes - f->next_off ? SPOOLFILE_BLOCK
								     : f->next_off;
}

int spoolfile_write(struct spoolfile *f, uint64_t id, const void *data, size_t bytes,
		    uint64_t *ret_off)
{
	struct record_head head = {.magic = RECORD_MAGIC, .id = id, .bytes = (uint32_t)bytes};
	uint64_t room = spoolfile_room(f, bytes), off;
	int r;

	if (!room)
		return -EFBIG;
	off = spoolfile_place(f, bytes);
	head.hash = record_hash(&head, data);
	/* Data first: a head is only ever followed by what it promises. */
	r = spoolfile_erase(f, off);
	if (!r)
		r = write_at(f->fd, data, bytes, off + sizeof(head));
	if (!r)
		r = write_at(f->fd, &head, sizeof(head), off);
	if (r)
		return r;
	f->next_off = off + room;
	*ret_off = off;
	return 0;
}

int spoolfile_read(struct spoolfile *f, const struct spoolfile_record *record, void **ret_data)
{
	AUTO_FREE void *data = malloc(record->bytes ? record->bytes : 1);
	struct record_head head;
	int r;

	if (!data)
		return -ENOMEM;
	r = read_at(f->fd, &head, sizeof(head), record->off);
	if (!r &&
	    (head.magic != RECORD_MAGIC || head.id != record->id || head.bytes != record->bytes))
		r = -EBADMSG;
	if (!r)
		r = read_at(f->fd, data, head.bytes, record->off + sizeof(head));
	if (!r && record_hash(&head, data) != head.hash)
		r = -EBADMSG;
	if (r)
		return r;
	*ret_data = TAKE_PTR(data);
	return 0;
}

int spoolfile_erase(struct spoolfile *f, uint64_t off)
{
	const struct record_head none = {};

	return write_at(f->fd, &none, sizeof(none), off);
}

static int compare_ids(const void *a, const void *b)
{
	const struct spoolfile_record *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

int spoolfile_scan(struct spoolfile *f, struct spoolfile_scan *ret)
{
	struct record_head head;
	uint64_t room;
	int r = 0;

	*ret = (struct spoolfile_scan){};
	for (uint64_t off = SPOOLFILE_BLOCK; !r && off < f->max_bytes; off += room) {
		struct spoolfile_record record = {.off = off};
		AUTO_FREE void *data = NULL;

		room = SPOOLFILE_BLOCK;
		if (read_at(f->fd, &head, sizeof(head), off))
			break; /* the end of the file */
		if (head.magic != RECORD_MAGIC)
			continue;
		record.id = head.id;
		record.bytes = head.bytes;
		if (!spoolfile_room(f, head.bytes) || spoolfile_read(f, &record, &data)) {
			ret->n_damaged++;
			continue;
		}
		room = spoolfile_room(f, head.bytes);
		r = vec_push(&ret->records, record);
	}
	if (r) {
		vec_free(&ret->records);
		return r;
	}
	if (ret->records.n) {
		const struct spoolfile_record *last;

		qsort(ret->records.at, ret->records.n, sizeof(*ret->records.at), compare_ids);
		last = &ret->records.at[ret->records.n - 1];
		f->next_off = last->off + spoolfile_room(f, last->bytes);
	}
	return 0;
}
