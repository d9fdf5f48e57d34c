/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_snapshot_server: what one snapshot costs a busy server's threads, as BPF run time.
 *
 *   bench_snapshot_server ENDPOINT PARENT_PID
 *
 * The endpoint is profiled in all processes of the server that PARENT_PID started, with a period of 1 ms
 * and from the start of each call. In turns, on a clock of the same threads: spanprof's tick; and a program
 * that does nothing but bpf_get_stack. A round counts when both have met the server's stacks often enough.
 * spanprof's figure is its run time for each snapshot, less that of the ticks that found nothing to do, which
 * are counted and whose cost is measured before. The clock of each CPU, on which `run` has it, rests: most of
 * its ticks meet other threads on a busy machine, or find nothing due, and what these cost is not known well
 * enough to be taken off.
 *
 * A window always reaches up to the endpoint's frame; a walk of frame pointers stops in the first library
 * that was built without them, and is the cheaper for it. So a third program tells of each walk how long it
 * took and where it got, and the ratio that counts is that to the walks that reach the endpoint's caller.
 * Needs root.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "pipe/engine.h"
#include "proc/process.h"
#include "tests/bench/walk_program.h"
#include "tests/bench/walk_timed.h"
#include "tests/bench/walkskel.h"

#define MS        1000000ULL
#define PERIOD_NS (1 * MS)
#define ROUND_NS  (700 * MS)

enum {
	ROUNDS = 9,
	TRIES_MAX = 30,
	SNAPSHOTS_MIN = 150,
	THREADS_MAX = 64,
	FDS_MAX = 1024,
	CALLERS_MAX = 8,
	INSTANCE = 1,
};

struct walk_sum {
	uint64_t n;
	uint64_t ns;
	uint64_t frames;
};

struct bench {
	struct engine *engine;
	struct engine_options options;
	pid_t pids[THREADS_MAX];
	size_t n_pids;
	int tick_fd;
	int walk_fd;
	uint64_t n_snapshots; /* of running threads */
	uint64_t window_bytes;
	uint64_t callers[CALLERS_MAX]; /* return addresses of the endpoint */
	size_t n_callers;
	struct walkskel *timed;
	struct ring_buffer *walks;
	struct walk_sum all, whole; /* all walks; those that reach a caller of the endpoint */
	double empty_ns;            /* of a tick that finds nothing to do */
	double spanprof_ns[ROUNDS];
	double walk_ns[ROUNDS];
	double ratio[ROUNDS];
};

static int fail(const char *doing, const char *why)
{
	fprintf(stderr, "bench_snapshot_server: cannot %s: %s\n", doing, why);
	return 1;
}

static bool is_caller(const struct bench *b, uint64_t addr)
{
	for (size_t i = 0; i < b->n_callers; i++) {
		if (b->callers[i] == addr)
			return true;
	}
	return false;
}

static void add_caller(struct bench *b, uint64_t addr)
{
	if (b->n_callers < CALLERS_MAX && !is_caller(b, addr))
		b->callers[b->n_callers++] = addr;
}

static void walk_add(struct walk_sum *sum, uint64_t ns, size_t frames)
{
	sum->n++;
	sum->ns += ns;
	sum->frames += frames;
}

static int on_walk(void *ctx, void *data, size_t bytes)
{
	const struct walk_timed *w = data;
	struct bench *b = ctx;
	size_t n = w->bytes > 0 ? (size_t)w->bytes / sizeof(w->frames[0]) : 0;
	bool reached = false;

	for (size_t i = 0; i < n && !reached; i++)
		reached = is_caller(b, w->frames[i]);
	walk_add(&b->all, w->ns, n);
	if (reached)
		walk_add(&b->whole, w->ns, n);
	return 0;
}

static void on_record(void *ctx, const void *record, size_t bytes)
{
	const struct wire_snapshot *w = record;
	struct bench *b = ctx;

	if (w->h.kind != WIRE_K_SNAPSHOT || w->snap_kind != WIRE_SNAP_ONCPU || bytes < sizeof(*w))
		return;
	add_caller(b, w->spans[0].ret_addr);
	b->n_snapshots++;
	b->window_bytes += w->window_bytes;
}

/* Opens the gate; no process is looked at yet. */
static int start(struct bench *b, const char *text, struct errmsg *e)
{
	struct wire_gate gate = {.period_ns = PERIOD_NS, .enabled = 1};
	struct endpoint *ep = NULL;
	uint32_t id;
	int r = parse_endpoint(text, &ep, e);

	b->options = (struct engine_options){
		.pipeline = {.no_symbols = true},
		.kernel_stacks = true,
		.probes = {.preset_callers = true},
		.on_record = on_record,
		.ctx = b,
	};
	if (!r)
		r = engine_new(&b->engine, &b->options, e);
	if (!r)
		r = engine_add_endpoint(b->engine, ep, &id);
	return r ? r : engine_set_gate(b->engine, id, INSTANCE, &gate, e);
}

/* All that is no clock refuses it. */
static void clocks_rest(void)
{
	uint64_t period_ns = 3600 * 1000 * MS;

	for (int fd = 0; fd < FDS_MAX; fd++)
		ioctl(fd, PERF_EVENT_IOC_PERIOD, &period_ns);
}

/* One that has ended since they were listed is no matter: a client of the administrator's, say. */
static int add_processes(struct bench *b, struct errmsg *e)
{
	int r = 0;

	for (size_t i = 0; i < b->n_pids && (!r || r == -ESRCH); i++)
		r = engine_add_process(b->engine, b->pids[i], INSTANCE, e);
	return r == -ESRCH ? 0 : r;
}

/* The server's processes: those that its parent has forked and that run the same program. */
static int find_processes(struct bench *b, pid_t parent)
{
	CLEANUP(process_list_deinit) struct process_list all = {}, workers = {};
	int r = process_scan(&all);

	if (!r)
		r = process_workers(&all, parent, &workers);
	for (size_t i = 0; i < workers.n && b->n_pids < THREADS_MAX && !r; i++)
		b->pids[b->n_pids++] = workers.at[i].pid;
	return r;
}

static int run_for(struct bench *b, uint64_t ns)
{
	struct timespec pause = {.tv_nsec = 5 * MS};
	uint64_t end = clock_mono_ns() + ns, now;
	int r = 0;

	while (!r && (now = clock_mono_ns()) < end) {
		nanosleep(&pause, NULL);
		r = engine_dispatch(b->engine, now);
		ring_buffer__consume(b->walks);
	}
	return r;
}

/* The program on a clock of each of the threads; the engine goes on. */
static int tick_for(struct bench *b, int prog_fd, uint64_t ns)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_TASK_CLOCK,
		.sample_period = PERIOD_NS,
	};
	int fds[THREADS_MAX], links[THREADS_MAX], r;

	for (size_t i = 0; i < b->n_pids; i++) {
		fds[i] = (int)syscall(SYS_perf_event_open, &attr, b->pids[i], -1, -1,
				      PERF_FLAG_FD_CLOEXEC);
		links[i] = fds[i] < 0 ? -1 : bpf_link_create(prog_fd, fds[i], BPF_PERF_EVENT, NULL);
	}
	r = run_for(b, ns);
	for (size_t i = 0; i < b->n_pids; i++) {
		if (links[i] >= 0)
			close(links[i]);
		if (fds[i] >= 0)
			close(fds[i]);
	}
	return r;
}

/* True when the round counts. */
static bool measure_round(struct bench *b, size_t i)
{
	struct run_time tick = program_run_time(b->tick_fd), tick_end;
	struct run_time walk = program_run_time(b->walk_fd), walk_end;
	uint64_t before = b->n_snapshots, n_walks, n_empty, n;

	if (tick_for(b, b->tick_fd, ROUND_NS))
		return false;
	tick_end = program_run_time(b->tick_fd);
	n = b->n_snapshots - before;
	if (tick_for(b, b->walk_fd, ROUND_NS))
		return false;
	walk_end = program_run_time(b->walk_fd);
	if (tick_for(b, bpf_program__fd(b->timed->progs.walk_and_tell), ROUND_NS))
		return false;
	n_walks = walk_end.n - walk.n;
	if (n < SNAPSHOTS_MIN || n_walks < SNAPSHOTS_MIN)
		return false;
	n_empty = tick_end.n - tick.n > n ? tick_end.n - tick.n - n : 0;
	b->spanprof_ns[i] =
		((double)(tick_end.ns - tick.ns) - (double)n_empty * b->empty_ns) / (double)n;
	b->walk_ns[i] = (double)(walk_end.ns - walk.ns) / (double)n_walks;
	b->ratio[i] = b->spanprof_ns[i] / b->walk_ns[i];
	return true;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v)
{
	qsort(v, ROUNDS, sizeof(*v), compare);
	return v[ROUNDS / 2];
}

/* Ticks that find nothing: each round has some, between calls. */
static void measure_empty(struct bench *b)
{
	struct run_time from, to;

	run_for(b, ROUND_NS / 4);
	from = program_run_time(b->tick_fd);
	tick_for(b, b->tick_fd, ROUND_NS);
	to = program_run_time(b->tick_fd);
	b->empty_ns = to.n > from.n ? (double)(to.ns - from.ns) / (double)(to.n - from.n) : 0;
}

static double mean(uint64_t sum, uint64_t n)
{
	return n ? (double)sum / (double)n : 0;
}

static void report(struct bench *b, size_t n_thrown_away)
{
	double ours = median(b->spanprof_ns), walk = median(b->walk_ns);
	/* What the program takes beside the walk that it times. */
	double around = walk - mean(b->all.ns, b->all.n);
	double whole = mean(b->whole.ns, b->whole.n) + (around > 0 ? around : 0);

	printf("%-44s %8.0f ns a snapshot, %.0f bytes of stack\n",
	       "spanprof: registers, window, ring", ours, mean(b->window_bytes, b->n_snapshots));
	printf("%-44s %8.0f ns a tick\n", "spanprof: nothing to do", b->empty_ns);
	printf("%-44s %8.0f ns a walk, %.1f frames\n", "bpf_get_stack: all walks", walk,
	       mean(b->all.frames, b->all.n));
	printf("%-44s %8.0f ns a walk, %.1f frames, %.0f %% of the walks\n",
	       "bpf_get_stack: those that reach the endpoint", whole,
	       mean(b->whole.frames, b->whole.n), 100 * mean(b->whole.n, b->all.n));
	printf("ratio spanprof / bpf_get_stack, median of %d rounds (%zu thrown away): %.2f of the walks that reach the endpoint, target 0.60; %.2f of all\n",
	       ROUNDS, n_thrown_away, whole > 0 ? ours / whole : 0, median(b->ratio));
}

static int measure(struct bench *b)
{
	size_t n = 0, tries = 0;

	run_for(b, ROUND_NS); /* call sites become known, caches warm */
	for (; n < ROUNDS && tries < TRIES_MAX; tries++)
		n += measure_round(b, n);
	if (n < ROUNDS) {
		fprintf(stderr,
			"bench_snapshot_server: only %zu of %zu rounds met the server's calls often enough: is it busy?\n",
			n, tries);
		return 1;
	}
	report(b, tries - n);
	return 0;
}

int main(int argc, char **argv)
{
	struct bench b = {.tick_fd = -1, .walk_fd = -1};
	AUTO_CLOSE int map = -1;
	AUTO_CLOSE int stats = -1;
	struct errmsg e = {};
	int r;

	if (argc != 3) {
		fprintf(stderr, "usage: bench_snapshot_server ENDPOINT PARENT_PID\n");
		return 2;
	}
	if (find_processes(&b, atoi(argv[2])) || !b.n_pids)
		return fail("find the server's processes", "it has none");
	stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
	map = bpf_map_create(BPF_MAP_TYPE_PERCPU_ARRAY, "stacks", 4, WALK_MAP_BYTES, 1, NULL);
	b.walk_fd = stats < 0 || map < 0 ? -errno : walk_program_load(map);
	b.timed = walkskel__open_and_load();
	if (b.timed)
		b.walks = ring_buffer__new(bpf_map__fd(b.timed->maps.walk_ring), on_walk, &b, NULL);
	if (!b.walks)
		return fail("load the walk that tells", strerror(errno));
	if (b.walk_fd < 0)
		return fail("load the walk", strerror(-b.walk_fd));
	r = start(&b, argv[1], &e);
	b.tick_fd = r ? -1 : program_find("sample_tick");
	if (b.tick_fd >= 0) {
		clocks_rest();
		measure_empty(&b);
		r = add_processes(&b, &e);
	}
	if (r || b.tick_fd < 0)
		return fail("attach", e.text[0] ? e.text : strerror(-r));
	r = measure(&b);
	engine_free(b.engine);
	ring_buffer__free(b.walks);
	walkskel__destroy(b.timed);
	close(b.walk_fd);
	close(b.tick_fd);
	return r;
}
