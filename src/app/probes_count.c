/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probes_count.c: counts calls of candidate functions on the running process and ranks them.
 *
 * What serves requests is called often, takes long, and several threads do it: workers, be they of one
 * process or of several. Functions are probed in batches. Each batch first gets a short trial, in which
 * the call sites become known; what is called so often in it that counting would be felt is left out of
 * the long look. Invariant: what is shown of a function was counted in the time that it is divided by,
 * when the whole batch was attached.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "app/command.h"
#include "app/probes_command.h"
#include "app/probes_watch.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/units.h"
#include "pipe/engine.h"
#include "probe/plan.h"

enum { INSTANCE = 1, BATCH = 60 };
#define OVERHEAD_NS_MAX 15000000000ULL
enum { TRIAL_MS = 100, TRIALS_MAX = 3, BUSY_CALLS_PER_S = 20000 };
/* Of so many calls a second half of the time counts for the rank, of fewer much less. */
#define HOUSEKEEPING_PER_S 4.0
/* What a single thread does, beside others that share their work, is worth this much of its time. */
#define LONE_THREAD 0.1

struct counted {
	const struct candidate *f;
	struct latency l;
	uint64_t n_threads;
	uint64_t ns;   /* how long it was watched; 0: not at all */
	bool too_busy; /* counted in the trial only */
};

struct count {
	const struct probes_command *c;
	struct probes_watch watch;
	struct counted *at;
	size_t n;
	size_t n_unfit;       /* that no probe can be put on */
	struct errmsg no_fit; /* why not, of the first of those */
};

static int new_endpoint(const struct candidate *f, struct endpoint **ret)
{
	struct module *m = binary_module(f->function.binary);
	uint64_t off;
	char spec[4096];

	if (!module_offset_of_vaddr(m, f->function.vaddr, &off))
		return -EINVAL;
	snprintf(spec, sizeof(spec), "'%s':0x%" PRIx64, module_path(m), off);
	return parse_endpoint(spec, ret, NULL);
}

static int add_function(struct engine *engine, const struct candidate *f)
{
	struct endpoint *ep = NULL;
	uint32_t id;
	int r = new_endpoint(f, &ep);

	r = r < 0 ? r : engine_add_endpoint(engine, ep, &id);
	if (r < 0)
		endpoint_free(ep);
	return r;
}

/* Reads the histograms; with is_end, what they got since they were read last. */
static int read_batch(struct engine *engine, struct counted *batch, size_t n, bool is_end)
{
	uint32_t id = 0;
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		struct latency before = batch[i].l;

		if (batch[i].too_busy)
			continue;
		r = engine_latency(engine, id, &batch[i].l);
		if (r == 0 && is_end)
			r = engine_n_threads(engine, id, &batch[i].n_threads);
		id++;
		if (r < 0 || !is_end)
			continue;
		latency_sub(&batch[i].l, &before);
		/* Some have called it during the trial only. */
		if (batch[i].n_threads > batch[i].l.n_enter)
			batch[i].n_threads = batch[i].l.n_enter;
	}
	return r;
}

/* Counts for so long, from a state in which everything is attached. */
static int count_for(struct count *k, struct engine *engine, struct counted *batch, size_t n,
		     uint64_t for_ns)
{
	int r = read_batch(engine, batch, n, false);
	uint64_t start = clock_mono_ns(), ns;

	r = r < 0 ? r : probes_watch_for(&k->watch, engine, for_ns, NULL, NULL);
	ns = clock_mono_ns() - start;
	r = r < 0 ? r : read_batch(engine, batch, n, true);
	for (size_t i = 0; i < n && r == 0; i++)
		if (!batch[i].too_busy)
			batch[i].ns = ns;
	return r;
}

/* Marks what was called too often; the number of those is returned. */
static size_t find_busy(struct counted *batch, size_t n)
{
	size_t n_busy = 0;

	for (size_t i = 0; i < n; i++) {
		double calls = (double)batch[i].l.n_enter;

		if (!batch[i].too_busy && batch[i].ns &&
		    calls * 1e9 / (double)batch[i].ns > BUSY_CALLS_PER_S) {
			batch[i].too_busy = true;
			n_busy++;
		}
	}
	return n_busy;
}

/*
 * Watches those functions of a batch that are not too busy; a batch with busy ones is detached. Few
 * functions are worth a look for their callers ahead of time; of many, the trial finds those in use.
 */
static int run_batch(struct count *k, struct counted *batch, size_t n, uint64_t for_ns,
		     size_t *ret_busy, struct errmsg *e)
{
	struct engine_options o = {
		.follow_forks = true,
		.count_threads = true,
		.probes = {.preset_callers = k->n <= BATCH, .debug_dirs = k->c->debug_dirs},
		.pipeline = {.no_symbols = true}};
	struct engine *engine = NULL;
	int r = engine_new(&engine, &o, e);

	*ret_busy = 0;
	for (size_t i = 0; i < n && r == 0; i++)
		if (!batch[i].too_busy)
			r = add_function(engine, batch[i].f);
	r = r < 0 ? r : engine_add_instance(engine, k->c->pid, INSTANCE, e);
	r = r < 0 ? r : count_for(k, engine, batch, n, TRIAL_MS * 1000000ULL);
	if (r == 0)
		*ret_busy = find_busy(batch, n);
	if (r == 0 && *ret_busy == 0 && !probes_watch_is_cut(&k->watch))
		r = count_for(k, engine, batch, n, for_ns);
	engine_free(engine);
	return r;
}

/* The last trial's counts stay for what is found busy again and again. */
static int count_batch(struct count *k, struct counted *batch, size_t n, uint64_t for_ns,
		       struct errmsg *e)
{
	size_t n_busy = 0, left = n;
	int r = 0;

	for (int i = 0; i < TRIALS_MAX && left && (i == 0 || n_busy) && r == 0; i++) {
		if (i && probes_watch_is_cut(&k->watch))
			break;
		r = run_batch(k, batch, n, for_ns, &n_busy, e);
		left -= n_busy;
	}
	return r;
}

/* Time inside per second of watching. */
static double load_of(const struct counted *k)
{
	return k->ns ? (double)k->l.sum_ns / (double)k->ns : 0;
}

/*
 * What a request takes on a loaded server comes first. What is called about once a second, or once at
 * all, is housekeeping: its time counts for little, however much it is (a timer that is asleep). So
 * does that of one thread, where several share other work (a poll that times out). Where all is done by
 * one thread, as in an event loop, the order is as without.
 */
static double rank_of(const struct counted *k)
{
	double n = k->l.n_enter ? (double)(k->l.n_enter - 1) : 0; /* one call tells of no rate */
	double rate = k->ns ? n * 1e9 / (double)k->ns : 0;
	double requests = rate * rate / (rate * rate + HOUSEKEEPING_PER_S * HOUSEKEEPING_PER_S);

	return load_of(k) * requests * (k->n_threads > 1 ? 1 : LONE_THREAD);
}

/* Of those without a rank, on a server that is nearly idle, the load tells the most. */
static int by_rank(const void *a, const void *b)
{
	const struct counted *x = a, *y = b;
	double dx = rank_of(x), dy = rank_of(y);

	if (dx == dy) {
		dx = load_of(x);
		dy = load_of(y);
	}
	if (dx != dy)
		return dx < dy ? 1 : -1;
	return x->l.n_enter < y->l.n_enter ? 1 : x->l.n_enter > y->l.n_enter ? -1 : 0;
}

static void print_counted(const struct counted *k)
{
	char p50[32], max[32], name[SHOWN_MAX];

	format_duration(p50, sizeof(p50), latency_quantile(&k->l, 0.5));
	format_duration(max, sizeof(max), k->l.max_ns);
	printf("%9.1f  %8" PRIu64 "  %8" PRIu64 "  %10s  %10s  %6.1f %%  %7" PRIu64
	       "  %-5s  %s%s\n",
	       k->ns ? (double)k->l.n_enter * 1e9 / (double)k->ns : 0, k->l.n_enter, k->l.n_leave,
	       k->l.n_leave ? p50 : "-", k->l.n_leave ? max : "-", 100 * load_of(k), k->n_threads,
	       k->f->site.cheap ? "cheap" : "DEAR",
	       text_show(name, sizeof(name), k->f->function.name),
	       k->too_busy ? "  (too busy to watch longer)" : "");
}

static void print_result(struct count *k, const struct candidates *list)
{
	size_t silent = 0, unwatched = 0;

	if (k->n)
		qsort(k->at, k->n, sizeof(*k->at), by_rank);
	printf("%9s  %8s  %8s  %10s  %10s  %8s  %7s  %-5s  %s\n", "calls/s", "calls", "ends", "p50",
	       "max", "in it", "threads", "cost", "function");
	for (size_t i = 0; i < k->n; i++) {
		if (k->at[i].l.n_enter)
			print_counted(&k->at[i]);
		else if (k->at[i].ns)
			silent++;
		else
			unwatched++;
	}
	fflush(stdout);
	if (silent)
		log_info("%zu of %zu functions were not called", silent, k->n - unwatched);
	if (list->n_left_out + unwatched)
		log_info("%zu more match and were not counted: give a narrower PATTERN, or --all",
			 list->n_left_out + unwatched);
	if (k->n_unfit)
		log_info("%zu more match and cannot be counted, for one: %s", k->n_unfit,
			 k->no_fit.text);
}

static bool any_watched(const struct count *k)
{
	for (size_t i = 0; i < k->n; i++)
		if (k->at[i].ns)
			return true;
	return false;
}

/*
 * All batches share the time asked for. Attaching takes its time too, on kernels without
 * uprobe_multi much of it: the likely functions come first, and there is an end.
 */
static int count_all(struct count *k, struct errmsg *e)
{
	size_t n_batches = (k->n + BATCH - 1) / BATCH;
	uint64_t each = k->c->count_ns / (n_batches ? n_batches : 1);
	uint64_t end_ns = clock_mono_ns() + 2 * k->c->count_ns + OVERHEAD_NS_MAX;
	int r = 0;

	for (size_t i = 0; i < k->n && r == 0; i += BATCH) {
		if (clock_mono_ns() >= end_ns || probes_watch_is_cut(&k->watch))
			break;
		r = count_batch(k, k->at + i, k->n - i < BATCH ? k->n - i : BATCH, each, e);
		if (r == -ENOENT && i + BATCH < k->n) /* their library is not there any more */
			r = 0;
	}
	if (r == 0 || r == -ENOMEM || !any_watched(k))
		return r;
	log_warning("%s: this is what was seen until then", e->text[0] ? e->text : strerror(-r));
	return 0;
}

/* Whether a probe can be put on it; if not, nothing of its batch could be attached. */
static bool is_fit(struct count *k, const struct inspect *i, const struct candidate *f)
{
	struct plan_options o = {.rules = k->c->rules, .leave = LEAVE_AUTO};
	AUTO_FREE struct plan *plan = malloc(sizeof(*plan));
	struct endpoint *ep = NULL;
	struct errmsg e = {""};
	int r = plan ? new_endpoint(f, &ep) : -ENOMEM;

	r = r < 0 ? r : plan_endpoint(&i->input, ep, &o, plan, &e);
	endpoint_free(ep);
	if (r < 0 && !k->n_unfit++)
		errmsg_set(&k->no_fit, r, "%s", e.text[0] ? e.text : strerror(-r));
	return r == 0;
}

static int choose(struct count *k, struct inspect *i, const struct candidates *list,
		  struct errmsg *e)
{
	char why[512];

	k->at = calloc(list->n + 1, sizeof(*k->at));
	if (!k->at)
		return -ENOMEM;
	for (size_t n = 0; n < list->n; n++)
		if (!list->at[n].why_not && is_fit(k, i, &list->at[n]))
			k->at[k->n++].f = &list->at[n];
	if (k->n)
		return 0;
	candidates_tell_none(i, k->c, why, sizeof(why));
	return errmsg_set(e, -ENOENT, "process %d: no function to count: %s", k->c->pid,
			  k->n_unfit ? k->no_fit.text : why);
}

int probes_count(struct inspect *i, const struct probes_command *c)
{
	struct candidates list = {0};
	struct count k = {.c = c, .watch = {.signal_fd = -1}};
	struct errmsg e = {""};
	int r = candidates_find(&list, i, c, c->all ? CANDIDATES_ALL : CANDIDATES_MAX);

	r = r < 0 ? r : choose(&k, i, &list, &e);
	r = r < 0 ? r : probes_watch_init(&k.watch);
	r = r < 0 ? r : count_all(&k, &e);
	probes_watch_deinit(&k.watch);
	if (r < 0)
		log_error("%s", e.text[0] ? e.text : strerror(-r));
	else
		print_result(&k, &list);
	free(k.at);
	vec_free(&list);
	return r < 0 ? EXIT_FAILED : 0;
}
