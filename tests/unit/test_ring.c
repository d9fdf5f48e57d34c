/* SPDX-License-Identifier: Apache-2.0 */
/* test_ring.c: records that small BPF programs put into a real ring, and ticks beside them. As root. */
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "bpf/wire.h"
#include "pipe/ring.h"
#include "tests/unit/unit.h"

enum { RING_BYTES = 65536, TAKEN_MAX = 32 };

struct world {
	int ring_fd;
	int tick_fd;
	struct wire_tick_ring *ticks; /* as the kernel's side writes them */
	struct ring *ring;
};

struct taken {
	uint64_t mono_ns[TAKEN_MAX];
	int n;
	int fail_at; /* the record at which the reader gives up; 0: none */
};

static int setup(void **state)
{
	static struct world w;
	LIBBPF_OPTS(bpf_map_create_opts, mapped, .map_flags = BPF_F_MMAPABLE);

	w.ring_fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "ring", 0, 0, RING_BYTES, NULL);
	if (w.ring_fd == -EPERM) {
		print_message("BPF maps are not permitted: run as root\n");
		return 0;
	}
	w.tick_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "ticks", 4, sizeof(*w.ticks), 1, &mapped);
	if (w.ring_fd < 0 || w.tick_fd < 0)
		return -1;
	w.ticks = mmap(NULL, sizeof(*w.ticks), PROT_READ | PROT_WRITE, MAP_SHARED, w.tick_fd, 0);
	*state = &w;
	return w.ticks == MAP_FAILED ? -1 : ring_new(&w.ring, w.ring_fd, w.tick_fd, 1);
}

static int teardown(void **state)
{
	struct world *w = *state;

	if (!w)
		return 0;
	w->ring = ring_free(w->ring);
	munmap(w->ticks, sizeof(*w->ticks));
	close(w->ring_fd);
	close(w->tick_fd);
	return 0;
}

static struct world *world(void **state)
{
	if (!*state)
		skip();
	return *state;
}

/* *(u64 *)(fp + off) = value */
#define STORE(off_, value)                                                                     \
	{.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .imm = (int32_t)(uint32_t)(value)},  \
		{.imm = (int32_t)((uint64_t)(value) >> 32)},                                   \
	{                                                                                      \
		.code = BPF_STX | BPF_MEM | BPF_DW, .dst_reg = 10, .src_reg = 1, .off = (off_) \
	}

/* A header alone, by a program that is run once. */
static void put(const struct world *w, uint64_t mono_ns)
{
	const struct bpf_insn insns[] = {
		STORE(-24, sizeof(struct wire_header)),
		STORE(-16, mono_ns),
		STORE(-8, 0ULL),
		{.code = BPF_LD | BPF_DW | BPF_IMM,
		 .dst_reg = 1,
		 .src_reg = BPF_PSEUDO_MAP_FD,
		 .imm = w->ring_fd},
		{},
		{.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 2, .src_reg = 10},
		{.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 2, .imm = -24},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 3, .imm = 24},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 4},
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_ringbuf_output},
		{.code = BPF_JMP | BPF_EXIT},
	};
	static const char packet[64];
	LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = packet, .data_size_in = sizeof(packet));
	AUTO_CLOSE int fd = bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, "put", "Apache-2.0", insns,
					  sizeof(insns) / sizeof(insns[0]), NULL);

	assert_true(fd >= 0);
	assert_int_equal(bpf_prog_test_run_opts(fd, &run), 0);
	assert_int_equal(run.retval, 0);
}

static void put_tick(struct world *w, uint64_t mono_ns)
{
	const struct wire_snapshot s = {.h = {.size = sizeof(s), .mono_ns = mono_ns}};
	uint64_t at = w->ticks->written;

	assert_true(at % WIRE_TICK_RING + sizeof(s) <= WIRE_TICK_RING);
	memcpy(w->ticks->data + at % WIRE_TICK_RING, &s, sizeof(s));
	w->ticks->written = at + sizeof(s);
}

static int on_record(void *ctx, const void *record, size_t bytes)
{
	const struct wire_header *h = record;
	struct taken *t = ctx;

	assert_true(t->n < TAKEN_MAX);
	assert_int_equal(bytes, h->size);
	t->mono_ns[t->n++] = h->mono_ns;
	return t->n == t->fail_at ? -EPIPE : 0;
}

static void assert_taken(struct world *w, const uint64_t *want, int n)
{
	struct taken t = {};

	assert_int_equal(ring_poll(w->ring, 0, on_record, &t), n);
	assert_int_equal(t.n, n);
	for (int i = 0; i < n; i++)
		assert_int_equal(t.mono_ns[i], want[i]);
}

static bool is_readable(const struct world *w)
{
	struct pollfd p = {.fd = ring_fd(w->ring), .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void records_wait_while_it_is_not_mapped(void **state)
{
	struct world *w = world(state);

	ring_unmap(w->ring);
	put(w, 1);
	put(w, 2);
	assert_taken(w, NULL, 0);
	assert_int_equal(ring_map(w->ring), 0);
	assert_int_equal(ring_map(w->ring), 0);
	assert_true(is_readable(w));
	assert_taken(w, (uint64_t[]){1, 2}, 2);
	assert_false(is_readable(w));
	assert_taken(w, NULL, 0);
	put(w, 3);
	ring_unmap(w->ring);
	ring_unmap(w->ring);
	assert_false(is_readable(w));
	assert_int_equal(ring_map(w->ring), 0);
	assert_taken(w, (uint64_t[]){3}, 1);
}

static void ticks_come_in_the_order_of_time(void **state)
{
	struct world *w = world(state);

	put_tick(w, 15);
	put_tick(w, 25);
	put_tick(w, 35);
	put(w, 10);
	put(w, 20);
	put(w, 30);
	assert_int_equal(ring_map(w->ring), 0);
	assert_taken(w, (uint64_t[]){10, 15, 20, 25, 30, 35}, 6);
	/* Ticks alone do not wake the reader, but are taken. */
	put_tick(w, 40);
	assert_false(is_readable(w));
	assert_taken(w, (uint64_t[]){40}, 1);
}

/* As of a ring that is filled as fast as it is read: the rest is for the next call. */
static void what_is_later_than_the_call_ends_it(void **state)
{
	struct world *w = world(state);

	assert_int_equal(ring_map(w->ring), 0);
	put(w, 50);
	put(w, UINT64_MAX / 2);
	put(w, 60);
	assert_taken(w, (uint64_t[]){50, UINT64_MAX / 2}, 2);
	assert_taken(w, (uint64_t[]){60}, 1);
}

static void a_failure_of_the_reader_ends_it(void **state)
{
	struct world *w = world(state);
	struct taken t = {.fail_at = 2};

	assert_int_equal(ring_map(w->ring), 0);
	for (uint64_t i = 70; i < 73; i++)
		put(w, i);
	assert_int_equal(ring_poll(w->ring, 0, on_record, &t), -EPIPE);
	assert_int_equal(t.n, 2);
	assert_taken(w, (uint64_t[]){72}, 1);
}

static void maps_that_are_none(void **state)
{
	struct world *w = world(state);
	struct ring *r = NULL;

	assert_int_equal(ring_new(&r, w->tick_fd, -1, 1), 0);
	assert_true(ring_map(r) < 0);
	assert_int_equal(ring_poll(r, 0, on_record, NULL), 0);
	assert_null(ring_free(r));
	assert_null(ring_free(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_wait_while_it_is_not_mapped),
		cmocka_unit_test(ticks_come_in_the_order_of_time),
		cmocka_unit_test(what_is_later_than_the_call_ends_it),
		cmocka_unit_test(a_failure_of_the_reader_ends_it),
		cmocka_unit_test(maps_that_are_none),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
