/* SPDX-License-Identifier: Apache-2.0 */
/*
 * instances.h: which processes are which instance of which service, now.
 *
 * A fork of a matched process that runs the same program matches, too, whatever its title has become.
 * An instance is a distinct (service, instance name). A process belongs to the instance of its parent
 * when both match the same service and the service groups by tree (prefork servers); otherwise its
 * name comes from the service's template. The table is kept by scans of /proc; events about forks,
 * execs and exits, where they are available, only make it faster. Memory follows the processes that
 * are there, never those that were.
 */
#ifndef SPANPROF_TASK_INSTANCES_H
#define SPANPROF_TASK_INSTANCES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/errmsg.h"
#include "model/task.h"
#include "task/rules.h"

struct instances;

struct instances_options {
	const char *hostname;
	const char *proc; /* NULL: "/proc" */
	/* Told in this order: up, process_up..., process_down..., down. Calls must not change the table. */
	void (*up)(void *ctx, const struct instance *i, bool accepts);
	void (*down)(void *ctx, const struct instance *i);
	void (*process_up)(void *ctx, const struct instance *i, pid_t pid);
	void (*process_down)(void *ctx, const struct instance *i, pid_t pid);
	void (*accepts)(void *ctx, const struct instance *i,
			bool accepts); /* changed by a reload */
	void *ctx;
};

struct instances_stats {
	size_t n_instances;
	size_t n_processes; /* matched ones */
	size_t n_watched;   /* processes in the table, matched or not */
	uint64_t n_seen;    /* processes looked at since the start */
	uint64_t n_refused; /* processes left out because of limits.instances */
};

/* rules are borrowed until instances_reload or instances_free. */
int instances_new(struct instances **ret, const struct rules *rules,
		  const struct instances_options *options, struct errmsg *e);
struct instances *instances_free(struct instances *t);

/* Looks at /proc: 0, -ENOMEM, or an errno of reading /proc. */
int instances_scan(struct instances *t);

/* What the kernel told at once. */
void instances_on_fork(struct instances *t, pid_t parent, pid_t child);
void instances_on_exec(struct instances *t, pid_t pid);
/*
 * Whether no process that runs the same file as this one, which has called exec, can match the rules.
 * ino: of the file that was called; false when the process runs another one by now.
 */
bool instances_rule_out(const struct instances *t, pid_t pid, uint64_t ino);
void instances_on_exit(struct instances *t, pid_t pid);

/* The same processes under new rules. Instances whose service and name stay are not touched. */
int instances_reload(struct instances *t, const struct rules *rules);

/* NULL: none. Also finds one that is down but held. */
const struct instance *instances_find(const struct instances *t, uint32_t id);
/* By number 0, 1, ...; those that are up. NULL at the end. */
const struct instance *instances_at(const struct instances *t, size_t idx);
/* The rule of an instance that is up. */
const struct rules_service *instances_rule(const struct instances *t, uint32_t id);
bool instances_accepts(const struct instances *t, uint32_t id);
size_t instances_pids(const struct instances *t, uint32_t id, const pid_t **ret_pids);

/* The instance of a process; 0: none. */
uint32_t instances_of_pid(const struct instances *t, pid_t pid);

/* Keeps struct instance valid after it is down, until released as often. */
void instances_hold(struct instances *t, uint32_t id);
void instances_release(struct instances *t, uint32_t id);

void instances_stats(const struct instances *t, struct instances_stats *ret);

#endif
