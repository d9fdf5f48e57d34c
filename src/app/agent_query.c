/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_query.c: what the control socket is told about the agent, as JSON. docs/control.md describes
 * every member.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "app/agent_priv.h"
#include "base/cleanup.h"
#include "base/clock.h"

enum { REAL_DIGITS = 15 }; /* 17 would show what a double cannot hold */

static void cleanup_json(json_t **j)
{
	json_decref(*j);
}

#define AUTO_JSON CLEANUP(cleanup_json)

/* Text from targets may not be UTF-8; what is not is left out rather than failing the whole answer. */
static void set_text(json_t *o, const char *key, const char *text)
{
	json_t *v = json_string(text ? text : "");

	json_object_set_new(o, key, v ? v : json_string("(not UTF-8)"));
}

static void set_number(json_t *o, const char *key, uint64_t v)
{
	json_object_set_new(o, key, json_integer((json_int_t)v));
}

static void set_ms(json_t *o, const char *key, uint64_t ns)
{
	json_object_set_new(o, key, json_real((double)ns / 1e6));
}

/* ---- tasks ---- */

/* Of the last run that has ended, or that none did; "" while the task goes on. */
static const char *how_finished(const struct schedule_task *t)
{
	if (t->state != TASK_STATE_FINISHED)
		return "";
	for (size_t i = t->runs.n; i-- > 0;)
		if (t->runs.at[i].finished_ms)
			return task_event_name(t->runs.at[i].how);
	return task_event_name(t->cancelled ? TASK_EVENT_CANCELLED : TASK_EVENT_FINISHED);
}

/* That of the first run that is in trouble stands for all. */
static void set_trouble(json_t *o, const struct schedule_task *t)
{
	char text[SCHEDULE_WHY_MAX + 64];
	const char *first = "";
	size_t n = 0;

	for (size_t i = t->runs.n; i-- > 0;) {
		if (!t->runs.at[i].trouble[0])
			continue;
		first = t->runs.at[i].trouble;
		n++;
	}
	if (n > 1)
		snprintf(text, sizeof(text), "%s (and trouble on %zu more)", first, n - 1);
	set_text(o, "trouble", n > 1 ? text : first);
}

static json_t *task_object(const struct schedule_task *t)
{
	const struct task *k = &t->task;
	json_t *o = json_object();
	size_t n_running = 0;

	for (size_t i = 0; i < t->runs.n; i++)
		n_running += t->runs.at[i].state == TASK_STATE_RUNNING;
	set_text(o, "id", k->id);
	set_text(o, "source", k->source);
	set_text(o, "state", task_state_name(t->state));
	set_text(o, "service", k->service);
	set_text(o, "instance", k->instance);
	set_text(o, "endpoint", k->endpoint);
	set_ms(o, "threshold_ms", k->threshold_ns);
	set_ms(o, "period_ms", k->period_ns);
	set_ms(o, "duration_ms", k->duration_ns);
	set_number(o, "max_spans", k->max_spans);
	set_number(o, "max_parallel", k->max_parallel);
	json_object_set_new(o, "from_start", json_boolean(k->from_start));
	json_object_set_new(o, "end_by_count", json_boolean(k->end_by_count));
	set_number(o, "create_ms", k->create_ms);
	set_number(o, "start_ms", k->start_ms);
	set_number(o, "received_ms", t->received_ms);
	set_number(o, "started_ms", t->started_ms);
	set_number(o, "finished_ms", t->finished_ms);
	set_number(o, "n_running", n_running);
	set_number(o, "n_spans", t->n_spans);
	set_text(o, "how", how_finished(t));
	set_trouble(o, t);
	set_text(o, "last", t->why);
	return o;
}

static json_t *list_tasks(struct agent *a)
{
	json_t *list = json_array(), *o = json_object();

	for (size_t i = 0; i < schedule_n_tasks(a->schedule); i++)
		json_array_append_new(list, task_object(schedule_task_at(a->schedule, i)));
	json_object_set_new(o, "tasks", list);
	return o;
}

static const struct schedule_task *find_task(struct agent *a, const struct control_request *r)
{
	for (size_t i = 0; i < schedule_n_tasks(a->schedule); i++) {
		const struct schedule_task *t = schedule_task_at(a->schedule, i);

		if (!strcmp(t->task.id, r->id) &&
		    (!r->source[0] || !strcmp(t->task.source, r->source)))
			return t;
	}
	return NULL;
}

static json_t *show_task(const struct schedule_task *t)
{
	json_t *runs = json_array(), *o = task_object(t);

	for (size_t i = 0; i < t->runs.n; i++) {
		const struct schedule_run *r = &t->runs.at[i];
		json_t *run = json_object();

		set_text(run, "instance", r->instance);
		set_text(run, "state", task_state_name(r->state));
		set_text(run, "how", r->finished_ms ? task_event_name(r->how) : "");
		set_number(run, "started_ms", r->started_ms);
		set_number(run, "finished_ms", r->finished_ms);
		set_number(run, "n_spans", r->n_spans);
		set_text(run, "trouble", r->trouble);
		json_array_append_new(runs, run);
	}
	json_object_set_new(o, "runs", runs);
	set_number(o, "n_old_runs", t->n_old_runs);
	return o;
}

static void add_log_entry(void *ctx, const struct store_log_entry *entry)
{
	json_t *o = json_object();

	set_number(o, "ms", entry->ms);
	set_text(o, "source", entry->source);
	set_text(o, "id", entry->id);
	set_text(o, "instance", entry->instance);
	set_text(o, "event", entry->event);
	set_text(o, "text", entry->why);
	json_array_append_new(ctx, o);
}

static json_t *show_log(struct agent *a, const struct control_request *r)
{
	json_t *list = json_array(), *o = json_object();

	if (store_load_log(a->store, r->source, r->id, r->limit, add_log_entry, list))
		set_text(o, "warning", "the store could not be read to its end");
	json_object_set_new(o, "log", list);
	return o;
}

/* ---- spans, instances ---- */

static void add_span(void *ctx, const struct store_span *s)
{
	json_t *o = json_object();

	set_number(o, "span", s->serial);
	set_text(o, "source", s->source);
	set_text(o, "task", s->task_id);
	set_text(o, "service", s->service);
	set_text(o, "instance", s->instance);
	set_text(o, "endpoint", s->endpoint);
	set_text(o, "name", s->name);
	set_number(o, "pid", s->tgid);
	set_number(o, "tid", s->tid);
	set_number(o, "start_ms", s->start_ms);
	set_ms(o, "duration_ms", s->duration_ns);
	set_ms(o, "on_cpu_ms", s->oncpu_ns);
	set_ms(o, "run_queue_ms", s->runq_ns);
	set_ms(o, "blocked_ms", s->blocked_ns);
	set_number(o, "snapshots_due", s->n_due);
	set_number(o, "snapshots_kept", s->n_kept);
	set_text(o, "end", end_reason_name(s->end_reason));
	json_array_append_new(ctx, o);
}

static json_t *list_spans(struct agent *a, const struct control_request *r)
{
	const struct store_filter f = {.task_id = r->id,
				       .service = r->service,
				       .instance = r->instance,
				       .min_ns = r->min_ns,
				       .limit = r->limit,
				       .slowest = r->slowest};
	json_t *list = json_array(), *o = json_object();

	if (store_list_spans(a->store, &f, add_span, list))
		set_text(o, "warning", "the store could not be read to its end");
	json_object_set_new(o, "spans", list);
	return o;
}

static json_t *list_instances(struct agent *a)
{
	json_t *list = json_array(), *o = json_object();
	const struct instance *i;

	for (size_t n = 0; (i = instances_at(a->instances, n)); n++) {
		json_t *one = json_object(), *pids = json_array();
		const pid_t *at;
		size_t n_pids = instances_pids(a->instances, i->id, &at);

		for (size_t k = 0; k < n_pids; k++)
			json_array_append_new(pids, json_integer(at[k]));
		set_text(one, "service", i->service);
		set_text(one, "instance", i->name);
		set_text(one, "layer", i->layer);
		set_number(one, "pid", i->pid);
		set_number(one, "started_ms", i->started_ms);
		json_object_set_new(one, "accepts",
				    json_boolean(instances_accepts(a->instances, i->id)));
		json_object_set_new(one, "pids", pids);
		json_array_append_new(list, one);
	}
	json_object_set_new(o, "instances", list);
	return o;
}

/* ---- the agent itself ---- */

static json_t *counters_object(struct agent *a)
{
	json_t *o = json_object();
	struct counters c;

	if (profiler_counters(a->profiler, &c))
		return o;
	for (unsigned int i = 0; i < COUNTER_MAX; i++)
		if (c.v[i] && counter_is_loss(i))
			set_number(o, counter_name(i), c.v[i]);
	return o;
}

static const char *agent_link_kind(const struct agent_link *l)
{
	if (l->source)
		return l->source->ops->kind;
	return l->sink ? l->sink->ops->kind : "";
}

static json_t *links_object(struct agent *a)
{
	json_t *list = json_array();

	for (size_t i = 0; i < a->links.n; i++) {
		const struct agent_link *l = &a->links.at[i];
		struct link_status s = {.state = "ready"};
		json_t *o = json_object();

		if (l->source && l->source->ops->status)
			l->source->ops->status(l->source, &s);
		if (l->sink && l->sink->ops->status)
			l->sink->ops->status(l->sink, &s);
		set_text(o, "name", agent_link_name(l));
		set_text(o, "kind", agent_link_kind(l));
		set_text(o, "role", l->source ? "source" : "sink");
		set_text(o, "state", s.state);
		set_number(o, "sent", s.n_sent);
		set_number(o, "dropped", s.n_dropped);
		set_number(o, "errors", s.n_errors);
		set_number(o, "queued_bytes", s.queued_bytes);
		json_array_append_new(list, o);
	}
	return list;
}

static void set_profiler(struct agent *a, json_t *o)
{
	struct profiler_stats ps;

	profiler_stats(a->profiler, &ps);
	set_number(o, "attached_processes", ps.n_processes);
	set_number(o, "gates", ps.n_gates);
	set_number(o, "open_spans", ps.n_open_spans);
	set_number(o, "table_bytes", ps.profile_bytes);
	set_number(o, "attach_failed", ps.n_attach_failed);
	set_number(o, "engine_renewed", ps.n_renewed);
}

static json_t *top(struct agent *a)
{
	struct instances_stats is;
	json_t *o = json_object();

	instances_stats(a->instances, &is);
	set_text(o, "version", SPANPROF_VERSION);
	set_number(o, "uptime_ms", (clock_mono_ns() - a->started_ns) / 1000000);
	set_number(o, "rss_bytes", a->rss_bytes);
	json_object_set_new(o, "cpu_percent", json_real(a->budget.permille / 10));
	json_object_set_new(o, "cpu_limit_percent", json_real(a->budget.limit_permille / 10.0));
	set_number(o, "period_factor", a->budget.factor ? a->budget.factor : 1);
	json_object_set_new(o, "refuses_spans", json_boolean(a->budget.refuse));
	set_number(o, "instances", is.n_instances);
	set_number(o, "processes", is.n_processes);
	set_number(o, "spans", a->counts.n_spans);
	set_number(o, "spans_unwanted", a->counts.n_spans_unwanted);
	set_number(o, "snapshots", a->counts.n_snapshots);
	set_number(o, "snapshots_due", a->counts.n_snapshots_due);
	set_profiler(a, o);
	json_object_set_new(o, "losses", counters_object(a));
	json_object_set_new(o, "links", links_object(a));
	json_object_update_missing_new(o, list_tasks(a));
	return o;
}

static json_t *metrics(struct agent *a)
{
	AUTO_FREE char *text = agent_metrics(a);
	json_t *o = json_object();

	set_text(o, "text", text);
	return o;
}

/* ---- dispatch ---- */

static int no_store(enum control_error *ret_error, struct errmsg *e)
{
	*ret_error = CONTROL_E_REFUSED;
	return errmsg_set(e, -ENOENT,
			  "the agent keeps no store; set agent.store in its rules file");
}

static json_t *answer(struct agent *a, const struct control_request *r,
		      enum control_error *ret_error, struct errmsg *e)
{
	const struct schedule_task *t;

	switch (r->command) {
	case CONTROL_TASK_LIST:
		return list_tasks(a);
	case CONTROL_TASK_SHOW:
		t = find_task(a, r);
		if (t)
			return show_task(t);
		*ret_error = CONTROL_E_NOT_FOUND;
		errmsg_set(e, 0, "there is no task '%.100s'; see `spanprof task list`", r->id);
		return NULL;
	case CONTROL_TASK_LOG:
	case CONTROL_SPAN_LIST:
		if (!a->store) {
			no_store(ret_error, e);
			return NULL;
		}
		store_flush(a->store);
		return r->command == CONTROL_TASK_LOG ? show_log(a, r) : list_spans(a, r);
	case CONTROL_INSTANCE_LIST:
		return list_instances(a);
	case CONTROL_TOP:
		return top(a);
	case CONTROL_METRICS:
		return metrics(a);
	default:
		*ret_error = CONTROL_E_INVALID;
		errmsg_set(e, 0, "'%s' cannot be asked", control_command_name(r->command));
		return NULL;
	}
}

int agent_query(void *ctx, const struct control_request *r, char **ret_result,
		enum control_error *ret_error, struct errmsg *e)
{
	AUTO_JSON json_t *result = NULL;

	*ret_error = CONTROL_E_INTERNAL;
	result = answer(ctx, r, ret_error, e);
	if (!result)
		return -EINVAL;
	*ret_result = json_dumps(result, JSON_COMPACT | JSON_REAL_PRECISION(REAL_DIGITS));
	return *ret_result ? 0 : errmsg_set(e, -ENOMEM, "out of memory");
}
