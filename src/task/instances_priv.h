/* SPDX-License-Identifier: Apache-2.0 */
/*
 * instances_priv.h: what the files of the table share. instances.c: the instances, their names and who is in them;
 * instances_scan.c: the processes, and to which rule each belongs.
 */
#ifndef SPANPROF_TASK_INSTANCES_PRIV_H
#define SPANPROF_TASK_INSTANCES_PRIV_H

#include "base/hash.h"
#include "base/vec.h"
#include "task/facts.h"
#include "task/instances.h"

/* One instance. */
struct slot {
	struct instance pub; /* owned strings */
	const struct rules_service *rule;
	bool accepts;
	bool is_up;
	unsigned int holds;
	VEC(pid_t) pids;
};

/* One process. */
struct entry {
	pid_t pid;
	pid_t parent;
	uint64_t start_ticks;
	const struct rules_service *rule; /* NULL: matches none */
	uint32_t instance_id;             /* 0: none */
	uint32_t seen;                    /* scan number */
	uint32_t age;                     /* scans */
	struct facts_program forked; /* known: a fork of a matched process that runs this, too */
};

struct instances {
	struct instances_options options;
	const struct rules *rules;
	char hostname[128];
	int proc_fd;
	struct hash by_pid;       /* pid -> struct entry *, owned */
	VEC(struct slot *) slots; /* owned */
	uint32_t next_id;
	uint32_t scan;
	size_t n_up;
	size_t n_matched;
	uint64_t n_seen;
	uint64_t n_refused;
};

struct slot *instances_slot(const struct instances *t, uint32_t id);
struct entry *instances_entry(const struct instances *t, pid_t pid);
/*
 * The instance of a process that matches the rule, made when it is a new one. parent: NULL, or its entry.
 * NULL: not ours, or there are too many.
 */
struct slot *instances_slot_for(struct instances *t, const struct rules_service *rule,
				struct facts *f, const struct entry *parent);
void instances_join(struct instances *t, struct slot *s, struct entry *en);
void instances_leave(struct instances *t, struct entry *en);

#endif
