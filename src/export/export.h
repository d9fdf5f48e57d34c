/* SPDX-License-Identifier: Apache-2.0 */
/*
 * export.h: a profile written in one format. One file per format; each is a row in the table.
 * Everything that comes from a target (names, paths, symbols) is escaped for the format.
 */
#ifndef SPANPROF_EXPORT_EXPORT_H
#define SPANPROF_EXPORT_EXPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "base/errmsg.h"
#include "model/profile.h"

struct export_options {
	unsigned int columns;   /* text: terminal width, 0: no cutting */
	unsigned int rows;      /* text: at most this many tree lines an endpoint, 0: no cutting */
	unsigned int n_slowest; /* text: spans listed, default 5 */
	bool color;
	bool verbose; /* text: all counters, by line */
};

struct export_format {
	const char *name;     /* "pprof" */
	const char *suffixes; /* ".pb.gz .pprof": space-separated, for guessing from a file name */
	const char *summary;
	/* Writes to the stream; does not flush. 0 or a negative errno with the message set. */
	int (*write)(const struct profile *p, const struct export_options *o, FILE *out,
		     struct errmsg *e);
};

/* NULL when there is none. */
const struct export_format *export_find(const char *name);
const struct export_format *export_guess(const char *path);
/* All formats; the array ends with a row whose name is NULL. */
const struct export_format *export_formats(void);

#endif
