/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yamlpos.h: on which line of a YAML text each key and list entry stands: for error messages.
 *
 * Paths look like "services[0].endpoints[1].spec". It also refuses what a rules file does not need and
 * what could make a small file large: aliases, several documents, deep nesting.
 */
#ifndef SPANPROF_TASK_YAMLPOS_H
#define SPANPROF_TASK_YAMLPOS_H

#include <stddef.h>

#include "base/errmsg.h"
#include "base/vec.h"

struct yamlpos_entry {
	char *path;        /* owned */
	unsigned int line; /* 1, 2, ... */
};

struct yamlpos {
	VEC(struct yamlpos_entry) entries; /* in the order of the text */
};

/* 0, -ENOMEM, or -EINVAL with "LINE: why". */
int parse_yamlpos(const char *text, size_t bytes, struct yamlpos *ret, struct errmsg *e);
void yamlpos_deinit(struct yamlpos *p);

/* The line of the path, or of its nearest parent that is there; 0: none. */
unsigned int yamlpos_line(const struct yamlpos *p, const char *path);
/* The line of the first key of this name at or below line `from`; 0: none. */
unsigned int yamlpos_find_key(const struct yamlpos *p, const char *key, unsigned int from);

#endif
