/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_snapshot: what one snapshot of a running thread costs its program, as BPF run time.
 *
 * Threads spin 35 frames below an endpoint. A clock of each thread first runs spanprof's program
 * (state, gate, registers, window, ring), then one that does nothing but bpf_get_stack's walk of the
 * frame pointers into a per-CPU buffer; in turns. Both include the kernel's own two clock reads. Needs root.
 */
#include <bpf/bpf.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/bench/walk_program.h"
#include "tests/bpf/rig.h"
#include "tests/unit/unit.h"

enum { FRAMES = 35, THREADS_MAX = 64, ROUNDS = 5, TRIES_MAX = 20, RUNS_MIN = 150 };

#define MS        1000000ULL
#define PERIOD_NS (1 * MS)
#define ROUND_NS  (600 * MS)

static volatile bool stop;

static __attribute__((noinline, noclone)) long descend(void *arg)
{
	volatile char locals[40];
	long depth = (long)arg;

	locals[0] = (char)depth;
	if (depth > 1)
		return descend((void *)(depth - 1)) + locals[0];
	while (!stop)
		;
	return locals[0];
}

static __attribute__((noinline, noclone)) long endpoint(void *arg)
{
	return descend(arg) + 1;
}

static void *spin(void *arg)
{
	*(pid_t *)arg = gettid();
	return (void *)rig_call(endpoint, (void *)(long)FRAMES);
}

struct cost {
	double ns[ROUNDS];
	uint64_t n; /* runs of the program */
};

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(struct cost *c)
{
	qsort(c->ns, ROUNDS, sizeof(c->ns[0]), compare);
	return c->ns[ROUNDS / 2];
}

static pid_t tids[THREADS_MAX];

/* Runs the program at the ticks of our threads only, and takes the records. False: too few to count. */
static bool run(struct rig *rig, struct cost *cost, int round, int prog_fd)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_TASK_CLOCK,
		.sample_period = PERIOD_NS,
	};
	struct run_time before = program_run_time(prog_fd), after;
	uint64_t end = clock_mono_ns() + ROUND_NS;
	int fds[THREADS_MAX], links[THREADS_MAX], n;

	for (n = 0; n < THREADS_MAX && tids[n]; n++) {
		fds[n] = (int)syscall(SYS_perf_event_open, &attr, tids[n], -1, -1,
				      PERF_FLAG_FD_CLOEXEC);
		links[n] = bpf_link_create(prog_fd, fds[n], BPF_PERF_EVENT, NULL);
		assert_true(links[n] >= 0);
	}
	while (clock_mono_ns() < end) {
		rig_sleep(20 * MS);
		rig_drain(rig);
	}
	while (n--) {
		close(links[n]);
		close(fds[n]);
	}
	after = program_run_time(prog_fd);
	if (after.n - before.n < RUNS_MIN)
		return false;
	cost->ns[round] = (double)(after.ns - before.ns) / (double)(after.n - before.n);
	cost->n += after.n - before.n;
	return true;
}

static void print(const char *what, double ns, const struct cost *cost)
{
	printf("%-44s %8.0f ns a run, %llu runs\n", what, ns, (unsigned long long)cost->n);
}

static void measure(void **state)
{
	long n_threads = sysconf(_SC_NPROCESSORS_ONLN);
	struct cost spanprof = {}, walk = {};
	pthread_t threads[THREADS_MAX];
	double a, b;
	struct rig rig;
	int map, walk_fd, tick_fd, stats_fd;

	if (n_threads >= THREADS_MAX)
		n_threads = THREADS_MAX - 1;
	rig_open(&rig, NULL);
	stats_fd = bpftime_enable();
	assert_true(stats_fd >= 0);
	map = bpf_map_create(BPF_MAP_TYPE_PERCPU_ARRAY, "stacks", 4, WALK_MAP_BYTES, 1, NULL);
	walk_fd = walk_program_load(map);
	tick_fd = program_find("sample_tick");
	assert_true(walk_fd >= 0 && tick_fd >= 0);
	rig_gate(&rig, 0, MS, PERIOD_NS);
	rig_endpoint(&rig, 0, endpoint, NULL);
	for (long i = 0; i < n_threads; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, spin, &tids[i]), 0);
	rig_sleep(50 * MS);
	for (int i = 0, tries = 0; i < ROUNDS; tries++) {
		assert_true(tries < TRIES_MAX);
		i += run(&rig, &spanprof, i, tick_fd) && run(&rig, &walk, i, walk_fd);
	}
	stop = true;
	for (long i = 0; i < n_threads; i++)
		pthread_join(threads[i], NULL);
	a = median(&spanprof);
	b = median(&walk);
	print("spanprof: registers, window, ring", a, &spanprof);
	print("bpf_get_stack: frame pointers, 35+ frames", b, &walk);
	printf("window: %u bytes; %zu snapshots, %llu lost\n",
	       rig_event(&rig, WIRE_K_SNAPSHOT, 0)->snapshot->window_bytes,
	       rig_count(&rig, WIRE_K_SNAPSHOT),
	       (unsigned long long)rig_counter(&rig, WIRE_C_RING_FULL_SNAPSHOT));
	printf("ratio spanprof / bpf_get_stack: %.2f, target 0.60\n", a / b);
	close(map);
	close(walk_fd);
	close(tick_fd);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(measure)};

	return cmocka_run_group_tests_name("snapshot", tests, NULL, NULL);
}
