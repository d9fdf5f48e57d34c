/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "pipe/tickrings.h"
#include "tests/unit/unit.h"

enum { RINGS = 3, TAKEN_MAX = 64, RECORD = sizeof(struct wire_snapshot) };

struct taken {
	uint64_t mono_ns[TAKEN_MAX];
	size_t n;
	size_t fail_at; /* the record at which the reader gives up; 0: none */
};

static struct tickrings rings_new(void)
{
	struct wire_tick_ring *first = calloc(RINGS, sizeof(*first));
	struct tickrings t;

	assert_non_null(first);
	assert_int_equal(tickrings_init(&t, first, RINGS), 0);
	return t;
}

static void rings_free(struct tickrings *t)
{
	free(t->first);
	tickrings_deinit(t);
}

/* As the tick does it. */
static void put(struct tickrings *t, size_t cpu, uint64_t mono_ns, uint32_t bytes)
{
	struct wire_tick_ring *r = &t->first[cpu];
	struct wire_header *h = (struct wire_header *)(r->data + r->written % WIRE_TICK_RING);

	assert_true(r->written - r->taken + bytes <= WIRE_TICK_RING);
	memset(h, 0x5a, bytes);
	h->size = bytes;
	h->mono_ns = mono_ns;
	r->written += bytes;
}

static int on_record(void *ctx, const void *record, size_t bytes)
{
	const struct wire_header *h = record;
	struct taken *taken = ctx;

	assert_true(taken->n < TAKEN_MAX);
	assert_int_equal(bytes, h->size);
	assert_int_equal(((const uint8_t *)record)[bytes - 1], 0x5a);
	taken->mono_ns[taken->n++] = h->mono_ns;
	return taken->fail_at && taken->n == taken->fail_at ? -5 : 0;
}

/* With nothing in the common ring. */
static int take(struct tickrings *t, uint64_t before_ns, struct taken *taken)
{
	tickrings_look(t, before_ns, 0);
	return tickrings_take_rest(t, 0, on_record, taken);
}

static void of_all_cpus_in_order_of_time(void **state)
{
	struct tickrings t = rings_new();
	struct taken taken = {};

	put(&t, 2, 10, RECORD);
	put(&t, 0, 20, RECORD + 8);
	put(&t, 2, 30, RECORD);
	put(&t, 1, 40, RECORD + 800);
	put(&t, 0, 50, RECORD);
	assert_int_equal(take(&t, UINT64_MAX, &taken), 5);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(taken.mono_ns[i], 10 * (i + 1));
	assert_int_equal(take(&t, UINT64_MAX, &taken), 0);
	rings_free(&t);
}

static void only_those_before_the_time(void **state)
{
	struct tickrings t = rings_new();
	struct taken taken = {};

	put(&t, 0, 10, RECORD);
	put(&t, 0, 20, RECORD);
	put(&t, 1, 20, RECORD);
	assert_int_equal(take(&t, 20, &taken), 1);
	assert_int_equal(take(&t, 21, &taken), 2);
	assert_int_equal(taken.n, 3);
	rings_free(&t);
}

/* Around the end of a ring: a record goes on behind it, in one piece. */
static void a_record_across_the_end_is_whole(void **state)
{
	struct tickrings t = rings_new();
	struct taken taken = {};

	const uint32_t bytes = WIRE_TICK_RECORD;
	for (uint64_t i = 1; i <= 4ULL * WIRE_TICK_RING / bytes; i++) {
		put(&t, 1, i, bytes);
		assert_int_equal(take(&t, UINT64_MAX, &taken), 1);
		assert_int_equal(taken.mono_ns[taken.n - 1], i);
	}
	assert_int_equal(t.first[1].taken, t.first[1].written);
	rings_free(&t);
}

static void a_failure_ends_it_and_loses_nothing_more(void **state)
{
	struct tickrings t = rings_new();
	struct taken taken = {.fail_at = 2};

	for (uint64_t i = 1; i <= 3; i++)
		put(&t, 0, i, RECORD);
	assert_int_equal(take(&t, UINT64_MAX, &taken), -5);
	assert_int_equal(take(&t, UINT64_MAX, &taken), 1);
	assert_int_equal(taken.mono_ns[2], 3);
	rings_free(&t);
}

/* A record that is reserved but not written yet holds up those behind it: what promotes the tick's span, too. */
static void not_before_what_led_to_them(void **state)
{
	struct tickrings t = rings_new();
	struct taken taken = {};

	put(&t, 1, 40, RECORD);
	tickrings_look(&t, 50, 1000);
	assert_int_equal(tickrings_take_rest(&t, 600, on_record, &taken), 0);
	assert_false(tickrings_is_behind(&t, 600));
	put(&t, 0, 60, RECORD);
	assert_int_equal(tickrings_take_rest(&t, 600, on_record, &taken), 0);
	assert_int_equal(tickrings_take_rest(&t, 1000, on_record, &taken), 1);
	assert_int_equal(taken.mono_ns[0], 40);
	assert_true(tickrings_is_behind(&t, 1000));
	tickrings_look(&t, 70, 1000);
	assert_int_equal(tickrings_take_rest(&t, 1000, on_record, &taken), 1);
	assert_int_equal(taken.mono_ns[1], 60);
	rings_free(&t);
}

/* The end of a span, which was reserved before the look, comes after its ticks; what was not seen waits. */
static void before_what_ends_their_span(void **state)
{
	struct tickrings t = rings_new();
	struct taken taken = {};

	put(&t, 1, 40, RECORD);
	tickrings_look(&t, 50, 1000);
	put(&t, 1, 45, RECORD);
	put(&t, 2, 30, RECORD);
	assert_int_equal(tickrings_take(&t, 48, on_record, &taken), 1);
	assert_int_equal(taken.mono_ns[0], 40);
	tickrings_look(&t, 60, 2000);
	assert_int_equal(tickrings_take(&t, 48, on_record, &taken), 2);
	assert_int_equal(taken.mono_ns[1], 30);
	assert_int_equal(taken.mono_ns[2], 45);
	rings_free(&t);
}

static void none_is_fine(void **state)
{
	struct tickrings t = {};

	assert_int_equal(tickrings_take(&t, UINT64_MAX, on_record, NULL), 0);
	tickrings_unmap(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_all_cpus_in_order_of_time),
		cmocka_unit_test(only_those_before_the_time),
		cmocka_unit_test(a_record_across_the_end_is_whole),
		cmocka_unit_test(a_failure_ends_it_and_loses_nothing_more),
		cmocka_unit_test(not_before_what_led_to_them),
		cmocka_unit_test(before_what_ends_their_span),
		cmocka_unit_test(none_is_fine),
	};

	return cmocka_run_group_tests_name("tickrings", tests, NULL, NULL);
}
