/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preset.h: endpoints of well-known servers, as data files. Parsing is pure; fuzzed.
 *
 *   [postgres]
 *   alias    = postgresql
 *   summary  = PostgreSQL: one query, from its arrival to the answer
 *   exe      = postgres
 *   endpoint = pgstat_report_activity(str(arg1));if=arg0==2;...
 *   note     = ...
 *
 * Lines that start with white space continue the value before them; '#' starts a comment line.
 * Files are looked for beside the program (when it runs from its build folder), or else in the folder
 * of installed data, then the user's own file, whose presets win over others of the same name.
 * Within a file a name is there once.
 */
#ifndef SPANPROF_PROBE_PRESET_H
#define SPANPROF_PROBE_PRESET_H

#include <stddef.h>

#include "base/errmsg.h"

enum { PRESET_VALUES_MAX = 16, PRESET_FILE_MAX = 256 << 10 };

/* A list of owned strings. */
struct preset_values {
	char *at[PRESET_VALUES_MAX];
	size_t n;
};

struct preset {
	char *name;
	char *summary;
	char *file; /* where it comes from */
	unsigned int line;
	unsigned int text_number; /* of the texts that were parsed, which has it */
	struct preset_values aliases;
	struct preset_values exes;      /* globs on the base name of the executable */
	struct preset_values libraries; /* globs: works in any process that maps one of these */
	struct preset_values endpoints; /* specifications, see endpoint.h */
	struct preset_values notes;
};

struct presets;

/* user_file may be NULL. A file with a mistake is refused with its line and column. */
int presets_open(struct presets **ret, const char *user_file, struct errmsg *e);
struct presets *presets_free(struct presets *p);

/* By name or alias; -ENOENT: the message lists the names, the nearest one first. */
int presets_find(const struct presets *p, const char *name, const struct preset **ret,
		 struct errmsg *e);
/* Preset number idx, in alphabetical order; NULL at the end. */
const struct preset *presets_at(const struct presets *p, size_t idx);

/* Pure: adds the presets of a text. -EINVAL with "FILE:LINE:COLUMN: ..." */
int parse_presets(struct presets *p, const char *text, size_t bytes, const char *file,
		  struct errmsg *e);
int presets_new(struct presets **ret);

#endif
