/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules_fixed.h: the keys of the rules file that only a restart of the agent puts in force.
 *
 * They are noted as text at the start; a file that is loaded later is compared with that, not with the
 * one before it, so that each reload says what still waits for a restart.
 */
#ifndef SPANPROF_TASK_RULES_FIXED_H
#define SPANPROF_TASK_RULES_FIXED_H

#include <stddef.h>

#include "task/rules.h"

/* One line a key; the caller frees it. 0 or -ENOMEM. */
int rules_fixed_note(const struct rules *rules, char **ret);
/*
 * The keys that differ between two notes, "agent.store, backends[0].token"; a backend that is new or gone is
 * one key, "backends[1]". Empty: none. Cut at n.
 */
void rules_fixed_compare(const char *before, const char *after, char *ret, size_t n);

#endif
