/* SPDX-License-Identifier: Apache-2.0 */
/* Windows: what is left out of them, and how they are cut. */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "rig.h"
#include "tests/unit/unit.h"

#define MS       1000000ULL
#define ENDPOINT __attribute__((noinline, noclone, no_sanitize("address")))

enum { HOLE_FRAME = 3 * WIRE_PAGE, PATTERN = 0x5a };

/* How a call with a hole in its frame waits, and where the hole was. */
struct hole {
	void (*wait)(uint64_t ns);
	uint64_t frame;
	uint64_t page;
	uint64_t since_ns; /* the monotonic clock when the page was gone */
};

static ENDPOINT long call_with_hole(void *arg)
{
	volatile uint8_t frame[HOLE_FRAME];
	struct hole *hole = arg;

	for (size_t i = 0; i < sizeof(frame); i++)
		frame[i] = PATTERN;
	hole->frame = (uintptr_t)frame;
	hole->page = (hole->frame + WIRE_PAGE) & ~(WIRE_PAGE - 1ULL);
	if (madvise((void *)(uintptr_t)hole->page, WIRE_PAGE, MADV_DONTNEED))
		return -1;
	hole->since_ns = clock_mono_ns();
	hole->wait(50 * MS);
	return 0;
}

static void check_hole(const struct event *shot, const struct hole *hole)
{
	const struct wire_snapshot *s = shot->snapshot;
	uint64_t start = s->regs.r[WIRE_REG_RSP] - WIRE_REDZONE;

	assert_int_equal(s->flags & (WIRE_SNAP_F_FAULT | WIRE_SNAP_F_TRUNCATED), 0);
	assert_int_equal(start + s->window_bytes, s->spans[0].entry_sp + 8);
	assert_int_equal(s->holes, 1U << (hole->page / WIRE_PAGE - start / WIRE_PAGE));
	assert_memory_equal(shot->window + s->window_bytes - 8, &s->spans[0].ret_addr, 8);
	for (uint64_t i = 0; i < HOLE_FRAME; i++) {
		uint64_t at = hole->frame + i;

		assert_int_equal(shot->window[at - start],
				 at - hole->page < WIRE_PAGE ? 0 : PATTERN);
	}
}

static void take_hole(struct hole *hole, enum wire_snapshot_kind kind)
{
	const struct event *shot = NULL;
	struct errmsg e = {};
	struct rig rig;

	rig_open(&rig, NULL);
	rig_gate(&rig, 0, MS, MS);
	rig_endpoint(&rig, 0, call_with_hole, NULL);
	assert_int_equal(kern_sampling(rig.kern, MS, &e), 0);
	assert_int_equal(rig_call(call_with_hole, hole), 0);
	rig_drain(&rig);
	for (size_t i = 0; !shot; i++) {
		shot = rig_event(&rig, WIRE_K_SNAPSHOT, i);
		assert_non_null(shot);
		if (shot->snapshot->snap_kind != kind || shot->h->mono_ns < hole->since_ns)
			shot = NULL;
	}
	check_hole(shot, hole);
	assert_int_equal(rig_counter(&rig, WIRE_C_WINDOW_FAULT), 0);
	rig_close(&rig);
}

static void untouched_pages_are_left_out_on_cpu(void **state)
{
	struct hole hole = {.wait = rig_spin};

	take_hole(&hole, WIRE_SNAP_ONCPU);
}

static void untouched_pages_are_left_out_off_cpu(void **state)
{
	struct hole hole = {.wait = rig_sleep};

	take_hole(&hole, WIRE_SNAP_OFFCPU);
}

static ENDPOINT long sleep_deep(void *arg)
{
	volatile uint8_t frame[10 * WIRE_PAGE];

	frame[0] = PATTERN;
	rig_sleep(5 * MS);
	return frame[0];
}

/* Flags of the last snapshot off the CPU. */
static uint16_t sleep_flags(struct rig *rig)
{
	uint16_t flags = 0;
	size_t n = 0;

	rig_call(sleep_deep, NULL);
	rig_drain(rig);
	for (size_t i = 0; i < rig_count(rig, WIRE_K_SNAPSHOT); i++) {
		const struct wire_snapshot *s = rig_event(rig, WIRE_K_SNAPSHOT, i)->snapshot;

		if (s->snap_kind != WIRE_SNAP_OFFCPU)
			continue;
		flags = s->flags;
		n++;
	}
	assert_true(n > 0);
	return flags;
}

/* From the first wait of its first deep call on. */
static void deep_threads_get_more_room(void **state)
{
	struct rig rig;

	rig_open(&rig, NULL);
	rig_gate(&rig, 0, MS, MS);
	rig_endpoint(&rig, 0, sleep_deep, NULL);
	for (int i = 0; i < 3; i++)
		assert_false(sleep_flags(&rig) & WIRE_SNAP_F_TRUNCATED);
	assert_int_equal(rig_counter(&rig, WIRE_C_WINDOW_TRUNCATED), 0);
	rig_close(&rig);
}

static void *first_call(void *arg)
{
	rig_call(sleep_deep, NULL);
	return NULL;
}

static void run_threads(size_t n, size_t n_at_once)
{
	pthread_t threads[32];

	assert_true(n_at_once <= 32);
	for (; n; n -= n_at_once) {
		for (size_t i = 0; i < n_at_once; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, first_call, NULL), 0);
		for (size_t i = 0; i < n_at_once; i++)
			pthread_join(threads[i], NULL);
	}
}

/* The room that a thread is lent for its first deep wait is there for the next one. */
static void room_is_lent_again(void **state)
{
	struct rig rig;

	rig_open(&rig, NULL);
	rig_gate(&rig, 0, MS, MS);
	rig_endpoint(&rig, 0, sleep_deep, NULL);
	run_threads(40, 8);
	rig_drain(&rig);
	assert_int_equal(rig_latency(&rig, 0).n_slow, 40);
	assert_int_equal(rig_counter(&rig, WIRE_C_WINDOW_TRUNCATED), 0);
	run_threads(32, 32);
	rig_drain(&rig);
	/* That is more than there is room for at a time; not always, on a busy machine. */
	assert_true(rig_counter(&rig, WIRE_C_WINDOW_TRUNCATED) <= 16);
	run_threads(32, 8);
	rig_close(&rig);
}

static void deep_threads_keep_to_the_limit(void **state)
{
	const struct kern_options options = {.max_window = 4 * WIRE_PAGE};
	struct rig rig;

	rig_open(&rig, &options);
	rig_gate(&rig, 0, MS, MS);
	rig_endpoint(&rig, 0, sleep_deep, NULL);
	for (int i = 0; i < 3; i++)
		assert_true(sleep_flags(&rig) & WIRE_SNAP_F_TRUNCATED);
	rig_close(&rig);
}

static ENDPOINT long begin(void *arg)
{
	return arg != NULL;
}

static ENDPOINT long begin_deep(void *arg)
{
	volatile uint8_t frame[2 * WIRE_PAGE];

	frame[0] = (uint8_t)begin(arg);
	return frame[0];
}

/* A call that an end function ends goes on when what called its begin function has returned. */
static ENDPOINT long begin_and_leave(void *arg)
{
	volatile uint8_t frame[WIRE_PAGE];

	for (size_t i = 0; i < sizeof(frame); i++)
		frame[i] = PATTERN;
	begin_deep(NULL);
	rig_spin(20 * MS);
	rig_sleep(20 * MS);
	*(uint64_t *)arg = (uintptr_t)frame;
	return frame[0];
}

static void left_frames_still_have_stacks(void **state)
{
	const struct wire_endpoint config = {.flags = WIRE_EP_F_END_PROBE};
	bool seen[WIRE_SNAP_OFFCPU + 1] = {false};
	const struct event *shot;
	struct errmsg e;
	struct rig rig;
	uint64_t frame = 0;

	rig_open(&rig, NULL);
	rig_gate(&rig, 0, MS, MS);
	rig_endpoint(&rig, 0, begin, &config);
	assert_int_equal(kern_sampling(rig.kern, MS, &e), 0);
	rig_call(begin_and_leave, &frame);
	assert_int_equal(kern_sampling(rig.kern, 0, &e), 0);
	rig_drain(&rig);
	for (size_t i = 0; (shot = rig_event(&rig, WIRE_K_SNAPSHOT, i)); i++) {
		const struct wire_snapshot *s = shot->snapshot;
		uint64_t start = s->regs.r[WIRE_REG_RSP] - WIRE_REDZONE;

		/* Of the function itself, not of what it called to begin and not of what came after it. */
		if (s->regs.r[WIRE_REG_RSP] <= s->spans[0].entry_sp + 8 ||
		    s->regs.r[WIRE_REG_RSP] > frame || s->snap_kind > WIRE_SNAP_OFFCPU)
			continue;
		assert_int_equal(s->flags & (WIRE_SNAP_F_FOREIGN | WIRE_SNAP_F_TRUNCATED), 0);
		assert_true(start + s->window_bytes >= frame + WIRE_PAGE);
		assert_int_equal(shot->window[frame + WIRE_PAGE - 1 - start], PATTERN);
		seen[s->snap_kind] = true;
	}
	assert_true(seen[WIRE_SNAP_ONCPU]);
	assert_true(seen[WIRE_SNAP_OFFCPU]);
	assert_int_equal(rig_counter(&rig, WIRE_C_FOREIGN_STACK), 0);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(untouched_pages_are_left_out_on_cpu),
		cmocka_unit_test(untouched_pages_are_left_out_off_cpu),
		cmocka_unit_test(deep_threads_get_more_room),
		cmocka_unit_test(room_is_lent_again),
		cmocka_unit_test(deep_threads_keep_to_the_limit),
		cmocka_unit_test(left_frames_still_have_stacks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
