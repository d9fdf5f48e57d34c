/* SPDX-License-Identifier: Apache-2.0 */
/* Windows: what is left out of them, and how they are cut. */
#include <string.h>
#include <sys/mman.h>

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
		if (shot->snapshot->snap_kind != kind)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(untouched_pages_are_left_out_on_cpu),
		cmocka_unit_test(untouched_pages_are_left_out_off_cpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
