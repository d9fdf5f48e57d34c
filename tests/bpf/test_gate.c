/* SPDX-License-Identifier: Apache-2.0 */
/* Gates, limits, and a ring that overflows: what is left out is counted, exactly. */
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "rig.h"
#include "tests/unit/unit.h"

#define MS       1000000ULL
#define ENDPOINT __attribute__((noinline, noclone))

static const struct wire_gate_key key = {0, RIG_INSTANCE};

/* Long enough for a slow machine to really sleep. */
static ENDPOINT long serve(void *arg)
{
	rig_sleep(10 * MS);
	return 0;
}

static ENDPOINT long nest(void *arg)
{
	if (arg)
		return rig_call(nest, (char *)arg - 1);
	return serve(NULL);
}

static void set_gate(struct rig *rig, const struct wire_gate *gate)
{
	struct errmsg e;

	if (kern_gate_set(rig->kern, &key, gate, &e))
		fail_msg("%s", e.text);
}

static struct wire_gate get_gate(const struct rig *rig)
{
	struct wire_gate gate;

	assert_int_equal(kern_gate_get(rig->kern, &key, &gate), 0);
	return gate;
}

static const struct wire_gate open_gate = {
	.threshold_ns = MS,
	.sample_after_ns = MS,
	.period_ns = MS,
	.enabled = 1,
};

static void nothing_without_a_gate(void **state)
{
	struct rig rig;

	rig_open(&rig, NULL);
	rig_endpoint(&rig, 0, serve, NULL);
	rig_call(serve, NULL);
	rig_drain(&rig);
	assert_int_equal(rig.events.n, 0);
	assert_int_equal(rig_latency(&rig, 0).n_slow, 0);
	rig_close(&rig);
}

static void counts_spans(void **state)
{
	struct wire_gate gate = open_gate;
	struct rig rig;

	gate.max_spans = 3;
	rig_open(&rig, NULL);
	set_gate(&rig, &gate);
	rig_endpoint(&rig, 0, serve, NULL);
	for (int i = 0; i < 5; i++)
		rig_call(serve, NULL);
	rig_drain(&rig);
	assert_int_equal(rig_count(&rig, WIRE_K_PROMOTED), 3);
	assert_int_equal(rig_count(&rig, WIRE_K_END), 3);
	assert_int_equal(rig_counter(&rig, WIRE_C_SPAN_LIMIT), 2);
	assert_int_equal(get_gate(&rig).n_started, 3);
	assert_int_equal(get_gate(&rig).n_active, 0);
	assert_int_equal(rig_latency(&rig, 0).n_slow, 5);
	gate.max_spans = 4; /* the count goes on */
	set_gate(&rig, &gate);
	rig_call(serve, NULL);
	rig_call(serve, NULL);
	assert_int_equal(get_gate(&rig).n_started, 4);
	rig_close(&rig);
}

static void limits_parallel_spans(void **state)
{
	struct wire_gate gate = open_gate;
	struct rig rig;

	gate.max_parallel = 2;
	rig_open(&rig, NULL);
	set_gate(&rig, &gate);
	rig_endpoint(&rig, 0, nest, NULL);
	rig_call(nest, (void *)4L);
	rig_drain(&rig);
	assert_int_equal(rig_count(&rig, WIRE_K_PROMOTED), 2);
	assert_int_equal(rig_counter(&rig, WIRE_C_PARALLEL_LIMIT), 3);
	assert_int_equal(get_gate(&rig).n_active, 0);
	rig_close(&rig);
}

/* Nested spans share the snapshots of their thread, outermost first; the innermost have no place. */
static void nested_spans_share_snapshots(void **state)
{
	const struct event *shot;
	struct rig rig;
	size_t at = 0;

	rig_open(&rig, NULL);
	set_gate(&rig, &open_gate);
	rig_endpoint(&rig, 0, nest, NULL);
	rig_call(nest, (void *)9L);
	rig_drain(&rig);
	assert_int_equal(rig_count(&rig, WIRE_K_PROMOTED), WIRE_NAMED_MAX);
	assert_int_equal(rig_count(&rig, WIRE_K_END), WIRE_NAMED_MAX);
	assert_int_equal(rig_counter(&rig, WIRE_C_NAMED_LIMIT), 2);
	/* On a busy machine the first ones may have been taken on the way down. */
	do {
		shot = rig_event(&rig, WIRE_K_SNAPSHOT, at++);
		assert_non_null(shot);
	} while (shot->snapshot->n_spans < WIRE_NAMED_MAX);
	assert_int_equal(shot->snapshot->n_spans, WIRE_NAMED_MAX);
	for (int i = 1; i < WIRE_NAMED_MAX; i++)
		assert_true(shot->snapshot->spans[i].entry_sp <
			    shot->snapshot->spans[i - 1].entry_sp);
	rig_close(&rig);
}

struct meanwhile {
	struct rig *rig;
	bool reopen;
};

static ENDPOINT long clear_meanwhile(void *arg)
{
	struct meanwhile *m = arg;

	/* One sleep is enough but on a busy machine: it may be over before the thread gets there. */
	for (int i = 0; i < 100 && !get_gate(m->rig).n_active; i++)
		rig_sleep(2 * MS);
	assert_int_equal(get_gate(m->rig).n_active, 1);
	assert_int_equal(kern_gate_clear(m->rig->kern, &key), 0);
	if (m->reopen)
		set_gate(m->rig, &open_gate);
	rig_sleep(2 * MS);
	return 0;
}

/* A cleared gate ends the records of its spans; the next one is not confused by them. */
static void clearing_ends_records(void **state)
{
	struct meanwhile m = {};
	struct rig rig;

	rig_open(&rig, NULL);
	m.rig = &rig;
	set_gate(&rig, &open_gate);
	rig_endpoint(&rig, 0, clear_meanwhile, NULL);
	rig_call(clear_meanwhile, &m);
	rig_drain(&rig);
	assert_int_equal(rig_count(&rig, WIRE_K_PROMOTED), 1);
	assert_int_equal(rig_count(&rig, WIRE_K_SNAPSHOT), 1);
	assert_int_equal(rig_count(&rig, WIRE_K_END), 0);
	set_gate(&rig, &open_gate);
	m.reopen = true;
	rig_call(clear_meanwhile, &m);
	rig_drain(&rig);
	assert_int_equal(rig_count(&rig, WIRE_K_PROMOTED), 2);
	assert_int_equal(rig_count(&rig, WIRE_K_END), 0);
	assert_int_equal(get_gate(&rig).n_active, 0);
	rig_close(&rig);
}

static ENDPOINT long spin(void *arg)
{
	rig_spin(2 * MS);
	return 0;
}

/* Nothing looks at a thread that stays on its CPU here: there is no tick. */
static void unseen_slow_calls_are_counted(void **state)
{
	struct rig rig;

	rig_open(&rig, NULL);
	set_gate(&rig, &open_gate);
	rig_endpoint(&rig, 0, spin, NULL);
	for (int i = 0; i < 20; i++)
		rig_call(spin, NULL);
	rig_drain(&rig);
	assert_int_equal(rig_latency(&rig, 0).n_slow, 20);
	assert_int_equal(rig_count(&rig, WIRE_K_PROMOTED) + rig_counter(&rig, WIRE_C_SLOW_UNSEEN),
			 20);
	rig_close(&rig);
}

static void reports_slow_calls(void **state)
{
	const struct wire_endpoint config = {.flags = WIRE_EP_F_REPORT_SLOW};
	struct wire_gate gate = open_gate;
	struct rig rig;

	gate.max_spans = 1;
	rig_open(&rig, NULL);
	set_gate(&rig, &gate);
	rig_endpoint(&rig, 0, serve, &config);
	rig_call(serve, NULL);
	rig_call(serve, NULL);
	rig_drain(&rig);
	assert_int_equal(rig_count(&rig, WIRE_K_END), 1);
	assert_int_equal(rig_count(&rig, WIRE_K_SLOW), 1);
	assert_true(rig_duration(rig_event(&rig, WIRE_K_SLOW, 0)) >= 2 * MS);
	rig_close(&rig);
}

/* Everything that was due is either here or counted as lost, with its reason. */
static uint64_t n_preempted(void)
{
	struct rusage usage;

	assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
	return (uint64_t)usage.ru_nivcsw;
}

static void overflow_is_counted_exactly(void **state)
{
	const struct kern_options options = {.ring_bytes = 4096};
	uint64_t due = 0, lost = 0, promoted, ends, snapshots, snapshots_due;
	uint64_t preempted = n_preempted();
	struct rig rig;

	rig_open(&rig, &options);
	set_gate(&rig, &open_gate);
	rig_endpoint(&rig, 0, serve, NULL);
	for (int i = 0; i < 10; i++)
		rig_call(serve, NULL);
	rig_drain(&rig);
	for (int i = 0; i < 3; i++)
		rig_call(serve, NULL);
	rig_drain(&rig);
	promoted = rig_count(&rig, WIRE_K_PROMOTED);
	ends = rig_count(&rig, WIRE_K_END);
	snapshots = rig_count(&rig, WIRE_K_SNAPSHOT);
	assert_true(promoted > 0 && promoted < 13);
	assert_int_equal(promoted + rig_counter(&rig, WIRE_C_RING_FULL_PROMOTED), 13);
	assert_int_equal(ends + rig_counter(&rig, WIRE_C_RING_FULL_END), promoted);
	/* One of each sleep, and maybe of a wait for a CPU. */
	snapshots_due = snapshots + rig_counter(&rig, WIRE_C_RING_FULL_SNAPSHOT);
	assert_in_range(snapshots_due, promoted, promoted + n_preempted() - preempted);
	for (size_t i = 0; i < ends; i++) {
		due += rig_event(&rig, WIRE_K_END, i)->end->n_due;
		lost += rig_event(&rig, WIRE_K_END, i)->end->n_lost;
	}
	assert_true(due - lost <= snapshots);
	assert_int_equal(get_gate(&rig).n_active, 0);
	assert_int_equal(rig_latency(&rig, 0).n_leave, 13);
	rig_close(&rig);
}

static ENDPOINT long deep(void *arg)
{
	volatile char frame[8192];

	frame[0] = 1;
	rig_sleep(2 * MS);
	return frame[0];
}

/* The snapshot of the sleep, not of one before on a slow machine. */
static const struct event *asleep(const struct rig *rig)
{
	const struct event *shot;

	for (size_t i = 0; (shot = rig_event(rig, WIRE_K_SNAPSHOT, i)); i++)
		if (shot->snapshot->snap_kind == WIRE_SNAP_OFFCPU &&
		    shot->snapshot->syscall_nr >= 0)
			return shot;
	return NULL;
}

static void large_windows_are_cut(void **state)
{
	const struct kern_options small = {.max_window = 2048}, large = {.max_window = 60000};
	const struct event *shot;
	struct rig rig;

	rig_open(&rig, &small);
	set_gate(&rig, &open_gate);
	rig_endpoint(&rig, 0, deep, NULL);
	rig_call(deep, NULL);
	rig_drain(&rig);
	shot = asleep(&rig);
	assert_non_null(shot);
	assert_true(shot->snapshot->flags & WIRE_SNAP_F_TRUNCATED);
	assert_int_equal(shot->snapshot->window_bytes, 2048);
	assert_true(rig_counter(&rig, WIRE_C_WINDOW_TRUNCATED) > 0);
	rig_close(&rig);
	rig_open(&rig, &large);
	set_gate(&rig, &open_gate);
	rig_endpoint(&rig, 0, deep, NULL);
	rig_call(deep, NULL);
	rig_drain(&rig);
	shot = asleep(&rig);
	assert_non_null(shot);
	assert_int_equal(shot->snapshot->flags & WIRE_SNAP_F_TRUNCATED, 0);
	assert_true(shot->snapshot->window_bytes > 8192);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_without_a_gate),
		cmocka_unit_test(counts_spans),
		cmocka_unit_test(limits_parallel_spans),
		cmocka_unit_test(nested_spans_share_snapshots),
		cmocka_unit_test(clearing_ends_records),
		cmocka_unit_test(unseen_slow_calls_are_counted),
		cmocka_unit_test(reports_slow_calls),
		cmocka_unit_test(overflow_is_counted_exactly),
		cmocka_unit_test(large_windows_are_cut),
	};

	return cmocka_run_group_tests_name("gate", tests, NULL, NULL);
}
