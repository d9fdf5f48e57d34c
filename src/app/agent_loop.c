/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_loop.c: the daemon at work: waits for its descriptors and deadlines, calls its parts in turn.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "app/agent_priv.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"

#define SECOND_NS    1000000000ULL
#define SHUTDOWN_NS  (2 * SECOND_NS)
#define TABLES_SHARE 2 /* of the memory limit that the profile's tables may take: one half */

enum { EVENTS = 32, RETRY_SECONDS = 5 };

static void read_signals(struct agent *a)
{
	struct signalfd_siginfo info;

	while (read(a->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGHUP)
			agent_reload(a);
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
	uint64_t at = earliest(agent_scan_at(a), a->second_at);

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
	if (fd >= 0 && agent_watch(a, fd, TAG_PROFILER, NULL) && errno != EEXIST)
		a->profiler_fd = -1; /* the deadline still drives it */
}

static uint64_t cpu_used_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * SECOND_NS + ts.tv_nsec;
}

/* /proc/self/statm: all pages, resident ones, of those the ones that are of files or shared. */
static size_t resident_bytes(size_t *ret_own)
{
	AUTO_FREE char *text = NULL;
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n, all, shared;
	char *rest;

	*ret_own = 0;
	if (read_file(AT_FDCWD, "/proc/self/statm", 4096, &text, &n))
		return 0;
	rest = strchr(text, ' ');
	if (!rest)
		return 0;
	all = strtoull(rest, &rest, 10);
	shared = strtoull(rest, &rest, 10);
	*ret_own = all > shared ? (all - shared) * page : 0;
	return all * page;
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

/* What has changed while the store could not be written. */
static void save_all(struct agent *a)
{
	for (size_t i = 0; i < schedule_n_tasks(a->schedule); i++) {
		const struct schedule_task *t = schedule_task_at(a->schedule, i);

		store_save_task(a->store, t);
		for (size_t k = 0; k < t->runs.n; k++)
			agent_save_run(a, t, &t->runs.at[k]);
	}
	store_save_watermarks(a->store, &a->watermarks);
}

/* A store that cannot be written is no reason to end: that it begins and stops to fail is said, and why. */
static void watch_store(struct agent *a)
{
	struct store_stats s;
	uint64_t hash;

	if (!a->store)
		return;
	store_stats(a->store, &s);
	hash = hash_bytes(s.error, strlen(s.error), 0);
	if (s.is_failing && (!a->store_was_failing || hash != a->store_error_hash))
		agent_log(
			a, LOG_LEVEL_ERROR,
			"event=store_failing error=\"%s\" text=\"spans are lost to the store until it can be written again\"",
			s.error);
	else if (!s.is_failing && a->store_was_failing) {
		agent_log(a, LOG_LEVEL_WARNING, "event=store_recovered lost_spans=%" PRIu64,
			  s.n_dropped - a->n_store_dropped);
		save_all(a);
	}
	if (!s.is_failing)
		a->n_store_dropped = s.n_dropped;
	a->store_was_failing = s.is_failing;
	a->store_error_hash = hash;
}

static void tell_costly(struct agent *a, uint64_t now_ns)
{
	const char *what = profiler_costly(a->profiler, now_ns);

	if (what)
		agent_log(
			a, LOG_LEVEL_WARNING,
			"event=costly text=\"%s; limits.overhead: 1%% limits that to 1 %%, by probing in turns\"",
			what);
}

static void each_second(struct agent *a, uint64_t now_ns)
{
	uint64_t limit = a->rules->limits.memory_bytes;
	size_t own;

	a->second_at = now_ns + SECOND_NS;
	a->n_refusals = 0;
	if (++a->seconds % RETRY_SECONDS == 0)
		a->is_dirty |= profiler_is_incomplete(a->profiler);
	update_budget(a, now_ns);
	tell_costly(a, now_ns);
	watch_store(a);
	profiler_follow_clock(a->profiler, clock_mono_ns(), clock_real_ns());
	a->rss_bytes = resident_bytes(&own);
	/* Mapped files go by themselves when memory is short; what we have allocated does not. */
	profiler_keep_small(a->profiler, own > limit ? 0 : limit / TABLES_SHARE, now_ns);
	if (own > limit)
		malloc_trim(0);
}

static void do_timers(struct agent *a, uint64_t now_ns)
{
	if (now_ns >= agent_scan_at(a))
		agent_scan(a, now_ns);
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
		else if (tag == TAG_WATCH)
			a->watch_ready = true;
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
	agent_handle_processes(a);
	if (a->watch_ready) {
		a->watch_ready = false;
		agent_processes_told(a);
	}
	if (a->store)
		store_tick(a->store, now_ns, agent_now().real_ms);
	dispatch_links(a, now_ns);
	do_timers(a, now_ns);
	agent_carry_out(a);
	agent_handle_processes(a);
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
