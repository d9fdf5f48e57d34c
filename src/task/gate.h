/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate.h: which endpoints a task means, and the gate that serves several tasks at once. Pure.
 *
 * BPF has one gate for an (endpoint, instance). Tasks that share one get the lowest of their
 * thresholds and periods; which span then belongs to which task is decided when it is finished.
 */
#ifndef SPANPROF_TASK_GATE_H
#define SPANPROF_TASK_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/wire.h"
#include "model/task.h"

/* How the names of a task and of an endpoint go together. */
enum gate_match {
	GATE_NO,
	GATE_WHOLE,   /* every span of the endpoint */
	GATE_BY_NAME, /* spans have names of their own: only those that match */
};

/* What an endpoint may be called. */
struct gate_endpoint {
	const char *spec;
	const char *display;
	const char *
		pattern; /* NULL: display is final; else of the function that it will be named after */
	bool has_name; /* its spans are named by an expression */
};

/* local: the task's endpoint may be a glob. */
enum gate_match gate_match(const struct task *t, bool local, const struct gate_endpoint *ep);

/* Whether a finished span of the endpoint, by its name and duration, belongs to the task. */
bool gate_takes_span(const struct task *t, bool local, const struct gate_endpoint *ep,
		     const char *span_name, uint64_t duration_ns);

struct gate_plan {
	struct wire_gate gate;
	unsigned int n_tasks;
	uint64_t tasks; /* which: differs for other tasks */
	bool by_name;   /* which spans count is known only later, so BPF cannot count them */
};

/* Adds a task to the plan of one gate. default_parallel: for tasks that give none. */
void gate_plan_add(struct gate_plan *plan, const struct task *t, enum gate_match match,
		   uint32_t default_parallel);
/* The limits that only hold for the gate as a whole, once all tasks are added. */
void gate_plan_finish(struct gate_plan *plan);

#endif
