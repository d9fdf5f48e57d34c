/* SPDX-License-Identifier: Apache-2.0 */
/*
 * starter.h: programs that are there to start another one: shells, and env, nice and all others that are
 * given its name.
 */
#ifndef SPANPROF_APP_STARTER_H
#define SPANPROF_APP_STARTER_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether this process may yet call exec for what it was told to start. */
bool starter_is(pid_t pid);

#endif
