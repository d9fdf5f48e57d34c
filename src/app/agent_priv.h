/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_priv.h: the state of the daemon and what its files offer each other. agent.c: set-up and reload; agent_loop.c: the loop;
 * agent_processes.c: processes and instances that come and go;
 * agent_tasks.c: tasks in, actions and spans out; agent_query.c, agent_metrics.c: answers.
 */
#ifndef SPANPROF_APP_AGENT_PRIV_H
#define SPANPROF_APP_AGENT_PRIV_H

#include <signal.h>

#include "app/agent.h"
#include "app/notify.h"
#include "app/profiler.h"
#include "app/ratelog.h"
#include "base/log.h"
#include "base/vec.h"
#include "pipe/watch.h"
#include "task/budget.h"
#include "task/control.h"
#include "task/instances.h"
#include "task/rules.h"
#include "task/schedule.h"
#include "task/sink.h"
#include "task/source.h"
#include "task/store.h"
#include "task/watermark.h"

struct agent_link {
	struct task_source *source; /* owned; one of the two */
	struct span_sink *sink;     /* owned; the store's is owned by the store */
	int fd;                     /* in the epoll set; -1: none */
	bool is_ready;
};

static inline const char *agent_link_name(const struct agent_link *l)
{
	if (l->source)
		return l->source->name;
	return l->sink ? l->sink->name : "";
}

/* What the kernel told of a process while the engine was at work: handled afterwards. */
struct agent_process_event {
	enum engine_event_kind kind;
	pid_t pid;
	pid_t parent;
	uint32_t instance_id;
};

struct agent_stopped {
	struct schedule_task *task;
	uint32_t instance_id;
};

struct agent_counts {
	uint64_t n_spans;          /* handed to the sinks */
	uint64_t n_spans_unwanted; /* profiled, but no task's: by name, duration or count */
	uint64_t n_snapshots;
	uint64_t n_snapshots_due;
	uint64_t n_tasks_accepted;
	uint64_t n_tasks_refused;
	uint64_t n_tasks_known; /* delivered again */
	uint64_t n_tasks_not_for_us;
	uint64_t n_reloads;
	uint64_t n_reloads_failed;
	uint64_t n_log_suppressed;
	uint64_t n_process_events_lost;
	uint64_t n_not_followed;
	uint64_t n_told; /* events of the watcher */
};

struct agent {
	struct agent_options options;
	struct rules *rules; /* owned */
	char *fixed;         /* owned: what of the rules at the start is in force until the end */
	struct store *store; /* owned; NULL: none */
	struct schedule *schedule;
	struct instances *instances;
	struct watch *watch;
	struct profiler *profiler;
	struct budget budget;
	struct watermarks watermarks;
	struct task_intake intake;
	struct task_source *control;      /* owned by links */
	struct task_source *rules_source; /* owned by links */
	VEC(struct agent_link) links;
	VEC(struct agent_process_event) process_events;
	VEC(struct agent_stopped) stopped;
	struct agent_counts counts;
	struct ratelog ratelog;
	struct notify notify;
	sigset_t old_mask;
	int signal_fd;
	int stats_fd; /* the kernel counts run times while it is open; -1: not for us */
	int epoll_fd;
	int profiler_fd; /* in the epoll set; -1: none */
	uint64_t profiler_generation;
	bool profiler_ready;
	bool watch_ready;
	bool is_dirty;    /* the profiler must follow */
	bool has_started; /* a run has: all its processes must be known */
	bool is_stopping;
	uint64_t serial; /* of the next span */
	uint64_t scanned_ns;
	uint64_t n_unsent_seen; /* of the watcher's events, at the last scan */
	uint64_t second_at;
	uint32_t seconds;
	uint32_t n_refusals; /* in this second */
	uint64_t watchdog_at;
	bool store_was_failing;
	uint64_t store_error_hash; /* of the last one that was logged */
	uint64_t n_store_dropped;  /* at the last word about it */
	uint64_t cpu_ns;           /* used, at the last update of the budget */
	uint64_t cpu_at;
	uint64_t started_ns;
	int64_t started_ms;
	size_t rss_bytes;
};

/* What an event of the epoll set is about. */
enum { TAG_SIGNAL, TAG_PROFILER, TAG_WATCH, TAG_LINK /* + index into links */ };

struct schedule_now agent_now(void);

/* agent.c: 0 or a negative errno with the message, errno kept. */
int agent_watch(struct agent *a, int fd, uint64_t tag, struct errmsg *e);
void agent_reload(struct agent *a);

/* agent_processes.c */
int agent_processes_init(struct agent *a, struct errmsg *e);
int agent_processes_watch(struct agent *a, struct errmsg *e);
/* After the rules have changed. */
void agent_processes_filter(struct agent *a);
void agent_on_engine_event(void *ctx, const struct engine_event *event);
void agent_handle_processes(struct agent *a);
/* The watcher has something to tell. */
void agent_processes_told(struct agent *a);
uint64_t agent_scan_at(const struct agent *a);
void agent_scan(struct agent *a, uint64_t now_ns);
void agent_catch_up(struct agent *a);

/* One line, rate-limited: "event=NAME key=value ...". */
void agent_log(struct agent *a, enum log_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* agent_tasks.c */
void agent_tasks_init(struct agent *a);
int agent_restore(struct agent *a);
/* Into the store: not as finished before its server knows, which is made up for after a restart. */
void agent_save_run(struct agent *a, const struct schedule_task *t, const struct schedule_run *run);
void agent_on_span(void *ctx, struct profile *profile, uint32_t span,
		   const struct gate_endpoint *ep);
/* Carries out what the schedule wants until it wants nothing more. */
void agent_carry_out(struct agent *a);

/* agent_query.c: options.query of the control socket */
int agent_query(void *ctx, const struct control_request *r, char **ret_result,
		enum control_error *ret_error, struct errmsg *e);
/* agent_metrics.c: Prometheus text, owned by the caller; NULL: out of memory. */
char *agent_metrics(struct agent *a);

#endif
