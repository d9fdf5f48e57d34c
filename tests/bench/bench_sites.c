/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_sites: entry and leave of a function that begins with endbr64 against one that begins with
 * push, both probed by spanprof as any endpoint is, in ns of CPU time a call; and what the same calls
 * cost in a process of the same file that is not profiled; for both kinds of uprobes. Needs root.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "pipe/engine.h"
#include "probe/multi.h"

enum { CALLS = 50000, ROUNDS = 15, INSTANCE = 1 };

long push_first(long n);
long endbr_first(long n);
long sub_first(long n);

/* Exported, so that they are found like those of any program. */
__asm__(".text\n"
	".globl push_first, endbr_first, sub_first\n"
	".type push_first, @function\n"
	".type endbr_first, @function\n"
	".type sub_first, @function\n"
	"push_first: push %rbp; mov %rdi, %rax; pop %rbp; ret\n"
	".size push_first, . - push_first\n"
	"endbr_first: endbr64; push %rbp; mov %rdi, %rax; pop %rbp; ret\n"
	".size endbr_first, . - endbr_first\n"
	"sub_first: sub $24, %rsp; mov %rdi, %rax; test %rdi, %rdi; js 1f; nop; 1: add $24, %rsp; ret\n"
	".size sub_first, . - sub_first\n");

static const struct {
	const char *name;
	long (*fn)(long n);
} functions[] = {
	{"push_first", push_first}, {"endbr_first", endbr_first}, {"sub_first", sub_first}};

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* noinline: one call site for all. The branch behind the call is the return site. */
static __attribute__((noinline)) double round_ns(long (*volatile fn)(long n))
{
	uint64_t start = cpu_ns();

	for (long i = 0; i < CALLS; i++)
		if (fn(i) != i)
			abort();
	return (double)(cpu_ns() - start) / CALLS;
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

static int add_endpoint(struct engine *engine, const char *name, struct errmsg *e)
{
	struct wire_gate gate = {.threshold_ns = 1000000000,
				 .sample_after_ns = 1000000000,
				 .period_ns = 10000000,
				 .enabled = 1};
	struct endpoint *ep = NULL;
	uint32_t id;
	int r = parse_endpoint(name, &ep, e);

	r = r < 0 ? r : engine_add_endpoint(engine, ep, &id);
	return r < 0 ? r : engine_set_gate(engine, id, INSTANCE, &gate, e);
}

static int attach(struct engine **ret, struct errmsg *e)
{
	struct engine_options o = {.pipeline = {.no_symbols = true}};
	int r = engine_new(ret, &o, e);

	for (size_t i = 0; i < ARRAY_SIZE(functions) && r == 0; i++)
		r = add_endpoint(*ret, functions[i].name, e);
	return r < 0 ? r : engine_add_process(*ret, getpid(), INSTANCE, e);
}

/*
 * A process of the same file, which measures a round when it is told so. An unrelated one is no child
 * of ours, so probes are for this process alone; with a child the whole file is probed.
 */
struct other {
	int ask[2], answer[2];
	pid_t pid;
};

static void other_main(const struct other *o)
{
	double ns;
	char c;

	close(o->ask[1]);
	while (read(o->ask[0], &c, 1) == 1) {
		ns = round_ns(push_first);
		if (write(o->answer[1], &ns, sizeof(ns)) != sizeof(ns))
			break;
	}
	_exit(0);
}

static int other_start(struct other *o, bool related)
{
	if (pipe(o->ask) || pipe(o->answer))
		return -1;
	o->pid = fork();
	if (o->pid == 0) {
		if (related || fork() == 0)
			other_main(o);
		_exit(0);
	}
	if (!related)
		waitpid(o->pid, NULL, 0);
	close(o->ask[0]);
	return 0;
}

static double other_round(const struct other *o)
{
	double ns = 0;

	if (write(o->ask[1], "x", 1) != 1 || read(o->answer[0], &ns, sizeof(ns)) != sizeof(ns))
		return 0;
	return ns;
}

static void other_stop(struct other *o)
{
	close(o->ask[1]);
	close(o->answer[0]);
	close(o->answer[1]);
	if (o->pid > 0)
		waitpid(o->pid, NULL, 0);
}

/* Median ns a call of a process that is not profiled, with probes for us or for the file. */
static int measure_other(bool related, double *ret_before, double *ret_with, struct errmsg *e)
{
	double before[ROUNDS] = {0}, with[ROUNDS] = {0};
	struct engine *engine = NULL;
	struct other o = {.pid = -1};
	int r = other_start(&o, related);

	for (int k = 0; r == 0 && k < ROUNDS; k++)
		before[k] = other_round(&o);
	r = r < 0 ? -errno : attach(&engine, e);
	for (int k = 0; r == 0 && k < ROUNDS; k++)
		with[k] = other_round(&o);
	engine_free(engine);
	other_stop(&o);
	if (r == 0) {
		*ret_before = median(before);
		*ret_with = median(with);
	}
	return r;
}

static int print_others(struct errmsg *e)
{
	static const char *const titles[] = {"probes for one process", "probes for the file"};
	double before = 0, with = 0;

	for (int i = 0; i < 2; i++) {
		int r = measure_other(i == 1, &before, &with, e);

		if (r < 0)
			return r;
		printf("another process of the file, %-22s: %7.1f ns a call, %.1f without probes\n",
		       titles[i], with, before);
	}
	return 0;
}

static int measure(const char *kind)
{
	double v[ARRAY_SIZE(functions)][ROUNDS], m[ARRAY_SIZE(functions)];
	struct engine *engine = NULL;
	struct errmsg e = {""};
	struct latency l;
	int r;

	setenv("SPANPROF_UPROBES", kind, 1);
	printf("uprobes: %s\n", kind);
	r = attach(&engine, &e);
	if (r < 0) {
		fprintf(stderr, "bench_sites: %s\n", e.text[0] ? e.text : strerror(-r));
		return r == -EPERM ? 77 : 1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		functions[i].fn(0);
	/* The call site becomes known with the first round. */
	round_ns(push_first);
	engine_dispatch(engine, clock_mono_ns());
	for (int k = 0; k < ROUNDS; k++)
		for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
			v[i][k] = round_ns(functions[i].fn);
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
		m[i] = median(v[i]);
		engine_latency(engine, (uint32_t)i, &l);
		printf("%-12s %7.1f ns a call, entry and leave  %.2f x push_first  (%llu of %llu ends seen)\n",
		       functions[i].name, m[i], m[i] / m[0], (unsigned long long)l.n_leave,
		       (unsigned long long)l.n_enter);
	}
	printf("ratio endbr64 first / push first: %.2f, target 1.30\n", m[1] / m[0]);
	engine_free(engine);
	r = print_others(&e);
	if (r < 0)
		fprintf(stderr, "bench_sites: %s\n", e.text[0] ? e.text : strerror(-r));
	return r < 0;
}

int main(void)
{
	int r = multi_is_there() ? measure("link") : 0;

	return r ? r : measure("perf");
}
