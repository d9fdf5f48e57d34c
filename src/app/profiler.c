/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "app/profiler_priv.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#define RING_BYTES (2UL << 20) /* resident twice over while something is attached */

/* About a second's work, for one file of anybody's, between two rests: meanwhile nothing else is done. */
#define DEBUG_STEPS_MAX (16UL << 20)

#define BUSY_INTERVAL_NS 50000000ULL   /* between two looks while something runs */
#define IDLE_INTERVAL_NS 1000000000ULL /* and while nothing does */
#define RENEW_EVERY_NS   60000000000ULL
/* Symbol tables are given back when no new location has come for so long, then for twice as long... */
#define REST_MIN_NS 10000000000ULL
#define REST_MAX_NS 600000000000ULL
/* Less is the time between two readings. */
#define CLOCK_STEP_NS 1000000LL

/* An endpoint may be named after the function that it turned out to be. */
struct gate_endpoint profiler_names(const struct profiler *p, const struct target *t)
{
	return p->engine && t->slot != SLOT_NONE ? target_names(engine_endpoint(p->engine, t->slot))
						 : t->names;
}

static void hand_out(struct profiler *p, struct profile *profile, uint32_t span_idx,
		     const struct target *t)
{
	struct profile_endpoint *row = &profile->endpoints.at[profile->spans.at[span_idx].endpoint];
	const struct gate_endpoint names = profiler_names(p, t);

	if (strpool_add(profile->strings, names.display, &row->name))
		profile->counters.v[COUNTER_STRINGS_FULL]++;
	p->options.on_span(p->options.ctx, profile, span_idx, &names);
}

static void on_span(void *ctx, struct profile *profile, uint32_t span_idx)
{
	struct profiler *p = ctx;
	uint32_t slot = profile->spans.at[span_idx].endpoint - 1;

	for (size_t i = 0; i < p->targets.n; i++) {
		if (p->targets.at[i].slot != slot)
			continue;
		hand_out(p, profile, span_idx, &p->targets.at[i]);
		break;
	}
	profile_clear_spans(profile);
}

static void on_event(void *ctx, const struct engine_event *event)
{
	struct profiler *p = ctx;

	p->options.on_process(p->options.ctx, event);
}

static void describe(struct profile *p)
{
	struct utsname u = {};

	uname(&u);
	p->start_mono_ns = clock_mono_ns();
	p->start_real_ns = clock_real_ns();
	if (strpool_add(p->strings, u.nodename, &p->hostname) ||
	    strpool_add(p->strings, u.release, &p->kernel_release))
		p->counters.v[COUNTER_STRINGS_FULL]++;
}

static int make_engine(struct profiler *p, struct errmsg *e)
{
	const struct engine_options options = {
		.probes = {.preset_callers = true,
			   .source = p->source,
			   .rules = p->site_rules,
			   .debug_max_bytes = p->options.debug_max_bytes},
		.is_measured = p->is_measured,
		.cost = p->cost,
		.max_overhead_ppm = p->options.max_overhead_ppm,
		.pipeline = {.symbols = {.lines = true,
					 .debug_max_bytes = p->options.debug_max_bytes,
					 .debug_max_steps = DEBUG_STEPS_MAX,
					 .on_debug_left_out = p->options.on_debug_left_out,
					 .ctx = p->options.ctx},
			     .max_snapshots = p->options.max_snapshots,
			     .on_span = on_span,
			     .ctx = p},
		.ring_bytes = RING_BYTES,
		.lazy_ring = true,
		.walk_min_ns = BUSY_INTERVAL_NS,
		.kernel_stacks = true,
		.follow_forks = true,
		.on_event = on_event,
		.ctx = p,
	};
	int r = engine_new(&p->engine, &options, e);

	if (r)
		return r;
	p->is_measured = true;
	p->source = engine_measured(p->engine)->source;
	p->site_rules = engine_measured(p->engine)->rules;
	p->cost = *engine_trapcost(p->engine);
	describe(pipeline_profile(engine_pipeline(p->engine)));
	for (size_t i = 0; i < p->targets.n; i++)
		p->targets.at[i].slot = SLOT_NONE;
	return 0;
}

int profiler_new(struct profiler **ret, const struct profiler_options *options, struct errmsg *e)
{
	struct profiler *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return errmsg_set(e, -ENOMEM, "out of memory");
	p->options = *options;
	p->rest_ns = REST_MIN_NS;
	r = make_engine(p, e);
	if (r) {
		profiler_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

struct profiler *profiler_free(struct profiler *p)
{
	if (!p)
		return NULL;
	engine_free(p->engine);
	targets_free(p->targets.at, p->targets.n);
	for (size_t i = 0; i < p->active.n; i++) {
		vec_free(&p->active.at[i].pids);
		vec_free(&p->active.at[i].gates);
	}
	vec_free(&p->active);
	free(p);
	return NULL;
}

int profiler_check_rules(const struct rules *rules, size_t *ret_n, struct errmsg *e)
{
	struct target_list list = {};
	int r = targets_of_rules(rules, &list, e);

	*ret_n = list.n;
	targets_free(list.at, list.n);
	return r;
}

static bool same_text(const char *a, const char *b)
{
	return !strcmp(a ? a : "", b ? b : "");
}

static void deactivate_all(struct profiler *p, uint64_t now_ns)
{
	while (p->active.n)
		profiler_deactivate(p, p->active.n - 1, now_ns);
}

static void add_runtime(const struct profiler *p, struct bpftime *sum)
{
	struct bpftime now = {};

	if (!p->engine || engine_runtime(p->engine, &now))
		return;
	sum->run_ns += now.run_ns;
	sum->n_runs += now.n_runs;
}

static void add_turns(const struct profiler *p, struct profiler_stats *sum)
{
	struct profile_turns now = {};

	if (!p->engine || !p->options.max_overhead_ppm)
		return;
	engine_turns(p->engine, clock_mono_ns(), &now);
	sum->probed_ns += now.probed_ns;
	sum->n_turns += now.n_turns;
}

/* Nothing may be attached when the engine is made anew: slots and counters start again. */
static void renew(struct profiler *p, uint64_t now_ns)
{
	struct errmsg e = {};

	deactivate_all(p, now_ns);
	add_runtime(p, &p->stats.bpf);
	add_turns(p, &p->stats);
	p->costly = (struct costly){};
	p->engine = engine_free(p->engine);
	p->renewed_ns = now_ns;
	p->stats.n_renewed++;
	if (make_engine(p, &e))
		log_error("event=engine_lost error=\"%s\"", e.text);
}

static bool has_slots(const struct profiler *p)
{
	for (size_t i = 0; i < p->targets.n; i++)
		if (p->targets.at[i].slot != SLOT_NONE)
			return true;
	return false;
}

int profiler_set_rules(struct profiler *p, const struct rules *rules, struct errmsg *e)
{
	uint64_t now_ns = clock_mono_ns();
	struct target_list list = {};
	bool same;
	int r = targets_of_rules(rules, &list, e);

	if (r)
		return r;
	same = list.n == p->targets.n && rules->limits.overhead_ppm == p->options.max_overhead_ppm;
	for (size_t i = 0; same && i < list.n; i++)
		same = same_text(list.at[i].spec, p->targets.at[i].spec) &&
		       same_text(list.at[i].name, p->targets.at[i].name) &&
		       !strcmp(list.at[i].rule->name, p->targets.at[i].rule->name);
	if (same) {
		/* Slots stay; running spans are not touched. */
		for (size_t i = 0; i < list.n; i++)
			list.at[i].slot = p->targets.at[i].slot;
	} else {
		bool is_other = rules->limits.overhead_ppm != p->options.max_overhead_ppm;

		deactivate_all(p, now_ns);
		p->options.max_overhead_ppm = rules->limits.overhead_ppm;
		if (is_other || has_slots(p))
			renew(p, now_ns); /* slots cannot be given back one by one */
	}
	targets_free(p->targets.at, p->targets.n);
	p->targets = list;
	p->rules = rules;
	return 0;
}

/* Each location is looked up once; the tables that this takes are many times as large as the result. */
static void rest(struct profiler *p, uint64_t now_ns)
{
	size_t n = pipeline_profile(engine_pipeline(p->engine))->locations.n;

	if (n != p->n_locations) {
		p->n_locations = n;
		p->rest_at = now_ns + p->rest_ns;
	} else if (p->rest_at && now_ns >= p->rest_at) {
		pipeline_rest(engine_pipeline(p->engine));
		malloc_trim(0);
		p->rest_at = 0;
		p->rest_ns = 2 * p->rest_ns < REST_MAX_NS ? 2 * p->rest_ns : REST_MAX_NS;
	}
}

void profiler_keep_small(struct profiler *p, size_t max_bytes, uint64_t now_ns)
{
	if (!p->engine) {
		if (now_ns - p->renewed_ns > RENEW_EVERY_NS)
			renew(p, now_ns);
		return;
	}
	rest(p, now_ns);
	if (profile_bytes(pipeline_profile(engine_pipeline(p->engine))) <= max_bytes ||
	    (p->renewed_ns && now_ns - p->renewed_ns < RENEW_EVERY_NS))
		return;
	log_info("event=engine_renewed reason=\"its tables have grown over their limit\"");
	renew(p, now_ns);
	profiler_sync(p, now_ns);
}

int profiler_fd(const struct profiler *p)
{
	return p->engine ? engine_fd(p->engine) : -1;
}

uint64_t profiler_generation(const struct profiler *p)
{
	return p->stats.n_renewed;
}

uint64_t profiler_deadline(const struct profiler *p)
{
	if (!p->engine)
		return UINT64_MAX;
	return p->last_ns + (p->active.n ? BUSY_INTERVAL_NS : IDLE_INTERVAL_NS);
}

int profiler_dispatch(struct profiler *p, uint64_t now_ns)
{
	p->last_ns = now_ns;
	return p->engine ? engine_dispatch(p->engine, now_ns) : 0;
}

void profiler_follow_clock(struct profiler *p, uint64_t mono_ns, uint64_t real_ns)
{
	struct profile *profile;
	int64_t off_ns;

	if (!p->engine)
		return;
	profile = pipeline_profile(engine_pipeline(p->engine));
	off_ns = (int64_t)(real_ns - mono_ns) -
		 (int64_t)(profile->start_real_ns - profile->start_mono_ns);
	if (off_ns > CLOCK_STEP_NS || off_ns < -CLOCK_STEP_NS)
		profile->start_real_ns += (uint64_t)off_ns;
}

const char *profiler_costly(struct profiler *p, uint64_t now_ns)
{
	if (!p->engine || p->options.max_overhead_ppm)
		return NULL;
	if (!p->active.n)
		p->costly = (struct costly){};
	return costly_look(&p->costly, p->engine, now_ns) ? p->costly.text : NULL;
}

int profiler_counters(const struct profiler *p, struct counters *ret)
{
	memset(ret, 0, sizeof(*ret));
	return p->engine ? engine_counters(p->engine, ret) : 0;
}

void profiler_stats(const struct profiler *p, struct profiler_stats *ret)
{
	*ret = p->stats;
	ret->n_gates = ret->n_processes = 0;
	add_runtime(p, &ret->bpf);
	add_turns(p, ret);
	for (size_t i = 0; i < p->active.n; i++) {
		ret->n_gates += p->active.at[i].gates.n;
		ret->n_processes += p->active.at[i].pids.n;
	}
	if (!p->engine)
		return;
	ret->n_open_spans = pipeline_open_spans(engine_pipeline(p->engine));
	ret->profile_bytes = profile_bytes(pipeline_profile(engine_pipeline(p->engine)));
}

int profiler_latency(const struct profiler *p, size_t idx, const char **ret_service,
		     const char **ret_endpoint, struct latency *ret)
{
	if (idx >= p->targets.n)
		return -ENOENT;
	*ret_service = p->targets.at[idx].rule->name;
	*ret_endpoint = p->targets.at[idx].names.display;
	if (!p->engine || p->targets.at[idx].slot == SLOT_NONE)
		return -EAGAIN;
	memset(ret, 0, sizeof(*ret));
	return engine_latency(p->engine, p->targets.at[idx].slot, ret);
}
