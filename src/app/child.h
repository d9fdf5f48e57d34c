/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child.h: the command of `spanprof run -- COMMAND`: started, held at its entry point until it is
 * attached, and waited for.
 */
#ifndef SPANPROF_APP_CHILD_H
#define SPANPROF_APP_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/errmsg.h"

/*
 * Starts the command and stops it at its entry point, where its libraries are mapped.
 * -ENOENT, -EACCES ... with a message when exec fails. The signal mask is the one that `mask` says.
 */
int child_start(char **command, const sigset_t *mask, pid_t *ret_pid, struct errmsg *e);
/* Lets it go. */
int child_continue(pid_t pid);
/* True once it has ended; its status as a shell reports it (128 + signal when killed). */
bool child_ended(pid_t pid, int *ret_status);
/* Says that n processes of a command that has ended live on: it has put itself into the background. */
void child_tell_left(size_t n);

#endif
