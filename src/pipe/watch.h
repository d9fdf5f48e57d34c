/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.h: hears from the kernel of processes as they start, fork and end: all that call exec but
 * those that were ruled out, and forks and ends of those that are followed.
 *
 * It is limited: when more happens than it may tell, it counts; the caller then looks for itself.
 * The only user of the skeleton of bpf/watch.bpf.c. Needs CAP_BPF and CAP_PERFMON.
 */
#ifndef SPANPROF_PIPE_WATCH_H
#define SPANPROF_PIPE_WATCH_H

#include <stdint.h>
#include <sys/types.h>

#include "base/errmsg.h"
#include "bpf/watch.h"
#include "pipe/bpftime.h"

struct watch;

/* All-zero means defaults. */
struct watch_options {
	uint32_t per_second; /* events in the long run; default 4 */
	uint32_t burst;      /* at once; default 32 */
};

int watch_new(struct watch **ret, const struct watch_options *options, struct errmsg *e);
struct watch *watch_free(struct watch *w);

/* For epoll. */
int watch_fd(const struct watch *w);
/* Takes what is there; fn may call all the functions below. The number of events, or negative errno. */
typedef void (*watch_fn)(void *ctx, const struct watch_event *event);
int watch_poll(struct watch *w, watch_fn fn, void *ctx);

/* 0 or negative errno; -E2BIG: too many, a later scan finds what becomes of the process. */
int watch_follow(struct watch *w, pid_t pid);
void watch_unfollow(struct watch *w, pid_t pid);

/*
 * What may matter, from now on: a process whose file is not ruled out, or whose environment has one of
 * these variables. names NULL, or too many: any process. No file is ruled out after that.
 */
void watch_filter(struct watch *w, const char *const *names, size_t n);
/* No more for the sake of this file alone. A hint: of too many, the oldest are forgotten. */
void watch_rule_out(struct watch *w, const struct watch_file *file);

/* Adds the run time of the watcher's programs, while it is counted: see bpftime.h. */
int watch_runtime(const struct watch *w, struct bpftime *sum);

/* Events that were not told since the start. */
uint64_t watch_n_unsent(const struct watch *w);

#endif
