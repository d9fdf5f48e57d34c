/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source.h: where tasks come from: a table of functions that each kind of source fills in.
 *
 * A source is one object whose first member is struct task_source. It runs inside the daemon's one
 * thread: the daemon watches its fd, calls dispatch when it is readable or its deadline has passed,
 * and tells it what became of its tasks. It hands tasks over through struct task_intake. No call
 * blocks. Texts and tasks are borrowed for the time of a call.
 */
#ifndef SPANPROF_TASK_SOURCE_H
#define SPANPROF_TASK_SOURCE_H

#include <stdint.h>

#include "base/errmsg.h"
#include "model/task.h"
#include "task/task.h"

struct task_source;

/* What became of a task that was handed over. */
enum task_answer {
	TASK_ACCEPTED, /* queued or running */
	TASK_KNOWN,    /* delivered before: nothing changes, a finished task does not run again */
	TASK_NOT_FOR_US, /* valid, but for none of our instances now (a local task is kept and waits) */
	TASK_REFUSED, /* invalid, overlapping, or no place: the message says why */
};

/* What the daemon offers to a source. All functions may be called from dispatch and start. */
struct task_intake {
	void *ctx;
	/*
	 * Hands a task over; task->source must be the source's name. instance_id: the instance on
	 * whose behalf it was fetched, the only one it may then run on; 0: every instance it is
	 * meant for, also those that appear later. The last command time of that instance moves
	 * forward to create_ms whatever the answer.
	 */
	enum task_answer (*submit)(void *ctx, const struct task *task, uint32_t instance_id,
				   struct errmsg *e);
	/* A command that could not become a task: moves the last command time, logs, counts. */
	void (*refuse)(void *ctx, const char *source, const char *task_id, uint32_t instance_id,
		       int64_t create_ms, const char *why);
	/* 0, -ENOENT, -EALREADY. source NULL: of any source. */
	int (*cancel)(void *ctx, const char *source, const char *task_id, struct errmsg *e);
	/* Greatest create_ms seen for this source and instance, also before a restart; -1: none. */
	int64_t (*last_command_ms)(void *ctx, const char *source, uint32_t instance_id);
	/*
	 * The other side knows of the end of this run, or never will: until then it is handed to the
	 * sink again after a restart. May be NULL.
	 */
	void (*reported)(void *ctx, const char *source, const char *task_id, const char *instance);
};

/* Health and work of a source or sink, for `spanprof top` and the metrics. */
struct link_status {
	const char *state;  /* "ready", "connecting", "unauthorised" ...: static text */
	uint64_t n_sent;    /* spans, or commands */
	uint64_t n_dropped; /* spans given up because the other side was away or refused */
	uint64_t n_errors;
	uint64_t queued_bytes;
};

struct task_source_ops {
	const char *kind; /* "rules", "control", "skywalking" */
	int (*start)(struct task_source *s, const struct task_intake *intake, struct errmsg *e);
	/* A descriptor that becomes readable when dispatch has work, or -1. Fixed after start. */
	int (*fd)(const struct task_source *s);
	/* CLOCK_MONOTONIC time at which dispatch wants to be called anyway; UINT64_MAX: never. */
	uint64_t (*deadline_ns)(const struct task_source *s);
	void (*dispatch)(struct task_source *s, uint64_t mono_ns);
	/* Instances come and go; those that exist at start are told right after it. May be NULL. */
	void (*instance_up)(struct task_source *s, const struct instance *i);
	void (*instance_down)(struct task_source *s, const struct instance *i);
	/* Something happened to a task of this source on this instance (NULL: on none). May be NULL. */
	void (*task_event)(struct task_source *s, const struct task *t, const struct instance *i,
			   enum task_event event, const char *why);
	void (*status)(const struct task_source *s, struct link_status *ret); /* may be NULL */
	struct task_source *(*free)(struct task_source *s);
};

struct task_source {
	const struct task_source_ops *ops;
	const char *name; /* unique in the daemon; owned by the source */
};

#endif
