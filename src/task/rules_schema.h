/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules_schema.h: YAML text to struct rules, texts only; values are not looked at. For rules.c.
 *
 * The only user of libcyaml. What it says about a mistake is turned into one line with the key's
 * line number and what is allowed there.
 */
#ifndef SPANPROF_TASK_RULES_SCHEMA_H
#define SPANPROF_TASK_RULES_SCHEMA_H

#include "task/rules.h"
#include "task/yamlpos.h"

int rules_schema_load(const char *text, size_t bytes, const char *path, const struct yamlpos *pos,
		      struct rules **ret, struct errmsg *e);
void rules_schema_free(struct rules *r);

#endif
