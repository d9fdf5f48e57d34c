/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_processes.c: processes and instances that come and go, from the watcher of all processes, from
 * the engine for those that are attached, and from scans of /proc, which miss nothing but come late.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "app/agent_priv.h"
#include "base/clock.h"

#define UNSENT_SCAN_NS 1000000000ULL /* a scan follows soon when more happened than was told */

static void on_up(void *ctx, const struct instance *i, bool accepts)
{
	struct agent *a = ctx;

	agent_log(a, LOG_LEVEL_INFO,
		  "event=instance_up service=\"%s\" instance=\"%s\" pid=%u accepts=%s", i->service,
		  i->name, i->pid, accepts ? "yes" : "no");
	if (schedule_instance_up(a->schedule, i, accepts, agent_now()))
		agent_log(a, LOG_LEVEL_ERROR, "event=out_of_memory instance=\"%s\"", i->name);
	for (size_t k = 0; k < a->links.n; k++) {
		struct task_source *s = a->links.at[k].source;

		if (s && s->ops->instance_up)
			s->ops->instance_up(s, i);
	}
}

static void on_down(void *ctx, const struct instance *i)
{
	struct agent *a = ctx;

	agent_log(a, LOG_LEVEL_INFO, "event=instance_down service=\"%s\" instance=\"%s\"",
		  i->service, i->name);
	for (size_t k = 0; k < a->links.n; k++) {
		struct task_source *s = a->links.at[k].source;

		if (s && s->ops->instance_down)
			s->ops->instance_down(s, i);
	}
	schedule_instance_down(a->schedule, i->id, agent_now());
	a->is_dirty = true;
}

static void on_process_up(void *ctx, const struct instance *i, pid_t pid)
{
	struct agent *a = ctx;

	if (watch_follow(a->watch, pid))
		a->counts.n_not_followed++; /* a scan finds its end */
	a->is_dirty = true;
}

static void on_process_down(void *ctx, const struct instance *i, pid_t pid)
{
	struct agent *a = ctx;

	watch_unfollow(a->watch, pid);
	if (a->profiler)
		profiler_forget_process(a->profiler, pid);
	a->is_dirty = true;
}

static void on_accepts(void *ctx, const struct instance *i, bool accepts)
{
	struct agent *a = ctx;

	schedule_instance_accepts(a->schedule, i->id, accepts, agent_now());
}

/* The engine is at work now: what it tells is handled after it has returned. */
void agent_on_engine_event(void *ctx, const struct engine_event *event)
{
	struct agent *a = ctx;
	const struct agent_process_event e = {.kind = event->kind,
					      .pid = event->pid,
					      .parent = event->parent,
					      .instance_id = event->instance_id};

	if (vec_push(&a->process_events, e))
		a->counts.n_process_events_lost++; /* the next scan finds out */
}

void agent_handle_processes(struct agent *a)
{
	for (size_t i = 0; i < a->process_events.n; i++) {
		const struct agent_process_event e = a->process_events.at[i];

		switch (e.kind) {
		case ENGINE_EVENT_FORK:
			instances_on_fork(a->instances, e.parent, e.pid);
			if (instances_of_pid(a->instances, e.pid) != e.instance_id)
				profiler_forget_process(a->profiler, e.pid);
			break;
		case ENGINE_EVENT_EXEC:
		case ENGINE_EVENT_ATTACH:
			profiler_forget_process(a->profiler, e.pid);
			instances_on_exec(a->instances, e.pid);
			break;
		case ENGINE_EVENT_EXIT:
			profiler_forget_process(a->profiler, e.pid);
			instances_on_exit(a->instances, e.pid);
			break;
		}
		a->is_dirty = true;
	}
	a->process_events.n = 0;
}

/* ---- the watcher ---- */

static void on_watch_exec(struct agent *a, const struct watch_event *event)
{
	instances_on_exec(a->instances, event->tgid);
	if (instances_rule_out(a->instances, event->tgid, event->file.ino))
		watch_rule_out(a->watch, &event->file);
}

static void on_watch_fork(struct agent *a, const struct watch_event *event)
{
	instances_on_fork(a->instances, event->tgid, event->child);
	if (!instances_of_pid(a->instances, event->child))
		watch_unfollow(a->watch, event->child);
}

/* Of what is attached the engine tells, in order with the spans of it. */
static void on_watch_event(void *ctx, const struct watch_event *event)
{
	struct agent *a = ctx;

	a->counts.n_told++;
	if (profiler_is_attached(a->profiler, event->tgid))
		return;
	switch (event->kind) {
	case WATCH_EXEC:
		on_watch_exec(a, event);
		break;
	case WATCH_FORK:
		on_watch_fork(a, event);
		break;
	case WATCH_EXIT:
		instances_on_exit(a->instances, event->tgid);
		break;
	}
}

void agent_processes_filter(struct agent *a)
{
	char names[WATCH_ENV_MAX][RULES_ENV_MAX];
	const char *at[WATCH_ENV_MAX];
	int n = rules_env_names(a->rules, names, WATCH_ENV_MAX);

	for (int i = 0; i < n; i++)
		at[i] = names[i];
	watch_filter(a->watch, n < 0 ? NULL : at, n < 0 ? 0 : (size_t)n);
}

/* Before the first scan: what starts from now on is told. */
int agent_processes_watch(struct agent *a, struct errmsg *e)
{
	int r = watch_new(&a->watch, NULL, e);

	if (r)
		return r;
	agent_processes_filter(a);
	return agent_watch(a, watch_fd(a->watch), TAG_WATCH, e);
}

void agent_processes_told(struct agent *a)
{
	if (watch_poll(a->watch, on_watch_event, a) < 0)
		a->counts.n_process_events_lost++;
}

/* When to look at /proc again. */
uint64_t agent_scan_at(const struct agent *a)
{
	uint64_t at = a->scanned_ns + a->rules->agent.scan_ns;
	uint64_t soon = a->scanned_ns + UNSENT_SCAN_NS;

	return soon < at && watch_n_unsent(a->watch) != a->n_unsent_seen ? soon : at;
}

void agent_scan(struct agent *a, uint64_t now_ns)
{
	a->scanned_ns = now_ns;
	a->n_unsent_seen = watch_n_unsent(a->watch);
	if (instances_scan(a->instances))
		agent_log(a, LOG_LEVEL_ERROR, "event=scan_failed text=\"cannot read /proc\"");
}

/* A task is about to start: with all that is there now. */
void agent_catch_up(struct agent *a)
{
	agent_processes_told(a);
	if (watch_n_unsent(a->watch) != a->n_unsent_seen)
		agent_scan(a, clock_mono_ns());
}

int agent_processes_init(struct agent *a, struct errmsg *e)
{
	char hostname[128] = "";
	const struct instances_options io = {.hostname = hostname,
					     .up = on_up,
					     .down = on_down,
					     .process_up = on_process_up,
					     .process_down = on_process_down,
					     .accepts = on_accepts,
					     .ctx = a};

	gethostname(hostname, sizeof(hostname) - 1);
	return instances_new(&a->instances, a->rules, &io, e);
}
