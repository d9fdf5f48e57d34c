/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule.h: which task runs where and when. A pure state machine: time is an argument, what is to
 * be done comes out as actions.
 *
 * A *run* is one task on one instance; it is what starts, stops and is reported. Two kinds of tasks:
 * a *delivered* task was fetched on behalf of single instances (SkyWalking): each delivery is a run
 * with its own full duration. A *local* task runs on every instance it selects, also on those that
 * come later, until the duration since its first run's start is over.
 *
 * Duration counts from the real start, not from the start time asked for. A run that was started
 * yields exactly one SCHEDULE_FINISHED, whatever happens, a restart of the agent included.
 */
#ifndef SPANPROF_TASK_SCHEDULE_H
#define SPANPROF_TASK_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/errmsg.h"
#include "base/vec.h"
#include "model/task.h"
#include "task/source.h"
#include "task/task.h"

struct schedule;

struct schedule_now {
	uint64_t mono_ns; /* durations */
	int64_t real_ms;  /* start times; may jump */
};

struct schedule_limits {
	uint32_t max_tasks;    /* queued and running; 0: 256 */
	uint32_t max_running;  /* with a run that is running; 0: 16 */
	uint32_t max_finished; /* finished tasks that are remembered; 0: 256 */
	uint64_t flush_ns;     /* from stop to finished at the latest; 0: 2 s */
	uint64_t resume_ns;    /* after a restart, how long to wait for an instance; 0: 30 s */
};

enum { SCHEDULE_WHY_MAX = 480 };

struct schedule_run {
	uint32_t instance_id;             /* 0: the instance is not here (gone, or not back yet) */
	char instance[TASK_INSTANCE_MAX]; /* its name */
	enum task_state state;
	enum task_event how;    /* how it stopped */
	bool started;           /* SCHEDULE_FINISHED is due, or was given */
	bool resume;            /* was running when the agent stopped */
	bool untold;            /* FINISHED, and its server does not know yet */
	uint32_t n_spans;       /* handed to the sinks */
	int64_t started_ms;     /* epoch; 0: not yet */
	int64_t finished_ms;    /* epoch; 0: not yet */
	uint64_t end_mono_ns;   /* UINT64_MAX: no end */
	uint64_t flush_mono_ns; /* FLUSHING: finished at the latest then */
	/* Last note while it goes on, if there has been no span since; "": none. */
	char trouble[SCHEDULE_WHY_MAX];
};

struct schedule_task {
	struct task task;
	bool local;
	bool closed; /* no further run starts */
	bool clash_noted;
	bool cancelled;        /* before any run */
	enum task_state state; /* derived from the runs */
	int64_t received_ms;
	int64_t started_ms; /* of the first run; 0: not yet */
	int64_t finished_ms;
	uint64_t end_mono_ns;  /* local: of all runs; 0: not started */
	uint64_t hold_mono_ns; /* restored: open until then although it has no run */
	uint64_t n_old_runs;   /* finished runs that are no longer in the list */
	uint64_t n_spans;      /* of all runs */
	VEC(struct schedule_run) runs;
	char why[SCHEDULE_WHY_MAX]; /* last thing worth telling */
};

enum schedule_action_kind {
	SCHEDULE_START,    /* open the gates of the run */
	SCHEDULE_STOP,     /* close them; then call schedule_flushed */
	SCHEDULE_FINISHED, /* tell the sinks: exactly once for a run that was started */
	SCHEDULE_EVENT,    /* log entry; tell the source */
	SCHEDULE_FORGET,   /* the task leaves the memory: it is freed after this action */
};

struct schedule_action {
	enum schedule_action_kind kind;
	enum task_event event;      /* EVENT, FINISHED: how */
	struct schedule_task *task; /* NULL: a task that was refused; see id, source */
	uint32_t instance_id;       /* 0: no instance, or one that is gone */
	char source[TASK_SOURCE_MAX];
	char id[TASK_ID_MAX];
	char instance[TASK_INSTANCE_MAX];
	char why[SCHEDULE_WHY_MAX];
};

int schedule_new(struct schedule **ret, const struct schedule_limits *limits);
/* After a reload; 0: default. What is running goes on. */
void schedule_set_limits(struct schedule *s, uint32_t max_tasks, uint32_t max_running);
struct schedule *schedule_free(struct schedule *s);

/* instance_id 0: a local task. See struct task_intake. */
enum task_answer schedule_submit(struct schedule *s, const struct task *task, uint32_t instance_id,
				 struct schedule_now now, struct errmsg *e);
/* -ENOENT: no such task; -EALREADY: it has finished. */
int schedule_cancel(struct schedule *s, const char *source, const char *id, struct schedule_now now,
		    struct errmsg *e);

/* accepts: the rules let this instance accept tasks. 0 or -ENOMEM. */
int schedule_instance_up(struct schedule *s, const struct instance *i, bool accepts,
			 struct schedule_now now);
void schedule_instance_down(struct schedule *s, uint32_t instance_id, struct schedule_now now);
/* After a reload of the rules: runs on an instance that no longer accepts tasks are cancelled. */
void schedule_instance_accepts(struct schedule *s, uint32_t instance_id, bool accepts,
			       struct schedule_now now);

/* A span of the run is finished: true when it counts, false when the run's spans are used up. */
bool schedule_take_span(struct schedule *s, struct schedule_task *t, uint32_t instance_id,
			struct schedule_now now);
/* The last span of the stopped run has been handed to the sinks. */
void schedule_flushed(struct schedule *s, struct schedule_task *t, uint32_t instance_id,
		      struct schedule_now now);
/* Adds an entry to the task's log; the run is in trouble until a span comes from the instance. */
void schedule_note(struct schedule *s, struct schedule_task *t, uint32_t instance_id,
		   const char *why);

void schedule_tick(struct schedule *s, struct schedule_now now);
/*
 * When schedule_tick wants to be called next, 0: now; UINT64_MAX: not before something happens. It stays
 * where it is until then, however often it is asked for, unless the wall clock is set.
 */
uint64_t schedule_deadline(const struct schedule *s, struct schedule_now now);

/* The next thing to do, in order; false when there is none. */
bool schedule_next(struct schedule *s, struct schedule_action *ret);
/* Refusals that made no log entry because too many came at once. */
uint64_t schedule_n_untold(const struct schedule *s);
bool schedule_has_actions(const struct schedule *s);

size_t schedule_n_tasks(const struct schedule *s);
struct schedule_task *schedule_task_at(const struct schedule *s, size_t idx);
struct schedule_task *schedule_find(const struct schedule *s, const char *source, const char *id);
/* The run on this instance that is queued, running or flushing; NULL. */
struct schedule_run *schedule_active_run(struct schedule_task *t, uint32_t instance_id);

/*
 * After a restart, before any instance is up: what the store knew. Runs that were running resume
 * when their instance comes back in time, or are reported as interrupted.
 */
int schedule_restore_task(struct schedule *s, const struct schedule_task *t,
			  struct schedule_now now);
int schedule_restore_run(struct schedule *s, struct schedule_task *t,
			 const struct schedule_run *run, struct schedule_now now);

#endif
