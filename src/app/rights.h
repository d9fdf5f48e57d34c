/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rights.h: the rights that a program's file gives: set-user-ID, set-group-ID and file capabilities. The kernel
 * leaves out what a tracer without CAP_SYS_PTRACE has not got itself.
 */
#ifndef SPANPROF_APP_RIGHTS_H
#define SPANPROF_APP_RIGHTS_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Of a child that has just called exec, and was traced without CAP_SYS_PTRACE: whether its file would have given
 * it more than it has, had it not been traced.
 */
bool rights_are_lost(pid_t pid);

#endif
