/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool.c: finished spans that wait until a backend has them.
 *
 * The list is ordered by id. An item is in memory, or in the file, or in both while it is out.
 */
#include "net/spool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "net/spoolfile.h"

enum { MEMORY_BYTES = 8 << 20, FILE_BYTES = 64 << 20 };

struct spool {
	struct spool_item *first, *last;
	struct spoolfile *file; /* NULL: none */
	size_t max_memory_bytes;
	uint64_t next_id;
	struct spool_status status;
	void (*dropped)(void *ctx, uint64_t owner);
	void *ctx;
};

static void append(struct spool *s, struct spool_item *i)
{
	i->prev = s->last;
	if (s->last)
		s->last->next = i;
	else
		s->first = i;
	s->last = i;
	s->status.n_items++;
}

static void forget_data(struct spool *s, struct spool_item *i)
{
	if (!i->data)
		return;
	s->status.memory_bytes -= i->bytes;
	free(i->data);
	i->data = NULL;
}

static void forget_disk(struct spool *s, struct spool_item *i)
{
	if (!i->off)
		return;
	if (spoolfile_erase(s->file, i->off))
		s->status.n_disk_errors++;
	s->status.disk_bytes -= spoolfile_room(s->file, i->bytes);
	i->off = 0;
}

static void remove_item(struct spool *s, struct spool_item *i)
{
	forget_data(s, i);
	forget_disk(s, i);
	if (i->prev)
		i->prev->next = i->next;
	else
		s->first = i->next;
	if (i->next)
		i->next->prev = i->prev;
	else
		s->last = i->prev;
	s->status.n_items--;
	free(i);
}

static void drop_item(struct spool *s, struct spool_item *i)
{
	uint64_t owner = i->owner;

	s->status.n_dropped++;
	remove_item(s, i);
	if (s->dropped)
		s->dropped(s->ctx, owner);
}

static bool overlaps(const struct spool *s, const struct spool_item *i, uint64_t off, uint64_t room)
{
	return i->off && i->off < off + room && off < i->off + spoolfile_room(s->file, i->bytes);
}

/* Drops the items on disk that lie where the next record goes; false when one of them is out. */
static bool clear_place(struct spool *s, size_t bytes)
{
	uint64_t room = spoolfile_room(s->file, bytes), off = spoolfile_place(s->file, bytes);

	for (struct spool_item *i = s->first, *next; i; i = next) {
		next = i->next;
		if (!overlaps(s, i, off, room))
			continue;
		if (i->out)
			return false;
		drop_item(s, i);
	}
	return true;
}

/* Moves an item's bytes to the file. False when there is no file, or it does not take it. */
static bool move_to_disk(struct spool *s, struct spool_item *i)
{
	uint64_t off;

	if (!s->file || !spoolfile_room(s->file, i->bytes))
		return false;
	if (!i->off) {
		if (!clear_place(s, i->bytes))
			return false;
		if (spoolfile_write(s->file, i->id, i->data, i->bytes, &off)) {
			s->status.n_disk_errors++;
			return false;
		}
		i->off = off;
		s->status.disk_bytes += spoolfile_room(s->file, i->bytes);
	}
	forget_data(s, i);
	return true;
}

static struct spool_item *oldest_in_memory(struct spool *s)
{
	struct spool_item *i = s->first;

	while (i && (i->out || !i->data))
		i = i->next;
	return i;
}

static bool make_room(struct spool *s, size_t bytes)
{
	if (bytes > s->max_memory_bytes)
		return false;
	while (s->status.memory_bytes > s->max_memory_bytes - bytes) {
		struct spool_item *oldest = oldest_in_memory(s);

		if (!oldest)
			return false;
		if (!move_to_disk(s, oldest))
			drop_item(s, oldest);
	}
	return true;
}

int spool_push(struct spool *s, uint64_t owner, void *take_data, size_t bytes)
{
	AUTO_FREE void *data = take_data;
	struct spool_item *i;

	if (!make_room(s, bytes)) {
		s->status.n_dropped++;
		return -ENOSPC;
	}
	i = calloc(1, sizeof(*i));
	if (!i) {
		s->status.n_dropped++;
		return -ENOMEM;
	}
	*i = (struct spool_item){.id = s->next_id++, .owner = owner, .bytes = bytes};
	i->data = TAKE_PTR(data);
	s->status.memory_bytes += bytes;
	append(s, i);
	return 0;
}

static bool load(struct spool *s, struct spool_item *i)
{
	const struct spoolfile_record record = {i->id, i->off, (uint32_t)i->bytes};

	if (i->data)
		return true;
	if (spoolfile_read(s->file, &record, &i->data))
		return false;
	s->status.memory_bytes += i->bytes;
	return true;
}

struct spool_item *spool_take(struct spool *s)
{
	for (struct spool_item *i = s->first, *next; i; i = next) {
		next = i->next;
		if (i->out)
			continue;
		if (load(s, i)) {
			i->out = true;
			return i;
		}
		s->status.n_damaged++;
		drop_item(s, i);
	}
	return NULL;
}

void spool_return(struct spool *s, struct spool_item *i)
{
	i->out = false;
	if (i->off)
		forget_data(s, i);
}

void spool_done(struct spool *s, struct spool_item *i)
{
	remove_item(s, i);
}

void spool_status(const struct spool *s, struct spool_status *ret)
{
	*ret = s->status;
}

/* What an earlier life left behind. */
static int recover(struct spool *s)
{
	struct spoolfile_scan scan;
	int r = spoolfile_scan(s->file, &scan);

	if (r)
		return r;
	s->status.n_damaged = scan.n_damaged;
	for (size_t j = 0; j < scan.records.n && !r; j++) {
		const struct spoolfile_record *record = &scan.records.at[j];
		struct spool_item *i;

		if (record->id < s->next_id)
			continue; /* a number twice: the file was changed by others */
		i = calloc(1, sizeof(*i));
		r = i ? 0 : -ENOMEM;
		if (r)
			break;
		*i = (struct spool_item){
			.id = record->id, .bytes = record->bytes, .off = record->off};
		append(s, i);
		s->next_id = record->id + 1;
		s->status.disk_bytes += spoolfile_room(s->file, record->bytes);
		s->status.n_recovered++;
	}
	vec_free(&scan.records);
	return r;
}

int spool_new(struct spool **ret, const struct spool_options *o, struct errmsg *e)
{
	struct spool *s = calloc(1, sizeof(*s));
	int r = 0;

	if (!s)
		return -ENOMEM;
	s->max_memory_bytes = o->max_memory_bytes ? o->max_memory_bytes : MEMORY_BYTES;
	s->dropped = o->dropped;
	s->ctx = o->ctx;
	s->next_id = 1;
	if (o->file)
		r = spoolfile_open(&s->file, o->file,
				   o->max_file_bytes ? o->max_file_bytes : FILE_BYTES, e);
	if (!r && s->file)
		r = recover(s);
	if (r) {
		spool_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

struct spool *spool_free(struct spool *s)
{
	if (!s)
		return NULL;
	s->dropped = NULL;
	for (struct spool_item *i = s->first; i; i = i->next)
		i->out = false;
	/* Oldest first: what does not fit is dropped as ever. */
	for (struct spool_item *i; s->file && (i = oldest_in_memory(s));)
		if (!move_to_disk(s, i))
			drop_item(s, i);
	for (struct spool_item *i = s->first, *next; i; i = next) {
		next = i->next;
		free(i->data);
		free(i);
	}
	spoolfile_close(s->file);
	free(s);
	return NULL;
}
