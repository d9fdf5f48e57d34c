/* SPDX-License-Identifier: Apache-2.0 */
/*
 * normalize.h: names that differ only in values become one name, and values stay out of the output.
 * Pure; fuzzed. Text that was cut in the middle of a literal is treated as ending there.
 */
#ifndef SPANPROF_PROBE_NORMALIZE_H
#define SPANPROF_PROBE_NORMALIZE_H

#include <stddef.h>

/* What "..." is, whether \ quotes in '...', and how comments end. */
enum sql_dialect {
	SQL_UNKNOWN, /* "...": a literal unless it can only be a name; \ quotes */
	SQL_MYSQL,   /* "...": a literal; \ quotes; "--" needs white space behind it */
	SQL_PGSQL,   /* "...": a name, as in the standard; \ quotes in E'...' only; comments nest */
	SQL_SQLITE,  /* "...": a name or, when there is none, a literal; \ is plain */
};

/*
 * SQL: string, number and blob literals become ?, lists of them (?, ?) become (?), comments go,
 * white space becomes one blank. The result is never longer than the input.
 * NUL-terminated; its length is returned. out may be in; out_bytes must be at least 1.
 */
size_t normalize_sql(enum sql_dialect dialect, const char *in, size_t n, char *out,
		     size_t out_bytes);

/*
 * A URL path: what follows ? or # goes (%3f and %23 too), as do a segment's ;parameters. A segment
 * that is a number, a UUID, a hexadecimal or mostly numeric id, an address or user with @, a web token or a
 * long word of digits and letters of both cases becomes {id}. "GET /orders/4711?x=1" becomes
 * "GET /orders/{id}". Other words are kept: what is secret in them cannot be known.
 */
size_t normalize_path(const char *in, size_t n, char *out, size_t out_bytes);

#endif
