/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent.h: the daemon: rules, instances, tasks from its sources, the profiler, and the sinks, in one
 * thread around one epoll set.
 */
#ifndef SPANPROF_APP_AGENT_H
#define SPANPROF_APP_AGENT_H

#include <stdbool.h>

#include "base/errmsg.h"

struct agent;

struct agent_options {
	const char *config;   /* path of the rules file */
	const char *socket;   /* NULL: as the rules say */
	const char *store;    /* NULL: as the rules say */
	bool keep_privileges; /* for debugging: no capabilities dropped, no filter */
};

#define AGENT_SOCKET_DEFAULT "/run/spanprof/agent.sock"

/* 0 or a negative errno with the message. */
int agent_new(struct agent **ret, const struct agent_options *options, struct errmsg *e);
struct agent *agent_free(struct agent *a);

/* Runs until SIGTERM or SIGINT. */
int agent_run(struct agent *a, struct errmsg *e);

#endif
