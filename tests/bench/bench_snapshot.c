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
#include "tests/bpf/rig.h"
#include "tests/unit/unit.h"

enum { FRAMES = 35, THREADS_MAX = 64, ROUNDS = 5, STACK_BYTES = 127 * 8 };

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

/* The loaded program of that name, the newest of them. */
static int find_program(const char *name)
{
	uint32_t id = 0;
	int found = -1;

	while (!bpf_prog_get_next_id(id, &id)) {
		struct bpf_prog_info info = {};
		uint32_t bytes = sizeof(info);
		int fd = bpf_prog_get_fd_by_id(id);

		if (fd < 0)
			continue;
		if (bpf_obj_get_info_by_fd(fd, &info, &bytes) || strcmp(info.name, name)) {
			close(fd);
			continue;
		}
		if (found >= 0)
			close(found);
		found = fd;
	}
	assert_true(found >= 0);
	return found;
}

/* bpf_get_stack(ctx, per-CPU buffer, STACK_BYTES, BPF_F_USER_STACK) */
static int walk_program(int map_fd)
{
	const struct bpf_insn insns[] = {
		{.code = 0xbf, .dst_reg = 6, .src_reg = 1},  /* r6 = ctx */
		{.code = 0x62, .dst_reg = 10, .off = -4},    /* *(u32 *)(fp - 4) = 0 */
		{.code = 0xbf, .dst_reg = 2, .src_reg = 10}, /* r2 = fp */
		{.code = 0x07, .dst_reg = 2, .imm = -4},     /* r2 -= 4 */
		{.code = 0x18, .dst_reg = 1, .src_reg = 1, .imm = map_fd},
		{}, /* r1 = map */
		{.code = 0x85, .imm = BPF_FUNC_map_lookup_elem},
		{.code = 0x15, .dst_reg = 0, .off = 5},     /* if !r0 goto end */
		{.code = 0xbf, .dst_reg = 1, .src_reg = 6}, /* r1 = ctx */
		{.code = 0xbf, .dst_reg = 2, .src_reg = 0}, /* r2 = buffer */
		{.code = 0xb7, .dst_reg = 3, .imm = STACK_BYTES},
		{.code = 0xb7, .dst_reg = 4, .imm = BPF_F_USER_STACK},
		{.code = 0x85, .imm = BPF_FUNC_get_stack},
		{.code = 0xb7},
		{.code = 0x95}, /* end: return 0 */
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_PERF_EVENT, "walk", "GPL", insns,
			       sizeof(insns) / sizeof(insns[0]), NULL);

	if (fd < 0)
		fail_msg("cannot load the walk");
	return fd;
}

static pid_t tids[THREADS_MAX];

/* Runs the program at the ticks of our threads only, and takes the records. */
static void run(struct rig *rig, struct cost *cost, int round, int prog_fd)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_TASK_CLOCK,
		.sample_period = PERIOD_NS,
	};
	struct bpf_prog_info before = {}, after = {};
	uint64_t end = clock_mono_ns() + ROUND_NS;
	uint32_t bytes = sizeof(before);
	int fds[THREADS_MAX], links[THREADS_MAX], n;

	assert_int_equal(bpf_obj_get_info_by_fd(prog_fd, &before, &bytes), 0);
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
	bytes = sizeof(after);
	assert_int_equal(bpf_obj_get_info_by_fd(prog_fd, &after, &bytes), 0);
	cost->ns[round] = (double)(after.run_time_ns - before.run_time_ns) /
			  (double)(after.run_cnt - before.run_cnt);
	cost->n += after.run_cnt - before.run_cnt;
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
	map = bpf_map_create(BPF_MAP_TYPE_PERCPU_ARRAY, "stacks", 4, 1024, 1, NULL);
	walk_fd = walk_program(map);
	tick_fd = find_program("sample_tick");
	rig_gate(&rig, 0, MS, PERIOD_NS);
	rig_endpoint(&rig, 0, endpoint, NULL);
	for (long i = 0; i < n_threads; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, spin, &tids[i]), 0);
	rig_sleep(50 * MS);
	for (int i = 0; i < ROUNDS; i++) {
		run(&rig, &spanprof, i, tick_fd);
		run(&rig, &walk, i, walk_fd);
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
