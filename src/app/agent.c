/* SPDX-License-Identifier: Apache-2.0 */
#include "app/agent.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "app/agent_backends.h"
#include "app/agent_priv.h"
#include "app/callfilter.h"
#include "app/guard.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "task/rules_fixed.h"
#include "task/rules_source.h"

DEFINE_CLEANUP(struct rules *, rules_free)

void agent_log(struct agent *a, enum log_level level, const char *format, ...)
{
	uint64_t suppressed = 0;
	char line[1024];
	va_list ap;

	if (!ratelog_allow(&a->ratelog, clock_mono_ns(), &suppressed)) {
		a->counts.n_log_suppressed++;
		return;
	}
	if (suppressed)
		log_warning("event=log_suppressed lines=%" PRIu64, suppressed);
	va_start(ap, format);
	vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	log_line(level, "%s", line);
}

/* ---- set-up ---- */

int agent_watch(struct agent *a, int fd, uint64_t tag, struct errmsg *e)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = tag};

	if (epoll_ctl(a->epoll_fd, EPOLL_CTL_ADD, fd, &ev))
		return errmsg_set(e, -errno, "cannot wait for events: %s", strerror(errno));
	return 0;
}

static int catch_signals(struct agent *a, struct errmsg *e)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGHUP);
	signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &mask, &a->old_mask))
		return errmsg_set(e, -errno, "cannot block signals: %s", strerror(errno));
	a->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (a->signal_fd < 0)
		return errmsg_set(e, -errno, "cannot wait for signals: %s", strerror(errno));
	return agent_watch(a, a->signal_fd, TAG_SIGNAL, e);
}

static int add_link(struct agent *a, struct task_source *source, struct span_sink *sink,
		    struct errmsg *e)
{
	struct agent_link link = {.source = source, .sink = sink, .fd = -1};
	int r = vec_push(&a->links, link);

	if (!r)
		return 0;
	if (source)
		source->ops->free(source);
	if (sink)
		sink->ops->free(sink);
	return errmsg_set(e, r, "out of memory");
}

static int open_store(struct agent *a, struct errmsg *e)
{
	const struct rules_agent *ra = &a->rules->agent;
	const char *path = a->options.store ? a->options.store : ra->store;
	const struct store_options o = {
		.path = path, .max_bytes = ra->store_bytes, .max_age_ms = ra->store_age_ms};
	struct errmsg warning = {};
	int r;

	a->serial = clock_real_ns() / 1000000 * 1000; /* without a store: unique all the same */
	if (!path || !path[0])
		return 0;
	r = store_open(&a->store, &o, &warning, e);
	if (r)
		return r;
	if (warning.text[0])
		log_warning("event=store_damaged text=\"%s\"", warning.text);
	return add_link(a, NULL, store_sink(a->store), e);
}

static int open_control(struct agent *a, struct errmsg *e)
{
	const struct rules_agent *ra = &a->rules->agent;
	const char *path = a->options.socket             ? a->options.socket
			   : ra->socket && ra->socket[0] ? ra->socket
							 : AGENT_SOCKET_DEFAULT;
	const struct control_options o = {.path = path,
					  .mode = ra->mode,
					  .uids = ra->uids,
					  .n_uids = ra->n_socket_users,
					  .query = agent_query,
					  .ctx = a};
	int r = control_new(&a->control, &o, e);

	return r ? r : add_link(a, a->control, NULL, e);
}

static int open_backends(struct agent *a, struct errmsg *e)
{
	for (unsigned int i = 0; i < a->rules->n_backends; i++) {
		struct task_source *source = NULL;
		struct span_sink *sink = NULL;
		int r = agent_backend_new(&a->rules->backends[i].config, &source, &sink, e);

		if (!r)
			r = add_link(a, source, NULL, e);
		if (!r)
			r = add_link(a, NULL, sink, e);
		if (r)
			return r;
	}
	return 0;
}

static int open_rules_source(struct agent *a, struct errmsg *e)
{
	int r = rules_source_new(&a->rules_source, a->rules);

	return r ? errmsg_set(e, r, "out of memory") : add_link(a, a->rules_source, NULL, e);
}

/* Sources are started in order, then told of the instances that are there. */
static int start_links(struct agent *a, struct errmsg *e)
{
	for (size_t i = 0; i < a->links.n; i++) {
		struct agent_link *l = &a->links.at[i];
		int r = l->source ? l->source->ops->start(l->source, &a->intake, e) : 0;

		if (r)
			return r;
		if (l->source)
			l->fd = l->source->ops->fd(l->source);
		else if (l->sink->ops->fd)
			l->fd = l->sink->ops->fd(l->sink);
		if (l->fd >= 0)
			r = agent_watch(a, l->fd, TAG_LINK + i, e);
		if (r)
			return r;
	}
	return 0;
}

/* Tasks of the file that were running when the agent stopped and are no longer in the file. */
static void drop_old_rule_tasks(struct agent *a)
{
	for (size_t i = 0; i < schedule_n_tasks(a->schedule); i++) {
		const struct schedule_task *t = schedule_task_at(a->schedule, i);
		bool found = false;

		if (strcmp(t->task.source, "rules") || t->state == TASK_STATE_FINISHED)
			continue;
		for (unsigned int k = 0; k < a->rules->n_tasks; k++)
			found |= !strcmp(a->rules->tasks[k].task.id, t->task.id);
		if (!found)
			schedule_cancel(a->schedule, "rules", t->task.id, agent_now(), NULL);
	}
}

static int new_parts(struct agent *a, struct errmsg *e)
{
	const struct schedule_limits limits = {.max_tasks = a->rules->limits.max_tasks,
					       .max_running = a->rules->limits.max_running};
	int r = schedule_new(&a->schedule, &limits);

	if (r)
		return errmsg_set(e, r, "out of memory");
	a->budget.limit_permille = a->rules->limits.cpu_permille;
	return agent_processes_init(a, e);
}

static void on_debug_left_out(void *ctx, const char *path)
{
	char printable[512];

	text_show(printable, sizeof(printable), path);
	agent_log(
		ctx, LOG_LEVEL_WARNING,
		"event=debug_left_out file=\"%s\" text=\"names come from its symbol table, without lines: its debug information is larger than limits.debug_info allows, or takes too long to read\"",
		printable);
}

static int new_profiler(struct agent *a, struct errmsg *e)
{
	const struct profiler_options options = {.instances = a->instances,
						 .schedule = a->schedule,
						 .budget = &a->budget,
						 .max_snapshots = a->rules->limits.max_snapshots,
						 .debug_max_bytes = a->rules->limits.debug_bytes,
						 .max_overhead_ppm = a->rules->limits.overhead_ppm,
						 .on_debug_left_out = on_debug_left_out,
						 .on_span = agent_on_span,
						 .on_process = agent_on_engine_event,
						 .ctx = a};
	int r = profiler_new(&a->profiler, &options, e);

	if (!r)
		r = profiler_set_rules(a->profiler, a->rules, e);
	return r ? r : agent_processes_watch(a, e);
}

/*
 * Before the engine, which looks for what it may do, and before the first thread of a backend:
 * capabilities are a thread's own. After the store and the socket, whose folders may be anybody's.
 */
static int drop_capabilities(struct agent *a, struct errmsg *e)
{
	char kept[256];
	int r;

	if (a->options.keep_privileges)
		return 0;
	r = guard_drop_capabilities(kept, sizeof(kept), e);
	if (!r)
		log_info("event=privileges kept=\"%s\"", kept);
	return r;
}

/* While it may still be allowed: it is not with the capabilities that are kept. */
static void count_bpf_time(struct agent *a)
{
	if (!a->rules->agent.bpf_stats)
		return;
	a->stats_fd = bpftime_enable();
	if (a->stats_fd < 0)
		log_warning(
			"event=bpf_stats_refused error=\"%s\" text=\"the run time of BPF programs is not counted: start with CAP_SYS_ADMIN, or set the sysctl kernel.bpf_stats_enabled\"",
			strerror(-a->stats_fd));
}

static int set_up(struct agent *a, struct errmsg *e)
{
	int r = rules_load(a->options.config, &a->rules, e);

	if (!r && rules_fixed_note(a->rules, &a->fixed))
		r = errmsg_set(e, -ENOMEM, "out of memory");
	if (!r)
		r = catch_signals(a, e);
	if (!r)
		r = new_parts(a, e);
	if (!r)
		r = open_control(a, e); /* first: it knows of another agent */
	if (!r)
		r = open_store(a, e);
	if (!r && a->store && agent_restore(a))
		r = errmsg_set(
			e, -EIO,
			"cannot read the tasks in the store; move the file away to start anew");
	if (!r)
		r = open_rules_source(a, e);
	if (!r)
		count_bpf_time(a);
	if (!r)
		r = drop_capabilities(a, e);
	if (!r)
		r = new_profiler(a, e);
	if (!r)
		r = open_backends(a, e);
	if (!r)
		r = instances_scan(a->instances) ? errmsg_set(e, -EIO, "cannot read /proc") : 0;
	a->scanned_ns = clock_mono_ns();
	if (!r)
		r = start_links(a, e);
	return r;
}

int agent_new(struct agent **ret, const struct agent_options *options, struct errmsg *e)
{
	struct agent *a = calloc(1, sizeof(*a));
	int r;

	if (!a)
		return errmsg_set(e, -ENOMEM, "out of memory");
	/* Threads of the backends and those that detach allocate little: no heap of 64 MB for each. */
	mallopt(M_ARENA_MAX, 1);
	a->options = *options;
	a->signal_fd = a->profiler_fd = a->stats_fd = -1;
	a->started_ns = clock_mono_ns();
	a->started_ms = (int64_t)(clock_real_ns() / 1000000);
	notify_open(&a->notify);
	agent_tasks_init(a);
	a->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	r = a->epoll_fd < 0
		    ? errmsg_set(e, -errno, "cannot create an epoll set: %s", strerror(errno))
		    : 0;
	if (!r)
		r = set_up(a, e);
	if (!r && !a->options.keep_privileges)
		r = callfilter_load(e);
	if (r) {
		agent_free(a);
		return r;
	}
	drop_old_rule_tasks(a);
	agent_carry_out(a);
	*ret = a;
	return 0;
}

struct agent *agent_free(struct agent *a)
{
	if (!a)
		return NULL;
	a->profiler = profiler_free(a->profiler);
	for (size_t i = 0; i < a->links.n; i++) {
		if (a->links.at[i].source)
			a->links.at[i].source->ops->free(a->links.at[i].source);
		if (a->links.at[i].sink)
			a->links.at[i].sink->ops->free(a->links.at[i].sink);
	}
	vec_free(&a->links);
	store_close(a->store);
	instances_free(a->instances);
	watch_free(a->watch);
	schedule_free(a->schedule);
	watermarks_deinit(&a->watermarks);
	vec_free(&a->process_events);
	vec_free(&a->stopped);
	rules_free(a->rules);
	free(a->fixed);
	notify_close(&a->notify);
	if (a->signal_fd >= 0)
		close(a->signal_fd);
	if (a->stats_fd >= 0)
		close(a->stats_fd);
	if (a->epoll_fd >= 0)
		close(a->epoll_fd);
	free(a);
	return NULL;
}

/* ---- reload ---- */

/* Things that only a restart can change, said at every reload until there is one. */
static void warn_fixed(struct agent *a)
{
	AUTO_FREE char *now = NULL;
	char keys[512];

	if (rules_fixed_note(a->rules, &now))
		return;
	rules_fixed_compare(a->fixed, now, keys, sizeof(keys));
	if (keys[0])
		log_warning(
			"event=restart_needed keys=\"%s\" text=\"they change when the agent is restarted\"",
			keys);
}

static int take_rules(struct agent *a, struct errmsg *e)
{
	CLEANUP(rules_freep) struct rules *next = NULL;
	struct rules *old = a->rules;
	int r = rules_load(a->options.config, &next, e);

	if (!r)
		r = profiler_set_rules(a->profiler, next, e);
	if (r)
		return r;
	a->rules = TAKE_PTR(next);
	warn_fixed(a);
	if (instances_reload(a->instances, a->rules)) {
		log_error("event=out_of_memory text=\"instances are matched by the old rules\"");
		old = NULL; /* which they still use */
	}
	agent_processes_filter(a);
	rules_source_set(a->rules_source, a->rules);
	a->budget.limit_permille = a->rules->limits.cpu_permille;
	schedule_set_limits(a->schedule, a->rules->limits.max_tasks, a->rules->limits.max_running);
	if (a->store)
		store_set_limits(a->store, a->rules->agent.store_bytes,
				 a->rules->agent.store_age_ms);
	control_set_uids(a->control, a->rules->agent.uids, a->rules->agent.n_socket_users);
	a->is_dirty = true;
	/* Backends hold texts of the rules only while they are made. */
	rules_free(old);
	return 0;
}

void agent_reload(struct agent *a)
{
	struct errmsg e = {};

	notify_send(&a->notify, "RELOADING=1");
	if (take_rules(a, &e)) {
		a->counts.n_reloads_failed++;
		log_error("event=reload_failed text=\"the rules stay as they were: %s\"", e.text);
	} else {
		a->counts.n_reloads++;
		log_info("event=reloaded services=%u tasks=%u", a->rules->n_services,
			 a->rules->n_tasks);
	}
	notify_send(&a->notify, "READY=1");
}
