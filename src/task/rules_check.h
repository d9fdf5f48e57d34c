/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules_check.h: texts of loaded rules to values, with defaults; what is wrong gets its line. For
 * rules.c.
 */
#ifndef SPANPROF_TASK_RULES_CHECK_H
#define SPANPROF_TASK_RULES_CHECK_H

#include "task/rules.h"
#include "task/yamlpos.h"

int rules_check(struct rules *r, const char *file, const struct yamlpos *pos, struct errmsg *e);

#endif
