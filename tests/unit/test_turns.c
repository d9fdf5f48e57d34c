/* SPDX-License-Identifier: Apache-2.0 */
/* test_turns.c: budgets are kept, turns end and begin when they should. */
#include "pipe/turns.h"
#include "unit.h"

#define MS    1000000ULL
#define S     (1000 * MS)
#define START (5000 * S)

/* A program that is called, and what its probes cost it. */
struct world {
	struct turns t;
	struct turns_look look;
	double calls_per_s;
	double pair_ns;
	double cpus;            /* that it uses */
	uint64_t open_until_ns; /* a call that is open */
	uint64_t gone_after_ns; /* how long the kernel needs to take probes off */
	uint64_t changed_ns;
};

static void begin(struct world *w, uint32_t share_ppm)
{
	w->look.now_ns = START;
	turns_init(&w->t, share_ppm, START);
}

/* One look. True: the state has changed. */
static bool step(struct world *w, uint64_t ns)
{
	double hits = w->t.state == TURNS_ON ? 2 : w->t.state == TURNS_DRAIN ? 1 : 0;
	bool changed;

	w->look.now_ns += ns;
	w->look.cost_ns += (uint64_t)(w->calls_per_s * ns / S * w->pair_ns / 2 * hits);
	w->look.cpu_ns += (uint64_t)(w->cpus * ns);
	w->look.is_calm = w->look.now_ns >= w->open_until_ns;
	w->look.is_gone = w->look.now_ns >= w->changed_ns + w->gone_after_ns;
	changed = turns_update(&w->t, &w->look);
	if (changed)
		w->changed_ns = w->look.now_ns;
	if (changed && w->t.state == TURNS_ON)
		turns_begin(&w->t, w->look.now_ns);
	return changed;
}

static void run(struct world *w, uint64_t ns)
{
	for (uint64_t end = w->look.now_ns + ns; w->look.now_ns < end;)
		step(w, 50 * MS);
}

static double cost_share(const struct world *w)
{
	return (double)w->look.cost_ns / (double)w->look.cpu_ns;
}

static double probed_share(const struct world *w)
{
	return (double)turns_probed_ns(&w->t, w->look.now_ns) / (double)(w->look.now_ns - START);
}

static void no_budget_is_no_rest(void **state)
{
	struct world w = {.calls_per_s = 1e6, .pair_ns = 5000, .cpus = 1};

	begin(&w, 0);
	run(&w, 100 * S);
	assert_int_equal(w.t.state, TURNS_ON);
	assert_int_equal(w.t.n_turns, 1);
}

/* 9 % while probed: 1 % of that is a ninth of the time. */
static void budget_is_kept(void **state)
{
	struct world w = {.calls_per_s = 17000, .pair_ns = 5300, .cpus = 1};

	begin(&w, 10000);
	run(&w, 1000 * S);
	assert_true(cost_share(&w) > 0.009 && cost_share(&w) < 0.0101);
	assert_true(probed_share(&w) > 0.08 && probed_share(&w) < 0.12);
	assert_in_range(w.t.n_turns, 80, 130);
}

static void within_the_budget_is_probed_always(void **state)
{
	struct world w = {.calls_per_s = 1500, .pair_ns = 5300, .cpus = 1};

	begin(&w, 10000);
	run(&w, 1000 * S);
	assert_int_equal(w.t.n_turns, 1);
	assert_true(probed_share(&w) > 0.999);
}

/* A large part of its little CPU time, but nobody misses that. */
static void nearly_idle_is_probed_always(void **state)
{
	struct world w = {.calls_per_s = 100, .pair_ns = 5300, .cpus = 0.005};

	begin(&w, 10000);
	run(&w, 1000 * S);
	assert_int_equal(w.t.n_turns, 1);
}

static void hot_function_is_left_at_once(void **state)
{
	struct world w = {.calls_per_s = 2e5, .pair_ns = 4500, .cpus = 1};
	uint64_t drain_ns;

	begin(&w, 10000);
	while (!step(&w, 50 * MS))
		;
	assert_int_equal(w.t.state, TURNS_DRAIN);
	assert_in_range(w.look.now_ns - START, 0, 300 * MS);
	drain_ns = w.look.now_ns;
	w.open_until_ns = UINT64_MAX; /* half of the cost goes on: not for long */
	while (!step(&w, 50 * MS))
		;
	assert_int_equal(w.t.state, TURNS_OFF);
	assert_in_range(w.look.now_ns - drain_ns, 500 * MS, 2000 * MS);
	run(&w, 2000 * S);
	assert_true(cost_share(&w) < 0.0115);
	assert_true(w.t.n_turns > 20);
}

/* Behind the first two turns and rests at any time: the second is paid before it begins. */
static void budget_is_kept_in_short_runs(void **state)
{
	struct world w = {.calls_per_s = 17000, .pair_ns = 5300, .cpus = 1};

	begin(&w, 10000);
	while (w.t.n_turns < 2)
		step(&w, 50 * MS);
	for (int i = 0; i < 2000; i++) {
		step(&w, 50 * MS);
		assert_true(cost_share(&w) < 0.012); /* turns differ */
	}
}

/* On many CPUs a look is late for a rest of 20 s: it gets longer, but not the cost. */
static void debts_are_paid_however_large(void **state)
{
	struct world w = {.calls_per_s = 1e7, .pair_ns = 5000, .cpus = 64};

	begin(&w, 1000);
	run(&w, 5000 * S);
	assert_true(cost_share(&w) < 0.0012);
}

static void calls_are_drained(void **state)
{
	struct world w = {
		.calls_per_s = 17000, .pair_ns = 5300, .cpus = 1, .gone_after_ns = 80 * MS};

	begin(&w, 10000);
	w.open_until_ns = START + 4 * S;
	while (!step(&w, 50 * MS))
		;
	assert_int_equal(w.t.state, TURNS_DRAIN);
	while (!step(&w, 50 * MS))
		;
	assert_int_equal(w.t.state, TURNS_OFF);
	assert_int_equal(w.look.now_ns, w.open_until_ns);
	/* Calls may begin until the entries are gone. */
	while (w.t.state != TURNS_DRAIN)
		step(&w, 10 * MS);
	while (!step(&w, 10 * MS))
		;
	assert_in_range(w.look.now_ns - w.t.since_ns, 0, 1);
	assert_true(w.look.is_gone);
}

static void draining_is_bounded(void **state)
{
	struct world w = {
		.calls_per_s = 3000, .pair_ns = 5300, .cpus = 1, .open_until_ns = UINT64_MAX};
	uint64_t drain_ns;

	begin(&w, 10000);
	while (!step(&w, 50 * MS))
		;
	drain_ns = w.look.now_ns;
	while (!step(&w, 50 * MS))
		;
	assert_int_equal(w.t.state, TURNS_OFF);
	assert_in_range(w.look.now_ns - drain_ns, TURNS_DRAIN_MAX_NS, TURNS_DRAIN_MAX_NS + 50 * MS);
}

/* Nothing begins before what was taken off is gone. */
static void kernel_is_waited_for(void **state)
{
	struct world w = {.calls_per_s = 17000, .pair_ns = 5300, .cpus = 1};

	begin(&w, 10000);
	while (w.t.state != TURNS_OFF)
		step(&w, 50 * MS);
	w.gone_after_ns = 100 * S;
	run(&w, 99 * S);
	assert_int_equal(w.t.state, TURNS_OFF);
	run(&w, 2 * S);
	assert_int_equal(w.t.n_turns, 2);
}

static void failure_is_tried_again_later(void **state)
{
	struct world w = {.calls_per_s = 17000, .pair_ns = 5300, .cpus = 1};
	uint64_t failed_ns;

	begin(&w, 10000);
	while (w.t.state != TURNS_OFF)
		step(&w, 50 * MS);
	while (!step(&w, 50 * MS))
		;
	w.t.n_turns--;
	failed_ns = w.look.now_ns;
	turns_fail(&w.t, failed_ns);
	while (!step(&w, 50 * MS))
		;
	assert_int_equal(w.t.state, TURNS_ON);
	assert_in_range(w.look.now_ns - failed_ns, S, 2 * S);
}

/* A call that lasts comes at any time: turns must not keep step with it. */
static void turns_differ_in_length(void **state)
{
	struct world w = {.calls_per_s = 17000, .pair_ns = 5300, .cpus = 1};
	uint64_t least = UINT64_MAX, most = 0;

	begin(&w, 10000);
	for (int i = 0; i < 20; i++) {
		uint64_t from_ns = w.look.now_ns;

		while (!step(&w, 10 * MS))
			;
		least = w.look.now_ns - from_ns < least ? w.look.now_ns - from_ns : least;
		most = w.look.now_ns - from_ns > most ? w.look.now_ns - from_ns : most;
		while (w.t.state != TURNS_ON)
			step(&w, 10 * MS);
	}
	assert_in_range(least, 700 * MS, 900 * MS);
	assert_in_range(most, 1100 * MS, 1300 * MS);
}

/* Calm hours are not saved for a storm. */
static void little_is_paid_ahead(void **state)
{
	struct world w = {.cpus = 1};
	uint64_t storm_ns;

	begin(&w, 10000);
	run(&w, 10000 * S);
	w.calls_per_s = 1e5;
	w.pair_ns = 5000;
	storm_ns = w.look.now_ns;
	while (!step(&w, 50 * MS))
		;
	assert_in_range(w.look.now_ns - storm_ns, 0, 2 * S);
}

static void clock_may_stand_still(void **state)
{
	struct world w = {.cpus = 1};

	begin(&w, 10000);
	w.look.cost_ns = S;
	assert_false(turns_update(&w.t, &w.look));
	w.look.now_ns -= S;
	assert_false(turns_update(&w.t, &w.look));
}

/* A turn that is not to end goes on, and its draining too; what it has cost meanwhile is paid as ever. */
static void turn_is_held(void **state)
{
	struct world w = {.calls_per_s = 17000, .pair_ns = 5300, .cpus = 1};
	uint64_t held_ns;

	begin(&w, 10000);
	for (int i = 0; i < 2000; i++)
		if (step(&w, 50 * MS))
			turns_hold(&w.t, w.look.now_ns);
	assert_int_equal(w.t.state, TURNS_ON);
	assert_int_equal(w.t.n_turns, 1);
	assert_true(probed_share(&w) > 0.999);
	held_ns = w.look.now_ns - START;
	while (w.t.state != TURNS_DRAIN)
		step(&w, 50 * MS);
	for (int i = 0; i < 200; i++)
		if (step(&w, 50 * MS))
			turns_hold(&w.t, w.look.now_ns);
	assert_int_equal(w.t.state, TURNS_DRAIN);
	assert_in_range(turns_probed_ns(&w.t, w.look.now_ns), held_ns, held_ns + 2 * S);
	run(&w, 20000 * S);
	assert_true(cost_share(&w) < 0.0101);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_budget_is_no_rest),
		cmocka_unit_test(budget_is_kept),
		cmocka_unit_test(within_the_budget_is_probed_always),
		cmocka_unit_test(nearly_idle_is_probed_always),
		cmocka_unit_test(budget_is_kept_in_short_runs),
		cmocka_unit_test(hot_function_is_left_at_once),
		cmocka_unit_test(debts_are_paid_however_large),
		cmocka_unit_test(calls_are_drained),
		cmocka_unit_test(draining_is_bounded),
		cmocka_unit_test(kernel_is_waited_for),
		cmocka_unit_test(failure_is_tried_again_later),
		cmocka_unit_test(turns_differ_in_length),
		cmocka_unit_test(turn_is_held),
		cmocka_unit_test(little_is_paid_ahead),
		cmocka_unit_test(clock_may_stand_still),
	};

	return cmocka_run_group_tests_name("turns", tests, NULL, NULL);
}
