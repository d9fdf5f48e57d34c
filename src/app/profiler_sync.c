/* SPDX-License-Identifier: Apache-2.0 */
/* profiler_sync.c: instances are attached and gates are open as the schedule's running tasks want it. */
#include <errno.h>
#include <string.h>

#include "app/profiler_priv.h"
#include "pipe/limits.h"

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

void profiler_deactivate(struct profiler *p, size_t idx, uint64_t now_ns)
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
	const struct gate_endpoint names = profiler_names(p, t);
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
			profiler_deactivate(p, i, now_ns);
			continue;
		}
		for (size_t k = a->gates.n; k-- > 0;)
			if (!a->gates.at[k].wanted)
				close_gate(p, a, k, now_ns);
	}
}
