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
#include <time.h>
#include <unistd.h>

#include "app/agent_backends.h"
#include "app/agent_priv.h"
#include "app/guard.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "task/rules_source.h"

#define SECOND_NS    1000000000ULL
#define SHUTDOWN_NS  (2 * SECOND_NS)
#define TABLES_SHARE 2 /* of the memory limit that the profile's tables may take: one half */

enum { EVENTS = 32, TAG_SIGNAL = 0, TAG_PROFILER = 1, TAG_LINK = 2 };

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

/* ---- instances ---- */

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
	((struct agent *)ctx)->is_dirty = true;
}

static void on_process_down(void *ctx, const struct instance *i, pid_t pid)
{
	struct agent *a = ctx;

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
static void on_engine_event(void *ctx, const struct engine_event *event)
{
	struct agent *a = ctx;
	const struct agent_process_event e = {.kind = event->kind,
					      .pid = event->pid,
					      .parent = event->parent,
					      .instance_id = event->instance_id};

	if (vec_push(&a->process_events, e))
		a->counts.n_process_events_lost++; /* the next scan finds out */
}

static void handle_process_events(struct agent *a)
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

/* ---- set-up ---- */

static int watch(struct agent *a, int fd, uint64_t tag, struct errmsg *e)
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
	return watch(a, a->signal_fd, TAG_SIGNAL, e);
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

static int open_sources(struct agent *a, struct errmsg *e)
{
	int r = rules_source_new(&a->rules_source, a->rules);

	if (r)
		return errmsg_set(e, r, "out of memory");
	r = add_link(a, a->rules_source, NULL, e);
	if (!r)
		r = open_control(a, e);
	if (!r)
		r = open_backends(a, e);
	return r;
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
			r = watch(a, l->fd, TAG_LINK + i, e);
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
	char hostname[128] = "";
	const struct instances_options io = {.hostname = hostname,
					     .up = on_up,
					     .down = on_down,
					     .process_up = on_process_up,
					     .process_down = on_process_down,
					     .accepts = on_accepts,
					     .ctx = a};
	struct profiler_options po = {.budget = &a->budget,
				      .on_span = agent_on_span,
				      .on_process = on_engine_event,
				      .ctx = a};
	int r = schedule_new(&a->schedule, &limits);

	if (r)
		return errmsg_set(e, r, "out of memory");
	gethostname(hostname, sizeof(hostname) - 1);
	a->budget.limit_permille = a->rules->limits.cpu_permille;
	r = instances_new(&a->instances, a->rules, &io, e);
	if (r)
		return r;
	po.instances = a->instances;
	po.schedule = a->schedule;
	r = profiler_new(&a->profiler, &po, e);
	return r ? r : profiler_set_rules(a->profiler, a->rules, e);
}

static int set_up(struct agent *a, struct errmsg *e)
{
	int r = rules_load(a->options.config, &a->rules, e);

	if (!r)
		r = catch_signals(a, e);
	if (!r)
		r = new_parts(a, e);
	if (!r)
		r = open_store(a, e);
	if (!r && a->store && agent_restore(a))
		r = errmsg_set(
			e, -EIO,
			"cannot read the tasks in the store; move the file away to start anew");
	if (!r)
		r = open_sources(a, e);
	if (!r)
		r = instances_scan(a->instances) ? errmsg_set(e, -EIO, "cannot read /proc") : 0;
	if (!r)
		r = start_links(a, e);
	return r;
}

static int give_up_privileges(struct agent *a, struct errmsg *e)
{
	char kept[256];
	int r;

	if (a->options.keep_privileges)
		return 0;
	r = guard_drop_capabilities(kept, sizeof(kept), e);
	if (!r)
		r = guard_filter_calls(e);
	if (!r)
		log_info("event=privileges kept=\"%s\"", kept);
	return r;
}

int agent_new(struct agent **ret, const struct agent_options *options, struct errmsg *e)
{
	struct agent *a = calloc(1, sizeof(*a));
	int r;

	if (!a)
		return errmsg_set(e, -ENOMEM, "out of memory");
	a->options = *options;
	a->signal_fd = a->profiler_fd = -1;
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
	if (!r)
		r = give_up_privileges(a, e);
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
	schedule_free(a->schedule);
	watermarks_deinit(&a->watermarks);
	vec_free(&a->process_events);
	vec_free(&a->stopped);
	rules_free(a->rules);
	notify_close(&a->notify);
	if (a->signal_fd >= 0)
		close(a->signal_fd);
	if (a->epoll_fd >= 0)
		close(a->epoll_fd);
	free(a);
	return NULL;
}

/* ---- reload ---- */

/* Things that only a restart can change. */
static void warn_fixed(struct agent *a, const struct rules *next)
{
	const char *was = a->rules->agent.socket, *is = next->agent.socket;
	bool backends = a->rules->n_backends != next->n_backends;

	for (unsigned int i = 0; !backends && i < next->n_backends; i++)
		backends = strcmp(a->rules->backends[i].name, next->backends[i].name);
	if (strcmp(was ? was : "", is ? is : "") ||
	    strcmp(a->rules->agent.store ? a->rules->agent.store : "",
		   next->agent.store ? next->agent.store : "") ||
	    backends)
		log_warning(
			"event=reload text=\"socket, store and backends change only when the agent is restarted\"");
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
	warn_fixed(a, next);
	a->rules = TAKE_PTR(next);
	if (instances_reload(a->instances, a->rules))
		log_error("event=out_of_memory text=\"some instances were not matched anew\"");
	rules_source_set(a->rules_source, a->rules);
	a->budget.limit_permille = a->rules->limits.cpu_permille;
	if (a->store)
		store_set_limits(a->store, a->rules->agent.store_bytes,
				 a->rules->agent.store_age_ms);
	control_set_uids(a->control, a->rules->agent.uids, a->rules->agent.n_socket_users);
	a->is_dirty = true;
	/* Backends hold texts of the rules only while they are made. */
	rules_free(old);
	return 0;
}

static void reload(struct agent *a)
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

/* ---- the loop ---- */

static void read_signals(struct agent *a)
{
	struct signalfd_siginfo info;

	while (read(a->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGHUP)
			reload(a);
		else
			a->is_stopping = true;
	}
}

static uint64_t link_deadline(const struct agent_link *l)
{
	if (l->source)
		return l->source->ops->deadline_ns(l->source);
	return l->sink->ops->deadline_ns ? l->sink->ops->deadline_ns(l->sink) : UINT64_MAX;
}

static uint64_t earliest(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t next_deadline(struct agent *a)
{
	uint64_t at = earliest(a->scan_at, a->second_at);

	at = earliest(at, schedule_deadline(a->schedule, agent_now()));
	at = earliest(at, profiler_deadline(a->profiler));
	if (a->store)
		at = earliest(at, store_deadline(a->store));
	if (a->notify.watchdog_ns)
		at = earliest(at, a->watchdog_at);
	for (size_t i = 0; i < a->links.n; i++)
		at = earliest(at, link_deadline(&a->links.at[i]));
	return at;
}

static void dispatch_links(struct agent *a, uint64_t now_ns)
{
	for (size_t i = 0; i < a->links.n; i++) {
		struct agent_link *l = &a->links.at[i];

		if (!l->is_ready && link_deadline(l) > now_ns)
			continue;
		l->is_ready = false;
		if (l->source)
			l->source->ops->dispatch(l->source, now_ns);
		else if (l->sink->ops->dispatch)
			l->sink->ops->dispatch(l->sink, now_ns);
	}
}

/* The engine may have been made anew, with another descriptor. */
static void watch_profiler(struct agent *a)
{
	int fd = profiler_fd(a->profiler);

	if (fd == a->profiler_fd && a->profiler_generation == profiler_generation(a->profiler))
		return;
	a->profiler_generation = profiler_generation(a->profiler);
	a->profiler_fd = fd;
	if (fd >= 0 && watch(a, fd, TAG_PROFILER, NULL) && errno != EEXIST)
		a->profiler_fd = -1; /* the deadline still drives it */
}

static uint64_t cpu_used_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * SECOND_NS + ts.tv_nsec;
}

static size_t resident_bytes(void)
{
	long pages = 0, total;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f && fscanf(f, "%ld %ld", &total, &pages) != 2)
		pages = 0;
	if (f)
		fclose(f);
	return (size_t)pages * sysconf(_SC_PAGESIZE);
}

static void update_budget(struct agent *a, uint64_t now_ns)
{
	static const char *const what[] = {
		[BUDGET_RAISED] = "dump periods are longer now",
		[BUDGET_LOWERED] = "dump periods are shorter again",
		[BUDGET_REFUSES] = "no new spans are profiled until the use goes down",
		[BUDGET_ACCEPTS] = "new spans are profiled again",
	};
	uint64_t cpu_ns = cpu_used_ns();
	enum budget_change change;

	change = budget_update(&a->budget, cpu_ns - a->cpu_ns, now_ns - a->cpu_at,
			       (unsigned int)sysconf(_SC_NPROCESSORS_ONLN));
	a->cpu_ns = cpu_ns;
	a->cpu_at = now_ns;
	if (change == BUDGET_SAME)
		return;
	a->is_dirty = true;
	agent_log(a, LOG_LEVEL_WARNING,
		  "event=budget use=%.1f%% limit=%.1f%% factor=%u text=\"%s\"",
		  a->budget.permille / 10, a->budget.limit_permille / 10.0, a->budget.factor,
		  what[change]);
}

static void each_second(struct agent *a, uint64_t now_ns)
{
	a->second_at = now_ns + SECOND_NS;
	update_budget(a, now_ns);
	a->rss_bytes = resident_bytes();
	profiler_keep_small(a->profiler,
			    a->rss_bytes > a->rules->limits.memory_bytes
				    ? 0
				    : a->rules->limits.memory_bytes / TABLES_SHARE,
			    now_ns);
	if (a->rss_bytes > a->rules->limits.memory_bytes)
		malloc_trim(0);
}

static void do_timers(struct agent *a, uint64_t now_ns)
{
	if (now_ns >= a->scan_at) {
		a->scan_at = now_ns + a->rules->agent.scan_ns;
		if (instances_scan(a->instances))
			agent_log(a, LOG_LEVEL_ERROR,
				  "event=scan_failed text=\"cannot read /proc\"");
	}
	if (now_ns >= a->second_at)
		each_second(a, now_ns);
	if (a->notify.watchdog_ns && now_ns >= a->watchdog_at) {
		a->watchdog_at = now_ns + a->notify.watchdog_ns;
		notify_send(&a->notify, "WATCHDOG=1");
	}
	if (schedule_deadline(a->schedule, agent_now()) <= now_ns)
		schedule_tick(a->schedule, agent_now());
	if (a->store && store_deadline(a->store) <= now_ns)
		store_tick(a->store, now_ns, agent_now().real_ms);
}

static int wait_for_events(struct agent *a, struct errmsg *e)
{
	uint64_t now_ns = clock_mono_ns(), at = next_deadline(a);
	struct epoll_event events[EVENTS];
	int timeout = at <= now_ns ? 0 : (int)earliest((at - now_ns) / 1000000 + 1, 60000), n;

	n = epoll_wait(a->epoll_fd, events, EVENTS, timeout);
	if (n < 0 && errno != EINTR)
		return errmsg_set(e, -errno, "cannot wait for events: %s", strerror(errno));
	for (int i = 0; i < n; i++) {
		uint64_t tag = events[i].data.u64;

		if (tag == TAG_SIGNAL)
			read_signals(a);
		else if (tag == TAG_PROFILER)
			a->profiler_ready = true;
		else if (tag - TAG_LINK < a->links.n)
			a->links.at[tag - TAG_LINK].is_ready = true;
	}
	return 0;
}

static int turn(struct agent *a, struct errmsg *e)
{
	uint64_t now_ns;
	int r;

	watch_profiler(a);
	r = wait_for_events(a, e);
	if (r)
		return r;
	now_ns = clock_mono_ns();
	if (a->profiler_ready || profiler_deadline(a->profiler) <= now_ns) {
		a->profiler_ready = false;
		if (profiler_dispatch(a->profiler, now_ns))
			agent_log(a, LOG_LEVEL_ERROR, "event=engine_failed");
	}
	handle_process_events(a);
	if (a->store)
		store_tick(a->store, now_ns, agent_now().real_ms);
	dispatch_links(a, now_ns);
	do_timers(a, now_ns);
	agent_carry_out(a);
	handle_process_events(a);
	return 0;
}

/* What runs now goes on after the next start, or is told as interrupted then. */
static void shut_down(struct agent *a)
{
	uint64_t until = clock_mono_ns() + SHUTDOWN_NS;

	notify_send(&a->notify, "STOPPING=1");
	a->profiler = profiler_free(a->profiler);
	for (size_t i = 0; i < a->links.n; i++)
		if (a->links.at[i].sink && a->links.at[i].sink->ops->shutdown)
			a->links.at[i].sink->ops->shutdown(a->links.at[i].sink, until);
	log_info("event=stopped spans=%" PRIu64, a->counts.n_spans);
}

int agent_run(struct agent *a, struct errmsg *e)
{
	struct instances_stats stats;
	int r = 0;

	instances_stats(a->instances, &stats);
	log_info("event=started services=%u instances=%zu processes=%zu tasks=%zu",
		 a->rules->n_services, stats.n_instances, stats.n_processes,
		 schedule_n_tasks(a->schedule));
	notify_send(&a->notify, "READY=1");
	while (!r && !a->is_stopping)
		r = turn(a, e);
	shut_down(a);
	return r;
}
