/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files_limit.h: how many files may be open. Each mapped file, probe and map of a run is one; the usual
 * limit of 1024 is a soft one that a process may raise for itself.
 */
#ifndef SPANPROF_APP_FILES_LIMIT_H
#define SPANPROF_APP_FILES_LIMIT_H

#include <sys/resource.h>
#include <sys/types.h>

#include "base/errmsg.h"

/* Raises the soft limit to the hard one. -EMFILE when that is too low to start at all. */
int files_limit_raise(struct rlimit *ret_old, struct errmsg *e);
/* A program that is started has the limit that spanprof was started with. */
void files_limit_restore(pid_t pid, const struct rlimit *old);

#endif
