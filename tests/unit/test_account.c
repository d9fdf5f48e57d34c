/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "pipe/account.h"
#include "tests/unit/unit.h"

#define MS 1000000ULL

static struct observation tick(uint32_t seq, uint32_t stack, uint64_t at_ms, uint64_t oncpu_ms)
{
	return (struct observation){
		.seq = seq,
		.stack = stack,
		.kind = WIRE_SNAP_ONCPU,
		.mono_ns = at_ms * MS,
		.wall = {.oncpu_ns = oncpu_ms * MS},
	};
}

static struct observation block(uint32_t seq, uint32_t stack, uint64_t out_ms, uint64_t wake_ms,
				uint64_t in_ms, struct wire_wall wall_ms)
{
	return (struct observation){
		.seq = seq,
		.stack = stack,
		.kind = WIRE_SNAP_OFFCPU,
		.out_ns = out_ms * MS,
		.wake_ns = wake_ms * MS,
		.mono_ns = in_ms * MS,
		.wall = {wall_ms.oncpu_ns * MS, wall_ms.runq_ns * MS, wall_ms.blocked_ns * MS},
	};
}

static uint64_t wall_of(const struct account *a, uint32_t stack, enum sample_kind kind)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < a->items.n; i++)
		if (a->items.at[i].stack == stack && a->items.at[i].kind == kind)
			sum += a->items.at[i].wall_ns;
	return sum;
}

static uint64_t wall_sum(const struct account *a)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < a->items.n; i++)
		sum += a->items.at[i].wall_ns;
	return sum;
}

static unsigned int count_sum(const struct account *a)
{
	unsigned int sum = 0;

	for (size_t i = 0; i < a->items.n; i++)
		sum += a->items.at[i].count;
	return sum;
}

/* A span from 0 to end_ms with everything accounted from the start, unless a test changes it. */
static struct account_input input(uint64_t end_ms, struct wire_wall total_ms,
				  const struct observation *obs, size_t n)
{
	return (struct account_input){
		.end_ns = end_ms * MS,
		.period_ns = 10 * MS,
		.total = {total_ms.oncpu_ns * MS, total_ms.runq_ns * MS, total_ms.blocked_ns * MS},
		.obs = obs,
		.n_obs = n,
	};
}

static void test_ticks_share_the_time_between_them(void **state)
{
	struct observation obs[] = {tick(0, 1, 4, 4), tick(1, 2, 14, 14), tick(2, 2, 24, 24)};
	struct account_input in = input(30, (struct wire_wall){.oncpu_ns = 30}, obs, 3);
	CLEANUP(account_deinit) struct account a = {};

	assert_int_equal(account_span(&in, &a), 0);
	assert_int_equal(wall_of(&a, 1, SAMPLE_ONCPU), 9 * MS);
	assert_int_equal(wall_of(&a, 2, SAMPLE_ONCPU), 21 * MS);
	assert_int_equal(wall_sum(&a), 30 * MS);
}

static struct observation tick_after(uint32_t seq, uint32_t stack, uint64_t oncpu_ms,
				     uint64_t blocked_ms)
{
	struct observation o = tick(seq, stack, oncpu_ms + blocked_ms, oncpu_ms);

	o.wall.blocked_ns = blocked_ms * MS;
	return o;
}

/* Ticks that were late, and ends of the call that are far from one, with waits between. */
static void test_beyond_a_wait_a_tick_stands_for_half_a_period(void **state)
{
	struct observation obs[] = {tick_after(0, 1, 8, 5), tick_after(1, 2, 22, 10),
				    tick_after(2, 3, 30, 15)};
	struct account_input in =
		input(58, (struct wire_wall){.oncpu_ns = 38, .blocked_ns = 20}, obs, 3);
	CLEANUP(account_deinit) struct account a = {};

	assert_int_equal(account_span(&in, &a), 0);
	assert_int_equal(wall_of(&a, 1, SAMPLE_ONCPU), 10 * MS);
	assert_int_equal(wall_of(&a, 2, SAMPLE_ONCPU), 9 * MS);
	assert_int_equal(wall_of(&a, 3, SAMPLE_ONCPU), 9 * MS);
	assert_int_equal(wall_of(&a, ACCOUNT_NO_TICK, SAMPLE_ONCPU), 10 * MS);
	assert_int_equal(wall_of(&a, ACCOUNT_LOST, SAMPLE_ONCPU), 0);
	assert_int_equal(wall_sum(&a), 58 * MS);
}

/* The same without waits: late ticks of a thread that computed all the time. */
static void test_without_waits_late_ticks_leave_no_hole(void **state)
{
	struct observation obs[] = {tick(0, 1, 8, 8), tick(1, 2, 22, 22), tick(2, 3, 30, 30)};
	struct account_input in = input(38, (struct wire_wall){.oncpu_ns = 38}, obs, 3);
	CLEANUP(account_deinit) struct account a = {};

	assert_int_equal(account_span(&in, &a), 0);
	assert_int_equal(wall_of(&a, 1, SAMPLE_ONCPU), 15 * MS);
	assert_int_equal(wall_of(&a, 2, SAMPLE_ONCPU), 11 * MS);
	assert_int_equal(wall_of(&a, 3, SAMPLE_ONCPU), 12 * MS);
}

/*
 * 1000 calls, in each 0.5 ms of stack 2 at 30 ms of CPU time, between two waits: one in 20 meets it. On
 * the average it gets what is its own, and in no call it is off by more than a period.
 */
static void test_rare_code_gets_its_share(void **state)
{
	CLEANUP(account_deinit) struct account a = {};
	uint64_t sum = 0;

	for (uint64_t call = 0; call < 1000; call++) {
		uint64_t at = call * 10 * MS / 1000; /* all phases of the clock alike */
		struct account_input in;
		struct observation obs[8];
		size_t n = 0;

		for (; at < 60 * MS; at += 10 * MS, n++) {
			bool is_rare = at >= 30 * MS && at < 30 * MS + MS / 2;

			obs[n] = tick(n, is_rare ? 2 : 1, 0, 0);
			obs[n].wall.oncpu_ns = at;
			obs[n].wall.blocked_ns = at < 30 * MS ? 0 : is_rare ? 20 * MS : 40 * MS;
			obs[n].mono_ns = at + obs[n].wall.blocked_ns;
		}
		in = input(100, (struct wire_wall){.oncpu_ns = 60, .blocked_ns = 40}, obs, n);
		assert_int_equal(account_span(&in, &a), 0);
		assert_true(wall_of(&a, 2, SAMPLE_ONCPU) <= 10 * MS);
		sum += wall_of(&a, 2, SAMPLE_ONCPU);
	}
	assert_in_range(sum, 490 * MS, 510 * MS);
}

/* Stacks 20 to 29 share the frames of stack 120, and so on. */
static uint32_t shared_tens(void *ctx, uint32_t a, uint32_t b)
{
	return a / 10 == b / 10 ? 100 + a / 10 * 10 : ACCOUNT_NO_TICK;
}

/*
 * A part that computes, then one that waits every 2 ms of its 14 ms of CPU time and that no tick meets. What is
 * out of the last tick's reach is known to be in it; missing is the record of the wait at 18 ms.
 */
static void test_time_between_waits_is_in_the_frames_they_share(void **state)
{
	struct observation obs[8] = {tick(0, 11, 8, 8),
				     block(1, 30, 9, 59, 59, (struct wire_wall){9, 0, 50})};
	struct account_input in =
		input(97, (struct wire_wall){.oncpu_ns = 23, .blocked_ns = 74}, obs, 7);
	CLEANUP(account_deinit) struct account a = {};
	uint64_t cpu = 10, blocked = 50;

	for (uint32_t i = 2; i < 7; i++, cpu += cpu == 16 ? 4 : 2, blocked += 4)
		obs[i] = block(i + (cpu > 18), 20 + i % 2, cpu + blocked, cpu + blocked + 4,
			       cpu + blocked + 4, (struct wire_wall){cpu, 0, blocked + 4});
	assert_int_equal(account_span(&in, &a), 0);
	assert_int_equal(wall_of(&a, 11, SAMPLE_ONCPU), 13 * MS);
	assert_int_equal(wall_of(&a, ACCOUNT_NO_TICK, SAMPLE_ONCPU), 10 * MS);
	in.shared = shared_tens;
	assert_int_equal(account_span(&in, &a), 0);
	assert_int_equal(wall_of(&a, 11, SAMPLE_ONCPU), 13 * MS);
	assert_int_equal(wall_of(&a, 120, SAMPLE_ONCPU), 3 * MS); /* from 13 to 16 */
	assert_int_equal(wall_of(&a, ACCOUNT_NO_TICK, SAMPLE_ONCPU), 7 * MS);
	obs[6].seq = 6;
	assert_int_equal(account_span(&in, &a), 0);
	assert_int_equal(wall_of(&a, 120, SAMPLE_ONCPU), 7 * MS); /* up to the last wait, at 20 */
	assert_int_equal(wall_of(&a, ACCOUNT_NO_TICK, SAMPLE_ONCPU), 3 * MS);
	assert_int_equal(wall_sum(&a), 97 * MS);
	assert_int_equal(count_sum(&a), 7);
}

static void test_block_is_split_at_the_wake_up(void **state)
{
	struct observation obs[] = {block(0, 7, 10, 90, 95, (struct wire_wall){10, 5, 80})};
	struct account_input in = input(100, (struct wire_wall){15, 5, 80}, obs, 1);
	CLEANUP(account_deinit) struct account a = {};

	assert_int_equal(account_span(&in, &a), 0);
	assert_int_equal(wall_of(&a, 7, SAMPLE_BLOCKED), 80 * MS);
	assert_int_equal(wall_of(&a, 7, SAMPLE_RUNQ), 5 * MS);
	assert_int_equal(wall_of(&a, ACCOUNT_NO_TICK, SAMPLE_ONCPU), 15 * MS);
	assert_int_equal(wall_sum(&a), 100 * MS);
	assert_int_equal(a.items.at[0].count, 1);
}

static void test_preemption_is_run_queue_only(void **state)
{
	struct observation obs[] = {block(0, 7, 10, 0, 30, (struct wire_wall){10, 20, 0})};
	struct account_input in = input(40, (struct wire_wall){20, 20, 0}, obs, 1);
	CLEANUP(account_deinit) struct account a = {};

	obs[0].flags = WIRE_SNAP_F_PREEMPTED;
	assert_int_equal(account_span(&in, &a), 0);
	assert_int_equal(wall_of(&a, 7, SAMPLE_RUNQ), 20 * MS);
	assert_int_equal(wall_of(&a, 7, SAMPLE_BLOCKED), 0);
}

static void test_short_waits_go_to_the_next_record(void **state)
{
	/* 3 ms of waits too short for a record, then a block of 20 ms; 1 ms more after it */
	struct observation obs[] = {block(0, 7, 30, 50, 50, (struct wire_wall){27, 0, 23})};
	struct account_input in = input(60, (struct wire_wall){36, 0, 24}, obs, 1);
	CLEANUP(account_deinit) struct account a = {};

	assert_int_equal(account_span(&in, &a), 0);
	assert_int_equal(wall_of(&a, 7, SAMPLE_BLOCKED), 23 * MS);
	assert_int_equal(wall_of(&a, ACCOUNT_SHORT, SAMPLE_BLOCKED), 1 * MS);
}

static void test_time_before_the_threshold_is_named(void **state)
{
	struct observation obs[] = {tick(0, 1, 110, 60), tick(1, 1, 120, 70)};
	struct account_input in = input(120, (struct wire_wall){70, 10, 40}, obs, 2);
	CLEANUP(account_deinit) struct account a = {};

	in.sample_after_ns = 100 * MS;
	in.promoted = (struct wire_wall){50 * MS, 10 * MS, 40 * MS};
	assert_int_equal(account_span(&in, &a), 0);
	assert_int_equal(wall_of(&a, ACCOUNT_BEFORE, SAMPLE_ONCPU), 50 * MS);
	assert_int_equal(wall_of(&a, ACCOUNT_BEFORE, SAMPLE_RUNQ), 10 * MS);
	assert_int_equal(wall_of(&a, ACCOUNT_BEFORE, SAMPLE_BLOCKED), 40 * MS);
	assert_int_equal(wall_of(&a, 1, SAMPLE_ONCPU), 20 * MS);
}

static void test_lost_ticks_leave_a_named_hole(void **state)
{
	struct observation obs[] = {tick(0, 1, 5, 5), tick(9, 2, 95, 95)};
	struct account_input in = input(100, (struct wire_wall){.oncpu_ns = 100}, obs, 2);
	CLEANUP(account_deinit) struct account a = {};

	assert_int_equal(account_span(&in, &a), 0);
	assert_int_equal(a.n_missing, 8);
	assert_int_equal(wall_of(&a, 1, SAMPLE_ONCPU), 10 * MS);
	assert_int_equal(wall_of(&a, 2, SAMPLE_ONCPU), 10 * MS);
	assert_int_equal(wall_of(&a, ACCOUNT_LOST, SAMPLE_ONCPU), 80 * MS);
	assert_int_equal(wall_sum(&a), 100 * MS);
}

static void test_lost_block_leaves_a_named_hole(void **state)
{
	/* a block of 50 ms whose record is lost, then one of 20 ms */
	struct observation obs[] = {block(1, 7, 70, 90, 90, (struct wire_wall){20, 0, 70})};
	struct account_input in = input(100, (struct wire_wall){30, 0, 70}, obs, 1);
	CLEANUP(account_deinit) struct account a = {};

	assert_int_equal(account_span(&in, &a), 0);
	assert_int_equal(wall_of(&a, 7, SAMPLE_BLOCKED), 20 * MS);
	assert_int_equal(wall_of(&a, ACCOUNT_LOST, SAMPLE_BLOCKED), 50 * MS);
}

static void test_stuck_is_superseded_by_its_end(void **state)
{
	struct observation obs[] = {block(0, 7, 10, 0, 40, (struct wire_wall){10, 0, 0}),
				    block(1, 7, 10, 0, 60, (struct wire_wall){10, 0, 0}),
				    block(2, 8, 10, 90, 90, (struct wire_wall){10, 0, 80})};
	struct account_input in = input(100, (struct wire_wall){20, 0, 80}, obs, 3);
	CLEANUP(account_deinit) struct account a = {};

	obs[0].kind = obs[1].kind = WIRE_SNAP_STUCK;
	assert_int_equal(account_span(&in, &a), 0);
	assert_int_equal(wall_of(&a, 7, SAMPLE_BLOCKED), 0);
	assert_int_equal(wall_of(&a, 8, SAMPLE_BLOCKED), 80 * MS);
	assert_int_equal(a.items.at[0].count, 3);
}

static void test_stuck_takes_the_rest_of_an_unfinished_span(void **state)
{
	struct observation obs[] = {block(0, 7, 10, 0, 40, (struct wire_wall){10, 0, 0})};
	struct account_input in = input(100, (struct wire_wall){10, 0, 90}, obs, 1);
	CLEANUP(account_deinit) struct account a = {};

	obs[0].kind = WIRE_SNAP_STUCK;
	assert_int_equal(account_span(&in, &a), 0);
	assert_int_equal(wall_of(&a, 7, SAMPLE_BLOCKED), 90 * MS);
}

/* Two blocks that were found open; the records of their ends are lost. */
static void test_stuck_without_an_end_keeps_its_count(void **state)
{
	struct observation obs[] = {block(0, 7, 10, 0, 20, (struct wire_wall){10, 0, 0}),
				    block(2, 8, 50, 0, 60, (struct wire_wall){20, 0, 30}),
				    block(3, 8, 50, 0, 70, (struct wire_wall){20, 0, 30})};
	struct account_input in = input(100, (struct wire_wall){30, 0, 70}, obs, 3);
	CLEANUP(account_deinit) struct account a = {};

	obs[0].kind = obs[1].kind = obs[2].kind = WIRE_SNAP_STUCK;
	assert_int_equal(account_span(&in, &a), 0);
	assert_int_equal(wall_of(&a, 7, SAMPLE_BLOCKED), 30 * MS);
	assert_int_equal(wall_of(&a, 8, SAMPLE_BLOCKED), 40 * MS);
	assert_int_equal(a.items.at[0].count, 1);
	assert_int_equal(a.items.at[0].end_ns, 40 * MS);
	assert_int_equal(count_sum(&a), 3);
}

/* Whatever the numbers say, the items add up to the duration, and their counts to the snapshots. */
static void test_sum_holds_for_nonsense(void **state)
{
	CLEANUP(account_deinit) struct account a = {};
	unsigned int seed = 1;

	for (int round = 0; round < 2000; round++) {
		struct observation obs[12];
		struct account_input in;
		size_t n = rand_r(&seed) % 12;
		uint32_t seq = 0;

		for (size_t i = 0; i < n; i++) {
			obs[i] = (struct observation){
				.seq = seq,
				.stack = i,
				.kind = 1 + rand_r(&seed) % 3,
				.flags = rand_r(&seed) % 128,
				.mono_ns = rand_r(&seed) % 1000,
				.out_ns = rand_r(&seed) % 1000,
				.wake_ns = rand_r(&seed) % 1000,
				.wall = {rand_r(&seed) % 1000, rand_r(&seed) % 1000,
					 rand_r(&seed) % 1000},
			};
			seq += 1 + rand_r(&seed) % 3;
		}
		in = (struct account_input){
			.start_ns = rand_r(&seed) % 1000,
			.end_ns = rand_r(&seed) % 2000,
			.period_ns = 1 + rand_r(&seed) % 100,
			.sample_after_ns = rand_r(&seed) % 2,
			.start = {rand_r(&seed) % 1000, rand_r(&seed) % 1000, rand_r(&seed) % 1000},
			.promoted = {rand_r(&seed) % 1000, rand_r(&seed) % 1000,
				     rand_r(&seed) % 1000},
			.total = {rand_r(&seed) % 1000, rand_r(&seed) % 1000, rand_r(&seed) % 1000},
			.obs = obs,
			.n_obs = n,
			.shared = shared_tens,
		};
		assert_int_equal(account_span(&in, &a), 0);
		assert_int_equal(wall_sum(&a),
				 in.end_ns > in.start_ns ? in.end_ns - in.start_ns : 0);
		assert_int_equal(count_sum(&a), n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ticks_share_the_time_between_them),
		cmocka_unit_test(test_beyond_a_wait_a_tick_stands_for_half_a_period),
		cmocka_unit_test(test_without_waits_late_ticks_leave_no_hole),
		cmocka_unit_test(test_rare_code_gets_its_share),
		cmocka_unit_test(test_time_between_waits_is_in_the_frames_they_share),
		cmocka_unit_test(test_block_is_split_at_the_wake_up),
		cmocka_unit_test(test_preemption_is_run_queue_only),
		cmocka_unit_test(test_short_waits_go_to_the_next_record),
		cmocka_unit_test(test_time_before_the_threshold_is_named),
		cmocka_unit_test(test_lost_ticks_leave_a_named_hole),
		cmocka_unit_test(test_lost_block_leaves_a_named_hole),
		cmocka_unit_test(test_stuck_is_superseded_by_its_end),
		cmocka_unit_test(test_stuck_takes_the_rest_of_an_unfinished_span),
		cmocka_unit_test(test_stuck_without_an_end_keeps_its_count),
		cmocka_unit_test(test_sum_holds_for_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
