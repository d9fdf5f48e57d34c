/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_check.h: what the rules ask for that the processes which match now do not have: endpoints, and
 * instances and endpoints of tasks. For `agent --check`; changes nothing in the processes.
 */
#ifndef SPANPROF_APP_AGENT_CHECK_H
#define SPANPROF_APP_AGENT_CHECK_H

#include "task/instances.h"
#include "task/rules.h"

/* Prints one line for each to stdout; their number, or a negative errno. */
int agent_check(const struct rules *rules, const struct instances *instances);

#endif
