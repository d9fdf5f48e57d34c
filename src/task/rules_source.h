/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules_source.h: the tasks of the rules file as a source named "rules". A task that is no longer in
 * the file, or whose values changed, is cancelled; an edited one is a new task.
 */
#ifndef SPANPROF_TASK_RULES_SOURCE_H
#define SPANPROF_TASK_RULES_SOURCE_H

#include "task/rules.h"
#include "task/source.h"

int rules_source_new(struct task_source **ret, const struct rules *rules);
/* After a reload; takes effect at once. */
void rules_source_set(struct task_source *s, const struct rules *rules);

#endif
