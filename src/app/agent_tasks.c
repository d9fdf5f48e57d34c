/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_tasks.c: tasks from the sources into the schedule, and what the schedule wants to the profiler,
 * the sinks, the store and the log.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "app/agent_priv.h"
#include "base/clock.h"
#include "net/tracecontext.h"

enum { REFUSALS_PER_SECOND = 1000 }; /* written down; the others are only counted */

struct schedule_now agent_now(void)
{
	return (struct schedule_now){.mono_ns = clock_mono_ns(),
				     .real_ms = (int64_t)(clock_real_ns() / 1000000)};
}

/* ---- in ---- */

static void move_watermark(struct agent *a, const char *source, uint32_t instance_id,
			   int64_t create_ms)
{
	const struct instance *i = instance_id ? instances_find(a->instances, instance_id) : NULL;
	struct schedule_now now = agent_now();
	uint64_t key;

	if (!i)
		return;
	key = watermark_key(source, i->service, i->name);
	if (watermarks_move(&a->watermarks, key, create_ms, now.real_ms) && a->store)
		store_save_watermark(a->store, key, create_ms, now.real_ms);
}

/* A local task for a service that no rule can ever make is a slip of the pen. */
static bool can_be_service(const struct rules *rules, const char *service, struct errmsg *e)
{
	char names[256] = "";
	size_t used = 0;

	for (unsigned int i = 0; i < rules->n_services; i++) {
		const char *name = rules->services[i].name;

		if (!strcmp(name, service) || strchr(name, '{'))
			return true;
		if (used < sizeof(names))
			used += snprintf(names + used, sizeof(names) - used, "%s%s",
					 used ? ", " : "", name);
	}
	errmsg_set(e, 0, "there is no service '%.64s' in the rules; there are: %s", service,
		   names[0] ? names : "none");
	return false;
}

static void write_log(struct agent *a, enum task_event event, struct store_log_entry *entry)
{
	bool is_trouble = event == TASK_EVENT_NOTE || event == TASK_EVENT_REJECTED;

	entry->event = task_event_name(event);
	if (a->store)
		store_log(a->store, entry);
	agent_log(a, is_trouble ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO,
		  "event=task_%s source=%s task=\"%s\" instance=\"%s\" text=\"%s\"", entry->event,
		  entry->source, entry->id, entry->instance, entry->why);
}

static void on_refuse(void *ctx, const char *source, const char *task_id, uint32_t instance_id,
		      int64_t create_ms, const char *why)
{
	struct agent *a = ctx;
	const struct instance *i = instances_find(a->instances, instance_id);
	struct store_log_entry entry = {.ms = agent_now().real_ms,
					.source = source,
					.id = task_id ? task_id : "",
					.instance = i ? i->name : "",
					.why = why};

	move_watermark(a, source, instance_id, create_ms);
	a->counts.n_tasks_refused++;
	if (++a->n_refusals > REFUSALS_PER_SECOND)
		a->counts.n_log_suppressed++;
	else
		write_log(a, TASK_EVENT_REJECTED, &entry);
}

static enum task_answer on_submit(void *ctx, const struct task *task, uint32_t instance_id,
				  struct errmsg *e)
{
	struct agent *a = ctx;
	enum task_answer answer;
	struct errmsg why = {};

	if (!e)
		e = &why;
	move_watermark(a, task->source, instance_id, task->create_ms);
	if (!instance_id && (!can_be_service(a->rules, task->service, e) ||
			     !profiler_knows_endpoint(a->profiler, task, e))) {
		on_refuse(a, task->source, task->id, 0, task->create_ms, e->text);
		return TASK_REFUSED;
	}
	answer = schedule_submit(a->schedule, task, instance_id, agent_now(), e);
	a->counts.n_tasks_accepted += answer == TASK_ACCEPTED;
	a->counts.n_tasks_refused += answer == TASK_REFUSED;
	a->counts.n_tasks_known += answer == TASK_KNOWN;
	a->counts.n_tasks_not_for_us += answer == TASK_NOT_FOR_US;
	return answer;
}

static int on_cancel(void *ctx, const char *source, const char *task_id, struct errmsg *e)
{
	struct agent *a = ctx;

	for (size_t i = 0; !source && i < schedule_n_tasks(a->schedule); i++) {
		const struct schedule_task *t = schedule_task_at(a->schedule, i);

		if (!strcmp(t->task.id, task_id) && t->state != TASK_STATE_FINISHED)
			source = t->task.source;
	}
	return schedule_cancel(a->schedule, source ? source : "control", task_id, agent_now(), e);
}

static int64_t on_last_command(void *ctx, const char *source, uint32_t instance_id)
{
	struct agent *a = ctx;
	const struct instance *i = instances_find(a->instances, instance_id);

	return i ? watermarks_get(&a->watermarks, watermark_key(source, i->service, i->name)) : -1;
}

void agent_save_run(struct agent *a, const struct schedule_task *t, const struct schedule_run *run)
{
	struct schedule_run r = *run;

	if (r.untold)
		r.state = TASK_STATE_FLUSHING;
	store_save_run(a->store, t, &r);
}

/* From now on the run is over in the store, too. */
static void on_reported(void *ctx, const char *source, const char *task_id, const char *instance)
{
	struct agent *a = ctx;
	const struct schedule_task *t = schedule_find(a->schedule, source, task_id);

	for (size_t i = 0; t && i < t->runs.n; i++) {
		struct schedule_run *r = &t->runs.at[i];

		if (r->state != TASK_STATE_FINISHED || strcmp(r->instance, instance))
			continue;
		r->untold = false;
		if (a->store)
			agent_save_run(a, t, r);
	}
}

void agent_tasks_init(struct agent *a)
{
	a->intake = (struct task_intake){.ctx = a,
					 .submit = on_submit,
					 .refuse = on_refuse,
					 .cancel = on_cancel,
					 .last_command_ms = on_last_command,
					 .reported = on_reported};
}

/* ---- spans ---- */

static void count_snapshots(struct agent *a, const struct profile_span *s)
{
	a->counts.n_snapshots += s->n_kept;
	a->counts.n_snapshots_due += s->n_due;
}

/* Tasks name endpoints; the caller's trace context that a span's name may end in is not part of that. */
static void name_of_span(const struct profile *p, const struct profile_span *s, char *buf, size_t n)
{
	const char *name = strpool_get(p->strings, s->name), *context;
	size_t bytes = tracecontext_split(name, &context);

	snprintf(buf, n, "%.*s", (int)(bytes < n ? bytes : n - 1), name);
}

/* A task's count goes on after a restart. */
static void count_in_store(struct agent *a, struct schedule_task *t, uint32_t instance_id)
{
	const struct schedule_run *r = schedule_active_run(t, instance_id);

	if (a->store && r)
		store_count_spans(a->store, t, r);
}

void agent_on_span(void *ctx, struct profile *profile, uint32_t span,
		   const struct gate_endpoint *ep)
{
	struct agent *a = ctx;
	const struct profile_span *s = &profile->spans.at[span];
	char name[TASK_ENDPOINT_MAX * 2];
	struct sink_span out = {.profile = profile,
				.span = span,
				.instance = instances_find(a->instances, s->instance_id)};
	bool taken = false;

	name_of_span(profile, s, name, sizeof(name));
	for (size_t i = 0; out.instance && i < schedule_n_tasks(a->schedule); i++) {
		struct schedule_task *t = schedule_task_at(a->schedule, i);

		if (!schedule_active_run(t, s->instance_id) ||
		    !gate_takes_span(&t->task, t->local, ep, name, s->end_ns - s->start_ns) ||
		    !schedule_take_span(a->schedule, t, s->instance_id, agent_now()))
			continue;
		out.task = &t->task;
		out.serial = a->serial++;
		for (size_t k = 0; k < a->links.n; k++)
			if (a->links.at[k].sink)
				a->links.at[k].sink->ops->span(a->links.at[k].sink, &out);
		count_in_store(a, t, s->instance_id);
		taken = true;
		a->counts.n_spans++;
		/* Its spans may be used up now: then its gate is closed. */
		a->is_dirty |= t->task.max_spans != 0;
	}
	if (taken)
		count_snapshots(a, s);
	else
		a->counts.n_spans_unwanted++;
}

/* ---- out ---- */

/* A run may outlive its instance: then the sinks get one with its names only. */
static const struct instance *instance_of(struct agent *a, const struct schedule_action *act,
					  struct instance *made_up)
{
	const struct instance *i = instances_find(a->instances, act->instance_id);

	if (i || !act->instance[0])
		return i;
	*made_up = (struct instance){.id = act->instance_id,
				     .service = act->task ? act->task->task.service : "",
				     .name = (char *)act->instance,
				     .layer = ""};
	return made_up;
}

static bool has_sink(const struct agent *a, const char *source)
{
	for (size_t k = 0; k < a->links.n; k++)
		if (a->links.at[k].sink && !strcmp(a->links.at[k].sink->name, source))
			return true;
	return false;
}

static void save(struct agent *a, const struct schedule_action *act)
{
	if (!a->store || !act->task)
		return;
	store_save_task(a->store, act->task);
	for (size_t i = 0; i < act->task->runs.n; i++)
		if (!strcmp(act->task->runs.at[i].instance, act->instance))
			agent_save_run(a, act->task, &act->task->runs.at[i]);
}

static void mark_untold(struct agent *a, const struct schedule_action *act)
{
	for (size_t i = 0; act->task && has_sink(a, act->source) && i < act->task->runs.n; i++) {
		struct schedule_run *r = &act->task->runs.at[i];

		if (r->state == TASK_STATE_FINISHED && !strcmp(r->instance, act->instance))
			r->untold = true;
	}
}

static void tell_source(struct agent *a, const struct schedule_action *act)
{
	struct instance made_up;
	const struct instance *i = instance_of(a, act, &made_up);

	for (size_t k = 0; act->task && k < a->links.n; k++) {
		struct task_source *s = a->links.at[k].source;

		if (s && s->ops->task_event && !strcmp(s->name, act->source))
			s->ops->task_event(s, &act->task->task, i, act->event, act->why);
	}
}

static void do_event(struct agent *a, const struct schedule_action *act)
{
	struct store_log_entry entry = {.ms = agent_now().real_ms,
					.source = act->source,
					.id = act->id,
					.instance = act->instance,
					.why = act->why};

	write_log(a, act->event, &entry);
	save(a, act);
	tell_source(a, act);
}

static void do_finished(struct agent *a, const struct schedule_action *act)
{
	struct instance made_up;
	const struct instance *i = instance_of(a, act, &made_up);

	mark_untold(a, act);
	save(a, act);
	for (size_t k = 0; i && k < a->links.n; k++)
		if (a->links.at[k].sink)
			a->links.at[k].sink->ops->task_finished(a->links.at[k].sink,
								&act->task->task, i, act->event);
	instances_release(a->instances, act->instance_id);
}

static void do_action(struct agent *a, const struct schedule_action *act)
{
	switch (act->kind) {
	case SCHEDULE_START:
		instances_hold(a->instances, act->instance_id);
		a->is_dirty = a->has_started = true;
		break;
	case SCHEDULE_STOP:
		a->is_dirty = true;
		if (vec_push(&a->stopped, (struct agent_stopped){act->task, act->instance_id}))
			break; /* finished by its flush deadline then */
		break;
	case SCHEDULE_FINISHED:
		do_finished(a, act);
		break;
	case SCHEDULE_EVENT:
		do_event(a, act);
		break;
	case SCHEDULE_FORGET:
		if (a->store)
			store_forget_task(a->store, act->source, act->id);
		break;
	}
}

void agent_carry_out(struct agent *a)
{
	struct schedule_action act;

	do {
		while (schedule_next(a->schedule, &act))
			do_action(a, &act);
		if (a->has_started) {
			a->has_started = false;
			agent_catch_up(a);
		}
		if (a->is_dirty) {
			a->is_dirty = false;
			profiler_sync(a->profiler, clock_mono_ns());
		}
		/* Their gates are closed and their spans handed out: nothing more will come. */
		while (a->stopped.n) {
			struct agent_stopped s = a->stopped.at[--a->stopped.n];

			schedule_flushed(a->schedule, s.task, s.instance_id, agent_now());
		}
	} while (a->is_dirty || schedule_has_actions(a->schedule));
}

/* ---- after a restart ---- */

static void restore_task(void *ctx, const struct schedule_task *t)
{
	struct agent *a = ctx;

	if (schedule_restore_task(a->schedule, t, agent_now()))
		agent_log(a, LOG_LEVEL_ERROR, "event=restore_failed task=\"%s\"", t->task.id);
}

static void restore_run(void *ctx, const char *source, const char *id, const struct schedule_run *r)
{
	struct agent *a = ctx;
	struct schedule_task *t = schedule_find(a->schedule, source, id);

	if (t && schedule_restore_run(a->schedule, t, r, agent_now()))
		agent_log(a, LOG_LEVEL_ERROR, "event=restore_failed task=\"%s\"", id);
}

static void restore_watermark(void *ctx, uint64_t key, int64_t create_ms, int64_t used_ms)
{
	struct agent *a = ctx;

	watermarks_move(&a->watermarks, key, create_ms, used_ms);
}

int agent_restore(struct agent *a)
{
	int r = store_load_tasks(a->store, restore_task, a);

	if (!r)
		r = store_load_runs(a->store, restore_run, a);
	if (!r)
		r = store_load_watermarks(a->store, restore_watermark, a);
	a->serial = store_next_serial(a->store);
	return r;
}
