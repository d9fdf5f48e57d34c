/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probes_count.c: counts calls of candidate functions on the running process and ranks them.
 *
 * Functions are probed in batches. Each batch first gets a short trial, and what is called so often
 * in it that counting would be felt is left out of the long look.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "app/command.h"
#include "app/probes_command.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "pipe/engine.h"

enum { INSTANCE = 1, BATCH = 48, POLL_MS = 20 };
enum { TRIAL_MS = 100, BUSY_CALLS_PER_S = 20000 };

struct counted {
	const struct candidate *f;
	struct latency l;
	uint64_t ns;   /* how long it was watched */
	bool too_busy; /* counted in the trial only */
};

struct count {
	const struct probes_command *c;
	struct counted *at;
	size_t n;
};

static int watch(struct engine *engine, uint64_t for_ns)
{
	uint64_t end_ns = clock_mono_ns() + for_ns;
	int r = 0;

	while (r >= 0 && clock_mono_ns() < end_ns) {
		struct pollfd fd = {.fd = engine_fd(engine), .events = POLLIN};

		if (poll(&fd, 1, POLL_MS) < 0 && errno != EINTR)
			return -errno;
		r = engine_dispatch(engine, clock_mono_ns());
	}
	return r < 0 ? r : 0;
}

static int add_function(struct engine *engine, const struct candidate *f)
{
	struct module *m = binary_module(f->function.binary);
	struct endpoint *ep = NULL;
	uint64_t off;
	char spec[4096];
	uint32_t id;
	int r;

	if (!module_offset_of_vaddr(m, f->function.vaddr, &off))
		return -EINVAL;
	snprintf(spec, sizeof(spec), "'%s':0x%" PRIx64, module_path(m), off);
	r = parse_endpoint(spec, &ep, NULL);
	r = r < 0 ? r : engine_add_endpoint(engine, ep, &id);
	if (r < 0)
		endpoint_free(ep);
	return r;
}

static int read_batch(struct engine *engine, struct counted *batch, size_t n, uint64_t ns)
{
	uint32_t id = 0;
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		if (batch[i].too_busy)
			continue;
		batch[i].ns = ns;
		r = engine_latency(engine, id++, &batch[i].l);
	}
	return r;
}

/* Marks what was called too often; the number of those is returned. */
static size_t find_busy(struct counted *batch, size_t n)
{
	uint64_t busy = (uint64_t)BUSY_CALLS_PER_S * TRIAL_MS / 1000;
	size_t n_busy = 0;

	for (size_t i = 0; i < n; i++) {
		if (!batch[i].too_busy && batch[i].l.n_enter > busy) {
			batch[i].too_busy = true;
			n_busy++;
		}
	}
	return n_busy;
}

/*
 * Watches those functions of a batch that are not too busy. Detaching costs the kernel about 0.1 s
 * a function, so a batch without busy ones is watched on as it is after the trial.
 */
static int run_batch(const struct probes_command *c, struct counted *batch, size_t n,
		     uint64_t for_ns, size_t *ret_busy, struct errmsg *e)
{
	struct engine_options o = {.probes = {.debug_dirs = c->debug_dirs},
				   .pipeline = {.no_symbols = true}};
	struct engine *engine = NULL;
	uint64_t start;
	int r = engine_new(&engine, &o, e);

	*ret_busy = 0;
	for (size_t i = 0; i < n && r == 0; i++)
		if (!batch[i].too_busy)
			r = add_function(engine, batch[i].f);
	r = r < 0 ? r : engine_add_process(engine, c->pid, INSTANCE, e);
	start = clock_mono_ns();
	r = r < 0 ? r : watch(engine, TRIAL_MS * 1000000ULL);
	r = r < 0 ? r : read_batch(engine, batch, n, clock_mono_ns() - start);
	if (r == 0)
		*ret_busy = find_busy(batch, n);
	if (r == 0 && *ret_busy == 0) {
		r = watch(engine, for_ns);
		r = r < 0 ? r : read_batch(engine, batch, n, clock_mono_ns() - start);
	}
	engine_free(engine);
	return r;
}

static int count_batch(const struct probes_command *c, struct counted *batch, size_t n,
		       uint64_t for_ns, struct errmsg *e)
{
	size_t n_busy = 0, left = n;
	int r;

	do {
		r = run_batch(c, batch, n, for_ns, &n_busy, e);
		left -= n_busy;
	} while (r == 0 && n_busy && left);
	return r;
}

/* Time inside per second of watching: what a request takes on a loaded server comes first. */
static double load_of(const struct counted *k)
{
	return k->ns ? (double)k->l.sum_ns / (double)k->ns : 0;
}

static int by_load(const void *a, const void *b)
{
	const struct counted *x = a, *y = b;
	double lx = load_of(x), ly = load_of(y);

	if (lx != ly)
		return lx < ly ? 1 : -1;
	return x->l.n_enter < y->l.n_enter ? 1 : x->l.n_enter > y->l.n_enter ? -1 : 0;
}

static void print_counted(const struct counted *k)
{
	char p50[32], max[32];

	format_duration(p50, sizeof(p50), latency_quantile(&k->l, 0.5));
	format_duration(max, sizeof(max), k->l.max_ns);
	printf("%9.1f  %8" PRIu64 "  %8" PRIu64 "  %10s  %10s  %6.1f %%  %-5s  %s%s\n",
	       k->ns ? (double)k->l.n_enter * 1e9 / (double)k->ns : 0, k->l.n_enter, k->l.n_leave,
	       k->l.n_leave ? p50 : "-", k->l.n_leave ? max : "-", 100 * load_of(k),
	       k->f->site.cheap ? "cheap" : "DEAR", k->f->function.name,
	       k->too_busy ? "  (too busy to watch longer)" : "");
}

static void print_result(struct count *k, const struct candidates *list)
{
	size_t silent = 0;

	if (k->n)
		qsort(k->at, k->n, sizeof(*k->at), by_load);
	printf("%9s  %8s  %8s  %10s  %10s  %8s  %-5s  %s\n", "calls/s", "calls", "ends", "p50",
	       "max", "in it", "cost", "function");
	for (size_t i = 0; i < k->n; i++) {
		if (k->at[i].l.n_enter)
			print_counted(&k->at[i]);
		else
			silent++;
	}
	fflush(stdout);
	log_info("%zu of %zu functions were not called", silent, k->n);
	if (list->n_left_out)
		log_info(
			"%zu more match and were not counted: give a narrower PATTERN, or --all (0.1 s more each)",
			list->n_left_out);
}

static int count_all(struct count *k, struct errmsg *e)
{
	size_t n_batches = (k->n + BATCH - 1) / BATCH;
	uint64_t each = k->c->count_ns / (n_batches ? n_batches : 1);
	int r = 0;

	for (size_t i = 0; i < k->n && r == 0; i += BATCH)
		r = count_batch(k->c, k->at + i, k->n - i < BATCH ? k->n - i : BATCH, each, e);
	return r;
}

int probes_count(struct inspect *i, const struct probes_command *c)
{
	struct candidates list = {0};
	struct count k = {.c = c};
	struct errmsg e = {""};
	int r = candidates_find(&list, i, c, c->all ? CANDIDATES_ALL : CANDIDATES_MAX);

	if (r == 0) {
		k.at = calloc(list.n + 1, sizeof(*k.at));
		r = k.at ? 0 : -ENOMEM;
	}
	for (size_t n = 0; r == 0 && n < list.n; n++)
		if (!list.at[n].why_not)
			k.at[k.n++].f = &list.at[n];
	if (r == 0 && k.n == 0)
		r = errmsg_set(&e, -ENOENT,
			       "process %d: no function to count: give another PATTERN", c->pid);
	r = r < 0 ? r : count_all(&k, &e);
	if (r < 0)
		log_error("%s", e.text[0] ? e.text : strerror(-r));
	else
		print_result(&k, &list);
	free(k.at);
	vec_free(&list);
	return r < 0 ? EXIT_FAILED : 0;
}
