/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sink.h: where finished spans go: a table of functions that each kind of sink fills in.
 *
 * For one (task, instance) the order of calls is: span, span, ..., task_finished, exactly once; the
 * latter comes after the last span, so that a sink that keeps the order needs no flush of its own.
 * A sink never blocks: what it cannot pass on it keeps within its bound, drops, and counts.
 */
#ifndef SPANPROF_TASK_SINK_H
#define SPANPROF_TASK_SINK_H

#include <stdint.h>

#include "model/profile.h"
#include "model/task.h"
#include "task/source.h"

/* A finished span. Everything is borrowed for the time of the call. */
struct sink_span {
	const struct profile *profile;
	uint32_t span; /* index into profile->spans */
	const struct task *task;
	const struct instance *instance;
	uint64_t serial; /* unique per agent for ever: the store's key, `report --span SERIAL` */
};

/* Wall clock of a monotonic time of this profile, in ms since the epoch. */
static inline int64_t sink_epoch_ms(const struct profile *p, uint64_t mono_ns)
{
	return (int64_t)((p->start_real_ns + (mono_ns - p->start_mono_ns)) / 1000000);
}

struct span_sink;

struct span_sink_ops {
	const char *kind; /* "store", "skywalking" */
	/* As in struct task_source_ops. fd, deadline_ns, dispatch may be NULL when not needed. */
	int (*fd)(const struct span_sink *s);
	uint64_t (*deadline_ns)(const struct span_sink *s);
	void (*dispatch)(struct span_sink *s, uint64_t mono_ns);
	/* Every span of every task: a sink that serves one source looks at task->source. */
	void (*span)(struct span_sink *s, const struct sink_span *span);
	void (*task_finished)(struct span_sink *s, const struct task *t, const struct instance *i,
			      enum task_event how);
	/* The daemon is about to end: pass on what can be passed on until the deadline. May be NULL. */
	void (*shutdown)(struct span_sink *s, uint64_t deadline_mono_ns);
	void (*status)(const struct span_sink *s, struct link_status *ret); /* may be NULL */
	struct span_sink *(*free)(struct span_sink *s);
};

struct span_sink {
	const struct span_sink_ops *ops;
	const char *name; /* unique in the daemon; owned by the sink */
};

#endif
