/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that somebody else's uretprobe waits for: their return addresses in windows and in spans. */
#include <setjmp.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "rig.h"
#include "tests/unit/unit.h"

#define MS       1000000ULL
#define ENDPOINT __attribute__((noinline, noclone, no_sanitize("address")))
#define KEEP     __asm__ volatile("" ::: "memory")

enum { DEPTH = 3, FUNCTION_MAX = 256, PATTERN = 0x5a };

/* Calls of `inner` in one another, and where the return address of each was. */
struct pending {
	void (*wait)(uint64_t ns);
	unsigned int depth; /* now */
	uint64_t slots[DEPTH];
	uint64_t found[DEPTH]; /* what was there */
	uint64_t since_ns;     /* all are under way, by the monotonic clock */
	uint64_t until_ns;
	jmp_buf back;
};

static ENDPOINT long inner(struct pending *p)
{
	unsigned int i = p->depth++;
	long ret = 0;

	p->slots[i] = (uintptr_t)__builtin_frame_address(0) + 8;
	memcpy(&p->found[i], (void *)(uintptr_t)p->slots[i], 8);
	if (p->depth < DEPTH) {
		ret = inner(p);
	} else {
		p->since_ns = clock_mono_ns();
		p->wait(50 * MS);
		p->until_ns = clock_mono_ns();
	}
	KEEP;
	return ret + 1;
}

static ENDPOINT long outer(void *arg)
{
	long ret = inner(arg);

	KEEP;
	return ret;
}

/* Two spans: the tick does not go its short way. */
static ENDPOINT long around(void *arg)
{
	long ret = rig_call(outer, arg);

	KEEP;
	return ret;
}

static uint64_t word_at(const struct event *shot, uint64_t at)
{
	uint64_t off = at - (shot->snapshot->regs.r[WIRE_REG_RSP] - WIRE_REDZONE), ret;

	assert_true(off + 8 <= shot->snapshot->window_bytes);
	memcpy(&ret, shot->window + off, 8);
	return ret;
}

static bool is_within(const struct event *shot, const struct pending *p)
{
	return shot->h->mono_ns >= p->since_ns && shot->h->mono_ns <= p->until_ns;
}

static void check_snapshots(const struct rig *rig, enum wire_snapshot_kind kind,
			    const struct pending *p)
{
	const struct event *shot;
	size_t n = 0;

	for (size_t i = 0; (shot = rig_event(rig, WIRE_K_SNAPSHOT, i)); i++) {
		if (shot->snapshot->snap_kind != kind || !is_within(shot, p))
			continue;
		for (int j = 0; j < DEPTH; j++) {
			uint64_t function = (uintptr_t)(j ? (void *)inner : (void *)outer);

			assert_true(word_at(shot, p->slots[j]) - function < FUNCTION_MAX);
		}
		n++;
	}
	assert_true(n > 0);
}

static void take(long (*fn)(void *arg), enum wire_snapshot_kind kind)
{
	struct pending p = {.wait = kind == WIRE_SNAP_OFFCPU ? rig_sleep : rig_spin};
	struct errmsg e = {};
	struct rig rig;
	int probe;

	rig_open(&rig, NULL);
	rig_gate(&rig, 0, MS, MS);
	rig_gate(&rig, 1, MS, MS);
	rig_endpoint(&rig, 0, outer, NULL);
	if (fn != outer)
		rig_endpoint(&rig, 1, fn, NULL);
	probe = rig_uretprobe(&rig, (const void *)(uintptr_t)inner);
	assert_int_equal(kern_sampling(rig.kern, MS, &e), 0);
	assert_int_equal(rig_call(fn, &p), DEPTH);
	close(probe);
	rig_drain(&rig);
	for (int i = 0; i < DEPTH; i++)
		assert_int_equal(p.found[i], p.found[0]);
	assert_true(p.found[0] - (uintptr_t)outer >= FUNCTION_MAX);
	check_snapshots(&rig, kind, &p);
	rig_close(&rig);
}

static void true_ones_are_in_windows_on_cpu(void **state)
{
	take(outer, WIRE_SNAP_ONCPU);
}

static void true_ones_are_in_windows_of_two_spans(void **state)
{
	take(around, WIRE_SNAP_ONCPU);
}

static void true_ones_are_in_windows_off_cpu(void **state)
{
	take(outer, WIRE_SNAP_OFFCPU);
}

static ENDPOINT void jump(struct pending *p)
{
	p->slots[0] = (uintptr_t)__builtin_frame_address(0) + 8;
	longjmp(p->back, 1);
}

static ENDPOINT long jump_from_below(struct pending *p)
{
	volatile uint8_t frame[WIRE_PAGE / 2];

	frame[0] = PATTERN;
	jump(p);
	return frame[0];
}

/* What was the slot of a call that was left is data of another one. */
static ENDPOINT long reuse(struct pending *p)
{
	volatile uint8_t frame[WIRE_PAGE];

	for (size_t i = 0; i < sizeof(frame); i++)
		frame[i] = PATTERN;
	p->since_ns = clock_mono_ns();
	rig_spin(50 * MS);
	p->until_ns = clock_mono_ns();
	return frame[0];
}

static ENDPOINT long outer_of_jump(void *arg)
{
	struct pending *p = arg;
	long ret;

	if (!setjmp(p->back))
		jump_from_below(p);
	ret = reuse(p);
	KEEP;
	return ret;
}

static void places_of_calls_that_were_left_are_as_they_are(void **state)
{
	struct pending p = {.depth = 0};
	const struct event *shot;
	struct errmsg e = {};
	struct rig rig;
	size_t n = 0;
	int probe;

	rig_open(&rig, NULL);
	rig_gate(&rig, 0, MS, MS);
	rig_endpoint(&rig, 0, outer_of_jump, NULL);
	probe = rig_uretprobe(&rig, (const void *)(uintptr_t)jump);
	assert_int_equal(kern_sampling(rig.kern, MS, &e), 0);
	assert_int_equal(rig_call(outer_of_jump, &p), PATTERN);
	close(probe);
	rig_drain(&rig);
	for (size_t i = 0; (shot = rig_event(&rig, WIRE_K_SNAPSHOT, i)); i++) {
		if (!is_within(shot, &p))
			continue;
		assert_int_equal(word_at(shot, p.slots[0]), 0x5a5a5a5a5a5a5a5a);
		n++;
	}
	assert_true(n > 0);
	rig_close(&rig);
}

/* Begins as functions do that have endbr64, which others probe and spanprof passes over. */
long late(void *arg);
extern const char late_site[];
/* clang-format off */
__asm__(
	".text\n"
	".globl late, late_site\n"
	".type late, @function\n"
	"late:\n"
	"	nop\n"
	"late_site:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	call *%rdi\n"
	"	pop %rbp\n"
	"	ret\n"
	".size late, . - late\n");
/* clang-format on */

static long nap(void)
{
	rig_sleep(5 * MS);
	return 1;
}

static void spans_have_the_true_one(void **state)
{
	const struct event *promoted;
	struct rig rig;
	int probe;

	rig_open(&rig, NULL);
	rig_gate(&rig, 0, MS, MS);
	rig_endpoint(&rig, 0, (long (*)(void *))(uintptr_t)late_site, NULL);
	probe = rig_uretprobe(&rig, (const void *)(uintptr_t)late);
	assert_int_equal(rig_call(late, (void *)(uintptr_t)nap), 1);
	close(probe);
	rig_drain(&rig);
	promoted = rig_event(&rig, WIRE_K_PROMOTED, 0);
	assert_non_null(promoted);
	assert_int_equal(promoted->promoted->ret_addr, (uintptr_t)rig_site);
	assert_int_equal(rig_event(&rig, WIRE_K_END, 0)->end->reason, WIRE_END_RETURN);
	assert_int_equal(rig_count(&rig, WIRE_K_RETSITE), 0);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(true_ones_are_in_windows_on_cpu),
		cmocka_unit_test(true_ones_are_in_windows_of_two_spans),
		cmocka_unit_test(true_ones_are_in_windows_off_cpu),
		cmocka_unit_test(places_of_calls_that_were_left_are_as_they_are),
		cmocka_unit_test(spans_have_the_true_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
