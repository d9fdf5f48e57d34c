/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/tickrings.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

static struct wire_tick_ring *ring_at(const struct tickrings *t, size_t i)
{
	return (struct wire_tick_ring *)((char *)t->first + i * t->stride);
}

static size_t map_bytes(const struct tickrings *t)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (t->stride * t->n + page - 1) / page * page;
}

int tickrings_map(struct tickrings *t, int map_fd, size_t n)
{
	struct tickrings rings = {.stride = sizeof(struct wire_tick_ring), .n = n};
	void *p = mmap(NULL, map_bytes(&rings), PROT_READ | PROT_WRITE, MAP_SHARED, map_fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	rings.first = p;
	*t = rings;
	return 0;
}

void tickrings_unmap(struct tickrings *t)
{
	if (t->first)
		munmap(t->first, map_bytes(t));
	*t = (struct tickrings){};
}

/* The oldest record that waits in a ring, NULL: none. */
static const struct wire_header *head(struct wire_tick_ring *r)
{
	if (r->taken == __atomic_load_n(&r->written, __ATOMIC_ACQUIRE))
		return NULL;
	return (const void *)(r->data + r->taken % WIRE_TICK_RING);
}

static struct wire_tick_ring *oldest(const struct tickrings *t, uint64_t before_ns)
{
	struct wire_tick_ring *found = NULL;

	for (size_t i = 0; i < t->n; i++) {
		struct wire_tick_ring *r = ring_at(t, i);
		const struct wire_header *h = head(r);

		if (!h || h->mono_ns >= before_ns)
			continue;
		before_ns = h->mono_ns;
		found = r;
	}
	return found;
}

/* The writer is our own; a size that is none would be an endless loop all the same. */
static bool is_sound(const struct wire_tick_ring *r, const struct wire_header *h)
{
	return h->size >= sizeof(*h) && h->size <= WIRE_TICK_RECORD &&
	       h->size <= __atomic_load_n(&r->written, __ATOMIC_ACQUIRE) - r->taken;
}

int tickrings_take(struct tickrings *t, uint64_t before_ns, tickrings_fn fn, void *ctx)
{
	struct wire_tick_ring *r;
	int n = 0;

	while ((r = oldest(t, before_ns))) {
		const struct wire_header *h = head(r);
		int e;

		if (!is_sound(r, h))
			return -EBADMSG;
		e = fn(ctx, h, h->size);
		__atomic_store_n(&r->taken, r->taken + h->size, __ATOMIC_RELEASE);
		if (e < 0)
			return e;
		n++;
	}
	return n;
}
