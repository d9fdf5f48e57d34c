/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/ring.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "pipe/tickrings.h"

struct ring {
	int ring_map_fd;
	int tick_map_fd;
	size_t n_tick_rings;
	int epoll_fd;
	struct ring_buffer *common; /* NULL: not mapped now */
	const char *positions;      /* two pages of it: up to where it is read, and reserved */
	struct tickrings ticks;     /* mapped with it */
	ring_fn fn;                 /* during ring_poll */
	void *ctx;
	int n_records;     /* handed on during ring_poll */
	uint64_t until_ns; /* ring_poll ends with the first record that is later */
	bool is_enough;    /* it has */
};

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* linux/kernel/bpf/ringbuf.c: unsigned long at the beginning of a page each. */
static uint64_t consumed_pos(const struct ring *r)
{
	return __atomic_load_n((const unsigned long *)r->positions, __ATOMIC_ACQUIRE);
}

static uint64_t produced_pos(const struct ring *r)
{
	return __atomic_load_n((const unsigned long *)(r->positions + page_bytes()),
			       __ATOMIC_ACQUIRE);
}

int ring_new(struct ring **ret, int ring_map_fd, int tick_map_fd, size_t n_tick_rings)
{
	struct ring *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->ring_map_fd = ring_map_fd;
	r->tick_map_fd = tick_map_fd;
	r->n_tick_rings = n_tick_rings;
	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (r->epoll_fd < 0) {
		int e = -errno;

		ring_free(r);
		return e;
	}
	*ret = r;
	return 0;
}

struct ring *ring_free(struct ring *r)
{
	if (!r)
		return NULL;
	ring_unmap(r);
	if (r->epoll_fd >= 0)
		close(r->epoll_fd);
	free(r);
	return NULL;
}

static int count_ticks(struct ring *r, int n)
{
	if (n < 0)
		return n;
	r->n_records += n;
	return 0;
}

static void look(struct ring *r)
{
	uint64_t mono_ns = clock_mono_ns(); /* before the position is read */

	tickrings_look(&r->ticks, mono_ns, produced_pos(r));
}

/* The position is that of this record until we return. */
static int on_record(void *ctx, void *data, size_t bytes)
{
	const struct wire_header *h = data;
	struct ring *r = ctx;
	int e;

	if (tickrings_is_behind(&r->ticks, consumed_pos(r)))
		look(r);
	e = count_ticks(r, tickrings_take(&r->ticks, h->mono_ns, r->fn, r->ctx));
	e = e ? e : r->fn(r->ctx, data, bytes);
	r->n_records++;
	if (e || h->mono_ns <= r->until_ns)
		return e;
	r->is_enough = true;
	return -ECANCELED;
}

static int map_positions(struct ring *r)
{
	void *p = mmap(NULL, 2 * page_bytes(), PROT_READ, MAP_SHARED, r->ring_map_fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	r->positions = p;
	return 0;
}

int ring_map(struct ring *r)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int e;

	if (r->common)
		return 0;
	e = tickrings_map(&r->ticks, r->tick_map_fd, r->n_tick_rings);
	if (!e)
		e = map_positions(r);
	if (!e) {
		r->common = ring_buffer__new(r->ring_map_fd, on_record, r, NULL);
		if (!r->common ||
		    epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, ring_buffer__epoll_fd(r->common), &ev))
			e = -errno;
	}
	if (e)
		ring_unmap(r);
	return e;
}

void ring_unmap(struct ring *r)
{
	ring_buffer__free(r->common); /* closes what the epoll set holds */
	r->common = NULL;
	if (r->positions)
		munmap((void *)r->positions, 2 * page_bytes());
	r->positions = NULL;
	tickrings_unmap(&r->ticks);
}

int ring_fd(const struct ring *r)
{
	return r->epoll_fd;
}

int ring_poll(struct ring *r, int timeout_ms, ring_fn fn, void *ctx)
{
	int e;

	if (!r->common)
		return 0;
	r->n_records = 0;
	r->until_ns = clock_mono_ns() + (uint64_t)timeout_ms * 1000000;
	r->is_enough = false;
	r->fn = fn;
	r->ctx = ctx;
	e = ring_buffer__poll(r->common, timeout_ms);
	if (e >= 0 || e == -EINTR) {
		if (tickrings_is_behind(&r->ticks, consumed_pos(r)))
			look(r);
		e = ring_buffer__consume(r->common);
	}
	if (e >= 0)
		e = count_ticks(r, tickrings_take_rest(&r->ticks, consumed_pos(r), fn, ctx));
	return e < 0 && !r->is_enough ? e : r->n_records;
}
