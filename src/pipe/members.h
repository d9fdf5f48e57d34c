/* SPDX-License-Identifier: Apache-2.0 */
/*
 * members.h: the processes that are profiled, each under its pid once.
 */
#ifndef SPANPROF_PIPE_MEMBERS_H
#define SPANPROF_PIPE_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/hash.h"
#include "base/vec.h"
#include "proc/process.h"

struct member {
	struct process process;
	uint32_t instance_id;
	uint32_t as_id;
	uint64_t cpu_ns; /* when it was last looked at; 0: it was not */
	bool forked;     /* became a member by fork: probes and return sites are its parent's */
};

struct members {
	VEC(struct member) all; /* in no order */
	struct hash by_pid;     /* pid -> index */
};

void members_init(struct members *m);
void members_deinit(struct members *m);
/* NULL: not there. Valid until the next change. */
struct member *members_get(const struct members *m, pid_t pid);
/* The pid is not there yet. 0, -ENOMEM. */
int members_add(struct members *m, const struct member *one);
void members_drop(struct members *m, pid_t pid);

#endif
