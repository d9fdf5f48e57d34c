/* SPDX-License-Identifier: Apache-2.0 */
/*
 * callfilter.h: the system calls that the daemon may make once it is set up; all others are refused.
 *
 * A refused call fails with ENOSYS, as if the kernel did not have it, for which libraries have their
 * ways; it is told on standard error and counted. The daemon is not killed for it: whoever has taken it
 * over gains nothing by the call either way, and a library's new habit must not end a daemon.
 */
#ifndef SPANPROF_APP_CALLFILTER_H
#define SPANPROF_APP_CALLFILTER_H

#include <stdint.h>

#include "base/errmsg.h"

/* For all threads, for good. Threads may not block SIGSYS from now on: a refused call would end them. */
int callfilter_load(struct errmsg *e);

/* Calls refused so far. */
uint64_t callfilter_n_refused(void);

#endif
