/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry.h: what each (service, instance) says to the backend by the clock: it is alive, what it
 * is, and which tasks it asks for. Knows nothing of spans.
 */
#ifndef SPANPROF_NET_REGISTRY_H
#define SPANPROF_NET_REGISTRY_H

#include <stdint.h>

#include "net/link.h"
#include "net/rpc.h"
#include "task/source.h"

struct registry;

struct registry_options {
	struct rpc *rpc;       /* borrowed */
	struct link *link;     /* borrowed */
	const char *source;    /* name of the task source; borrowed */
	uint64_t poll_ns;      /* 0: 20 s */
	uint64_t heartbeat_ns; /* 0: 30 s */
};

int registry_new(struct registry **ret, const struct registry_options *o);
struct registry *registry_free(struct registry *r);

/* A run's end has been reported: told to whom the tasks were handed. */
void registry_reported(struct registry *r, const char *task_id, const char *instance);

/* Where tasks go; before that nothing is sent. */
void registry_start(struct registry *r, const struct task_intake *intake);

/* Asks and says nothing more; instances are forgotten. */
void registry_stop(struct registry *r);

/* The instance is borrowed until registry_remove(). */
int registry_add(struct registry *r, const struct instance *i);
void registry_remove(struct registry *r, uint32_t instance_id);

uint64_t registry_deadline_ns(const struct registry *r);
/* Starts what is due, as far as the link allows. */
void registry_dispatch(struct registry *r, uint64_t now_ns);

struct registry_status {
	uint64_t n_answers;  /* task polls that were answered */
	uint64_t n_commands; /* task commands handed on */
	uint64_t n_errors;   /* calls that failed, answers that make no sense */
	bool no_profiling;   /* the backend does not know task polls */
};

void registry_status(const struct registry *r, struct registry_status *ret);

#endif
