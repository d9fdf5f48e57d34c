/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/tickrings.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t map_bytes(size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (sizeof(struct wire_tick_ring) * n + page - 1) / page * page;
}

int tickrings_init(struct tickrings *t, struct wire_tick_ring *first, size_t n)
{
	struct tickring_seen *seen = calloc(n ? n : 1, sizeof(*seen));

	if (!seen)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		seen[i].mono_ns = UINT64_MAX;
	*t = (struct tickrings){.first = first, .seen = seen, .n = n, .oldest_ns = UINT64_MAX};
	return 0;
}

void tickrings_deinit(struct tickrings *t)
{
	free(t->seen);
	*t = (struct tickrings){};
}

int tickrings_map(struct tickrings *t, int map_fd, size_t n)
{
	void *p = mmap(NULL, map_bytes(n), PROT_READ | PROT_WRITE, MAP_SHARED, map_fd, 0);
	int r;

	if (p == MAP_FAILED)
		return -errno;
	r = tickrings_init(t, p, n);
	if (r)
		munmap(p, map_bytes(n));
	return r;
}

void tickrings_unmap(struct tickrings *t)
{
	if (t->first)
		munmap(t->first, map_bytes(t->n));
	tickrings_deinit(t);
}

static const struct wire_header *head(const struct wire_tick_ring *r)
{
	return (const void *)(r->data + r->taken % WIRE_TICK_RING);
}

static void note_head(struct tickrings *t, size_t i)
{
	const struct wire_tick_ring *r = &t->first[i];

	t->seen[i].mono_ns = r->taken == t->seen[i].end ? UINT64_MAX : head(r)->mono_ns;
}

static void note_oldest(struct tickrings *t)
{
	t->oldest_ns = UINT64_MAX;
	for (size_t i = 0; i < t->n; i++) {
		if (t->seen[i].mono_ns >= t->oldest_ns)
			continue;
		t->oldest_ns = t->seen[i].mono_ns;
		t->oldest = i;
	}
}

bool tickrings_is_behind(const struct tickrings *t, uint64_t consumed_pos)
{
	return consumed_pos >= t->look_pos;
}

void tickrings_look(struct tickrings *t, uint64_t mono_ns, uint64_t produced_pos)
{
	t->look_ns = mono_ns;
	t->look_pos = produced_pos;
	for (size_t i = 0; i < t->n; i++) {
		t->seen[i].end = __atomic_load_n(&t->first[i].written, __ATOMIC_ACQUIRE);
		note_head(t, i);
	}
	note_oldest(t);
}

/* The writer is our own; a size that is none would be an endless loop all the same. */
static bool is_sound(const struct wire_header *h, uint64_t bytes_seen)
{
	return h->size >= sizeof(*h) && h->size <= WIRE_TICK_RECORD && h->size <= bytes_seen;
}

int tickrings_take(struct tickrings *t, uint64_t before_ns, tickrings_fn fn, void *ctx)
{
	int n = 0;

	while (t->n && t->oldest_ns < before_ns) {
		size_t i = t->oldest;
		struct wire_tick_ring *r = &t->first[i];
		const struct wire_header *h = head(r);
		int e;

		if (!is_sound(h, t->seen[i].end - r->taken))
			return -EBADMSG;
		e = fn(ctx, h, h->size);
		__atomic_store_n(&r->taken, r->taken + h->size, __ATOMIC_RELEASE);
		note_head(t, i);
		note_oldest(t);
		if (e < 0)
			return e;
		n++;
	}
	return n;
}

int tickrings_take_rest(struct tickrings *t, uint64_t consumed_pos, tickrings_fn fn, void *ctx)
{
	return tickrings_is_behind(t, consumed_pos) ? tickrings_take(t, t->look_ns, fn, ctx) : 0;
}
