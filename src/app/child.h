/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child.h: the command of `spanprof run -- COMMAND`: started, held at its entry point until it is
 * attached, and waited for. It can be held again where it enters another program that it calls exec for.
 */
#ifndef SPANPROF_APP_CHILD_H
#define SPANPROF_APP_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/errmsg.h"

struct child {
	pid_t pid; /* 0: none */
	uint64_t start_ticks;
	uint64_t entry; /* where it will be stopped; 0: nowhere */
	bool is_followed;
	bool is_leaving; /* it is let go as soon as it stops */
};

enum child_state {
	CHILD_RUNS,
	CHILD_ENTERS, /* it is stopped at the entry point of a program */
	CHILD_ENDED,
};

/*
 * Starts the command, which runs up to its entry point, where its libraries are mapped: child_look tells when
 * it is there, or ret_state does at once. -ENOENT, -EACCES ... with a message when exec fails. The signal
 * mask is the one that `mask` says; to_stderr: its standard output is its standard error.
 */
int child_start(char **command, const sigset_t *mask, bool to_stderr, struct child *ret,
		enum child_state *ret_state, struct errmsg *e);
/* Says that it ended, with this status, before anything of it was attached. -ECHILD. */
int child_ended_early(const char *name, int status, struct errmsg *e);
/* Lets it go, for good. */
int child_continue(struct child *c);
/*
 * Whether a traced program has the rights that its file gives it. If not, a command is not to be followed:
 * what it calls exec for may have some.
 */
bool child_keeps_rights(void);
/* Lets it go, until it enters another program; child_look must be called on each SIGCHLD meanwhile. */
int child_follow(struct child *c);
/*
 * Whether it will be held again: not when it was let go, or has called exec on another thread than its
 * first.
 */
bool child_is_followed(const struct child *c);
/*
 * What has become of it. CHILD_ENDED is told once, with its status as a shell reports it (128 + signal when
 * killed).
 */
enum child_state child_look(struct child *c, int *ret_status);
/* Whether it is stopped still: not when it was killed meanwhile. */
bool child_is_held(const struct child *c);
/* Ends it, and waits until it has ended, with which status it returns: child_look is not called any more. */
int child_kill(const struct child *c);
/* Ends the following of what child_follow let go: child_look lets it go for good, at once if it can be stopped. */
void child_leave(struct child *c);
/* Says that n processes of a command that has ended live on: it has put itself into the background. */
void child_tell_left(size_t n);

#endif
