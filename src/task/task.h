/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task.h: which values of a task are allowed, whom it is meant for, and the words for what happens
 * to it. Pure. The data itself is struct task (model/task.h).
 *
 * Limits are those of SkyWalking for tasks from a server (TASK_LIMITS_SERVER) and wider for tasks
 * that a person gives to this agent (TASK_LIMITS_LOCAL). The first check that fails wins, in the
 * order in which SkyWalking's OAP checks.
 */
#ifndef SPANPROF_TASK_TASK_H
#define SPANPROF_TASK_TASK_H

#include "base/errmsg.h"
#include "model/task.h"

enum task_limits { TASK_LIMITS_SERVER, TASK_LIMITS_LOCAL };

/* Where a task, or its run on one instance, is. */
enum task_state {
	TASK_STATE_QUEUED, /* its start time is not reached, or it waits for a free place */
	TASK_STATE_RUNNING,
	TASK_STATE_FLUSHING, /* stopped; the last snapshots are on their way */
	TASK_STATE_FINISHED,
	TASK_STATE_REJECTED,
	TASK_STATE_MAX
};

const char *task_state_name(enum task_state state);

/* Entries of a task's log; also what a source is told about its tasks. */
enum task_event {
	TASK_EVENT_RECEIVED,   /* the task is known and will be looked at: SkyWalking's NOTIFIED */
	TASK_EVENT_REJECTED,   /* with the reason */
	TASK_EVENT_NOT_FOR_US, /* its selector or our rules leave this instance out */
	TASK_EVENT_QUEUED,
	TASK_EVENT_STARTED,
	TASK_EVENT_FINISHED, /* by time, count, or because nothing was left to profile */
	TASK_EVENT_CANCELLED,
	TASK_EVENT_LOST,        /* all processes of the instance are gone */
	TASK_EVENT_INTERRUPTED, /* the agent stopped or was killed while it ran */
	TASK_EVENT_RESUMED,     /* after a restart of the agent */
	TASK_EVENT_NOTE,        /* anything else worth telling: losses, budget, backend trouble */
	TASK_EVENT_MAX
};

/* "received", ... */
const char *task_event_name(enum task_event event);

/* A profile task as SkyWalking sends it: units as on the wire, any value. Texts may be NULL. */
struct task_raw {
	const char *id;
	const char *service;
	const char *instance; /* selector: the extra argument InstanceName; NULL: all */
	const char *endpoint;
	int64_t duration_min;
	int64_t threshold_ms;
	int64_t period_ms;
	int64_t max_count;
	int64_t start_ms;
	int64_t create_ms;
};

/* Checks with TASK_LIMITS_SERVER and converts. 0, or -EINVAL with the reason. */
int task_from_raw(const struct task_raw *raw, const char *source, struct task *ret,
		  struct errmsg *e);

/* 0, or -EINVAL with the field, its value and what is allowed. */
int task_check(const struct task *t, enum task_limits limits, struct errmsg *e);

/* Shell-style: '*', '?', '[...]'; no special treatment of '/'. "" and NULL match everything. */
bool selector_match(const char *selector, const char *name);
bool selector_is_glob(const char *selector);

/* True when the selector of the task matches the instance, and the service is the same. */
bool task_is_for(const struct task *t, const struct instance *i);

#endif
