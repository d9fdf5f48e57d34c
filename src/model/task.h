/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task.h: what to profile (a task) and one running unit of a service (an instance), as plain data.
 *
 * A task can be copied by assignment. Where it comes from, whether its values are allowed and when
 * it runs are not known here: see src/task. Both are passed to sinks and sources by const pointer.
 */
#ifndef SPANPROF_MODEL_TASK_H
#define SPANPROF_MODEL_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TASK_ID_MAX = 256, /* bytes, NUL included; also of every text below */
	TASK_SOURCE_MAX = 64,
	TASK_SERVICE_MAX = 288, /* 70 characters of UTF-8 fit */
	TASK_INSTANCE_MAX = 288,
	TASK_ENDPOINT_MAX = 640, /* 150 characters of UTF-8 fit */
};

struct task {
	char id[TASK_ID_MAX];         /* unique within its source */
	char source[TASK_SOURCE_MAX]; /* name of the source: "rules", "control", "oap" */
	char service[TASK_SERVICE_MAX];
	char instance[TASK_INSTANCE_MAX]; /* selector: "" for all, a name, or a glob of names */
	char endpoint
		[TASK_ENDPOINT_MAX]; /* name to match exactly; local tasks: also a glob, "*" for all */
	int64_t create_ms;           /* epoch; orders the tasks of a source */
	int64_t start_ms;            /* epoch; <= 0: at once */
	uint64_t duration_ns;        /* from the real start; 0: until cancelled (local tasks) */
	uint64_t threshold_ns;       /* a span is profiled once it is older than this */
	uint64_t period_ns;          /* between two snapshots */
	uint32_t max_spans;          /* per instance; 0: no limit (local tasks) */
	uint32_t max_parallel;       /* per instance; 0: the agent's default */
	bool from_start;             /* keep snapshots taken before the threshold, too */
	bool end_by_count;           /* the task ends when max_spans are reached */
};

struct instance_property {
	char *key;
	char *value;
};

/* Owned by the table of instances (src/task/instances.h); valid from instance_up to instance_down. */
struct instance {
	uint32_t id; /* the same as in struct wire_member; never 0, never used twice */
	char *service;
	char *name;
	char *layer; /* SkyWalking layer name; "" means GENERAL */
	struct instance_property *properties;
	size_t n_properties;
	uint32_t pid;       /* of its first process: the prefork parent */
	int64_t started_ms; /* epoch: start of that process */
};

#endif
