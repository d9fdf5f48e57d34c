/* SPDX-License-Identifier: Apache-2.0 */
#include "app/profiler.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "app/targets.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/vec.h"
#include "pipe/limits.h"

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

struct open_gate {
	uint32_t target; /* index */
	struct wire_gate gate;
	uint64_t tasks; /* that it was opened for: see gate_plan */
	bool is_shared; /* it has served others, too: max_spans is no longer left to BPF */
	bool wanted;
};

/* An instance with a running task. */
struct active {
	uint32_t instance_id;
	VEC(pid_t) pids; /* attached */
	VEC(struct open_gate) gates;
	bool wanted;
	bool told; /* that it cannot be attached */
};

struct profiler {
	struct profiler_options options;
	struct engine *engine; /* NULL: could not be made anew */
	const struct rules *rules;
	struct target_list targets;
	VEC(struct active) active;
	struct profiler_stats stats;
	uint64_t last_ns; /* of the last dispatch */
	uint64_t renewed_ns;
	size_t n_locations; /* of the profile, at the last look */
	uint64_t rest_at;   /* unless there are more until then; 0: they rest already */
	uint64_t rest_ns;
	bool is_measured; /* how this kernel probes: that takes a child, which is refused later on */
	struct attach_source source;
	struct site_rules site_rules;
};

/* ---- the engine ---- */

/* An endpoint may be named after the function that it turned out to be. */
static struct gate_endpoint names_of(const struct profiler *p, const struct target *t)
{
	return p->engine && t->slot != SLOT_NONE ? target_names(engine_endpoint(p->engine, t->slot))
						 : t->names;
}

static void hand_out(struct profiler *p, struct profile *profile, uint32_t span_idx,
		     const struct target *t)
{
	struct profile_endpoint *row = &profile->endpoints.at[profile->spans.at[span_idx].endpoint];
	const struct gate_endpoint names = names_of(p, t);

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

/* ---- attaching and detaching ---- */

static void detach_pids(struct profiler *p, struct active *a)
{
	for (size_t i = 0; i < a->pids.n; i++)
		engine_remove_process(p->engine, a->pids.at[i]);
	a->pids.n = 0;
}

/* What the gate had let in so far is handed out, then what is still open. */
static void close_gate(struct profiler *p, struct active *a, size_t idx, uint64_t now_ns)
{
	struct open_gate *g = &a->gates.at[idx];
	uint32_t slot = p->targets.at[g->target].slot;

	*g = a->gates.at[--a->gates.n];
	engine_clear_gate(p->engine, slot, a->instance_id);
	if (engine_dispatch(p->engine, now_ns) ||
	    pipeline_finish_gate(engine_pipeline(p->engine), slot, a->instance_id, now_ns))
		p->stats.n_attach_failed++;
}

static void deactivate(struct profiler *p, size_t idx, uint64_t now_ns)
{
	struct active *a = &p->active.at[idx];

	while (a->gates.n)
		close_gate(p, a, 0, now_ns);
	a = &p->active.at[idx];
	detach_pids(p, a);
	limits_remove(engine_limits(p->engine), a->instance_id);
	vec_free(&a->pids);
	vec_free(&a->gates);
	*a = p->active.at[--p->active.n];
}

static void deactivate_all(struct profiler *p, uint64_t now_ns)
{
	while (p->active.n)
		deactivate(p, p->active.n - 1, now_ns);
}

static void add_runtime(const struct profiler *p, struct bpftime *sum)
{
	struct bpftime now = {};

	if (!p->engine || engine_runtime(p->engine, &now))
		return;
	sum->run_ns += now.run_ns;
	sum->n_runs += now.n_runs;
}

/* Nothing may be attached when the engine is made anew: slots and counters start again. */
static void renew(struct profiler *p, uint64_t now_ns)
{
	struct errmsg e = {};

	deactivate_all(p, now_ns);
	add_runtime(p, &p->stats.bpf);
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
	same = list.n == p->targets.n;
	for (size_t i = 0; same && i < list.n; i++)
		same = same_text(list.at[i].spec, p->targets.at[i].spec) &&
		       same_text(list.at[i].name, p->targets.at[i].name) &&
		       !strcmp(list.at[i].rule->name, p->targets.at[i].rule->name);
	if (same) {
		/* Slots stay; running spans are not touched. */
		for (size_t i = 0; i < list.n; i++)
			list.at[i].slot = p->targets.at[i].slot;
	} else {
		deactivate_all(p, now_ns);
		if (has_slots(p))
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

/* ---- following the schedule ---- */

static void note_tasks(struct profiler *p, uint32_t instance_id, const char *why)
{
	for (size_t i = 0; i < schedule_n_tasks(p->options.schedule); i++) {
		struct schedule_task *t = schedule_task_at(p->options.schedule, i);

		if (schedule_active_run(t, instance_id))
			schedule_note(p->options.schedule, t, instance_id, why);
	}
}

static bool runs_on(const struct schedule_task *t, uint32_t instance_id)
{
	for (size_t i = 0; i < t->runs.n; i++) {
		const struct schedule_run *r = &t->runs.at[i];

		if (r->instance_id == instance_id && r->state == TASK_STATE_RUNNING)
			return !t->task.max_spans || r->n_spans < t->task.max_spans;
	}
	return false;
}

static struct gate_plan plan_gate(struct profiler *p, const struct target *t, uint32_t instance_id)
{
	const struct gate_endpoint names = names_of(p, t);
	struct gate_plan plan = {};

	for (size_t i = 0; i < schedule_n_tasks(p->options.schedule); i++) {
		const struct schedule_task *st = schedule_task_at(p->options.schedule, i);

		if (runs_on(st, instance_id))
			gate_plan_add(&plan, &st->task, gate_match(&st->task, st->local, &names),
				      p->rules->limits.max_parallel);
	}
	gate_plan_finish(&plan);
	plan.gate.period_ns = budget_period(p->options.budget, plan.gate.period_ns);
	return plan;
}

bool profiler_knows_endpoint(const struct profiler *p, const struct task *t, struct errmsg *e)
{
	return targets_know(&p->targets, t, e);
}

/* All endpoints of a service get their slots at once: later ones would miss attached processes. */
static int make_slots(struct profiler *p, const struct rules_service *rule, struct errmsg *e)
{
	for (size_t i = 0; i < p->targets.n; i++) {
		struct target *t = &p->targets.at[i];
		struct endpoint *ep = NULL;
		int r;

		if (t->rule != rule || t->slot != SLOT_NONE)
			continue;
		r = parse_endpoint(t->spec, &ep, e);
		if (!r && t->name)
			r = endpoint_set_name(ep, t->name);
		if (!r)
			r = engine_add_endpoint(p->engine, ep, &t->slot);
		if (r) {
			endpoint_free(ep);
			t->slot = SLOT_NONE;
			return errmsg_set(
				e, r,
				"endpoint '%.200s' has no place: the agent can watch %d at a time",
				t->spec, WIRE_EP_MAX);
		}
	}
	return 0;
}

static struct active *find_active(struct profiler *p, uint32_t instance_id)
{
	for (size_t i = 0; i < p->active.n; i++)
		if (p->active.at[i].instance_id == instance_id)
			return &p->active.at[i];
	return NULL;
}

static struct open_gate *find_gate(struct active *a, uint32_t target)
{
	for (size_t i = 0; i < a->gates.n; i++)
		if (a->gates.at[i].target == target)
			return &a->gates.at[i];
	return NULL;
}

/* Over budget: spans that have begun go on, no further ones begin. */
static void refuse_new_spans(struct profiler *p, uint32_t slot, uint32_t instance_id,
			     struct wire_gate *gate)
{
	struct wire_gate now = {};

	if (!p->options.budget->refuse || engine_get_gate(p->engine, slot, instance_id, &now))
		return;
	gate->max_spans = now.n_started ? now.n_started : 1;
}

static void set_gate(struct profiler *p, struct active *a, uint32_t target,
		     const struct gate_plan *plan)
{
	uint32_t slot = p->targets.at[target].slot;
	struct open_gate *g = find_gate(a, target);
	struct wire_gate gate = plan->gate;
	struct errmsg e = {};

	if (!g) {
		if (vec_push(&a->gates, (struct open_gate){.target = target, .tasks = plan->tasks}))
			return;
		g = &a->gates.at[a->gates.n - 1];
	}
	g->wanted = true;
	/* BPF counts since the gate was opened: for other tasks the count is not theirs. */
	g->is_shared |= g->tasks != plan->tasks;
	if (g->is_shared)
		gate.max_spans = 0;
	refuse_new_spans(p, slot, a->instance_id, &gate);
	if (!memcmp(&gate, &g->gate, sizeof(gate)))
		return;
	if (engine_set_gate(p->engine, slot, a->instance_id, &gate, &e))
		note_tasks(p, a->instance_id, e.text);
	g->gate = gate;
}

/* Endpoints of other services are nothing to the processes of this one. */
static uint64_t endpoints_of(const struct profiler *p, const struct rules_service *rule)
{
	uint64_t endpoints = 0;

	for (size_t i = 0; i < p->targets.n; i++)
		if (p->targets.at[i].rule == rule && p->targets.at[i].slot != SLOT_NONE)
			endpoints |= 1ULL << p->targets.at[i].slot;
	return endpoints;
}

static bool has_pid(const struct active *a, pid_t pid)
{
	for (size_t i = 0; i < a->pids.n; i++)
		if (a->pids.at[i] == pid)
			return true;
	return false;
}

static void attach_pids(struct profiler *p, struct active *a)
{
	const pid_t *pids;
	size_t n = instances_pids(p->options.instances, a->instance_id, &pids);
	struct errmsg e = {};
	const char *warning;

	for (size_t i = 0; i < n; i++) {
		int r;

		if (has_pid(a, pids[i]))
			continue;
		r = engine_add_process(p->engine, pids[i], a->instance_id, &e);
		if (!r)
			r = vec_push(&a->pids, pids[i]);
		if (!r || r == -ESRCH)
			continue;
		p->stats.n_attach_failed++;
		if (!a->told)
			note_tasks(p, a->instance_id, e.text[0] ? e.text : strerror(-r));
		a->told = true;
	}
	probes_close_debug(engine_probes(p->engine));
	while ((warning = probes_next_warning(engine_probes(p->engine))))
		note_tasks(p, a->instance_id, warning);
}

static void activate(struct profiler *p, const struct instance *i)
{
	const struct rules_service *rule = instances_rule(p->options.instances, i->id);
	struct active *a = find_active(p, i->id);
	struct errmsg e = {};
	bool any = false;

	for (size_t k = 0; k < p->targets.n; k++) {
		struct gate_plan plan;

		if (p->targets.at[k].rule != rule)
			continue;
		plan = plan_gate(p, &p->targets.at[k], i->id);
		if (!plan.n_tasks)
			continue;
		if (!a) {
			if (vec_push(&p->active, (struct active){.instance_id = i->id}))
				return;
			a = &p->active.at[p->active.n - 1];
		}
		if (make_slots(p, rule, &e)) {
			if (!a->told)
				note_tasks(p, i->id, e.text);
			a->told = a->wanted = true;
			return;
		}
		set_gate(p, a, k, &plan);
		any = true;
	}
	if (!any)
		return;
	a->wanted = true;
	if (limits_set(engine_limits(p->engine), i->id, endpoints_of(p, rule)))
		return; /* tried again at the next change */
	attach_pids(p, a);
}

bool profiler_is_incomplete(const struct profiler *p)
{
	const pid_t *pids;

	for (size_t i = 0; i < p->active.n; i++)
		if (instances_pids(p->options.instances, p->active.at[i].instance_id, &pids) >
		    p->active.at[i].pids.n)
			return true;
	return false;
}

bool profiler_is_attached(const struct profiler *p, pid_t pid)
{
	for (size_t i = 0; i < p->active.n; i++)
		if (has_pid(&p->active.at[i], pid))
			return true;
	return false;
}

void profiler_forget_process(struct profiler *p, pid_t pid)
{
	if (p->engine)
		engine_remove_process(p->engine, pid);
	for (size_t i = 0; i < p->active.n; i++) {
		struct active *a = &p->active.at[i];

		for (size_t k = a->pids.n; k-- > 0;)
			if (a->pids.at[k] == pid)
				a->pids.at[k] = a->pids.at[--a->pids.n];
	}
}

static bool has_task(const struct profiler *p, uint32_t instance_id)
{
	for (size_t i = 0; i < schedule_n_tasks(p->options.schedule); i++)
		if (runs_on(schedule_task_at(p->options.schedule, i), instance_id))
			return true;
	return false;
}

void profiler_sync(struct profiler *p, uint64_t now_ns)
{
	const struct instance *inst;

	if (!p->engine)
		return;
	for (size_t i = 0; i < p->active.n; i++) {
		p->active.at[i].wanted = false;
		for (size_t k = 0; k < p->active.at[i].gates.n; k++)
			p->active.at[i].gates.at[k].wanted = false;
	}
	for (size_t i = 0; (inst = instances_at(p->options.instances, i)); i++)
		if (has_task(p, inst->id))
			activate(p, inst);
	for (size_t i = p->active.n; i-- > 0;) {
		struct active *a = &p->active.at[i];

		if (!a->wanted) {
			deactivate(p, i, now_ns);
			continue;
		}
		for (size_t k = a->gates.n; k-- > 0;)
			if (!a->gates.at[k].wanted)
				close_gate(p, a, k, now_ns);
	}
}

/* ---- records ---- */

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

/* ---- figures ---- */

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
