/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * watch.h: what the watcher of processes and user space share; included by both sides.
 */
#ifndef SPANPROF_WATCH_H
#define SPANPROF_WATCH_H

#include <linux/types.h>

/* An executable file. The generation tells a new file from a deleted one of the same number. */
struct watch_file {
	__u64 dev;
	__u64 ino;
	__u32 generation;
	__u32 pad;
};
_Static_assert(sizeof(struct watch_file) == 24, "layout");

/* The begin of "NAME=" of an environment variable, as bytes in memory; mask 0: none. */
struct watch_env {
	__u64 first;
	__u64 mask;
};
enum { WATCH_ENV_MAX = 16 };

enum watch_kind {
	WATCH_EXEC, /* a process that may match has called exec */
	WATCH_FORK, /* a followed process has forked */
	WATCH_EXIT, /* a followed process is gone */
};

struct watch_event {
	__u32 kind; /* enum watch_kind */
	__u32 tgid;
	__u32 child; /* WATCH_FORK */
	__u32 pad;
	struct watch_file file; /* WATCH_EXEC */
};
_Static_assert(sizeof(struct watch_event) == 40, "layout");

#endif
