/* SPDX-License-Identifier: Apache-2.0 */
/*
 * escape.h: text of a target (names, symbols, paths) made harmless for people and files. Pure.
 *
 * What can change a terminal or hide text (control characters, bidirectional and invisible
 * formatting characters) and bytes that are not UTF-8 come out as "\x1b", "\u202e". All exporters
 * write target text in this form and no other, so that one name reads the same in every format.
 */
#ifndef SPANPROF_EXPORT_ESCAPE_H
#define SPANPROF_EXPORT_ESCAPE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { ESCAPE_MAX_BYTES = 16384 }; /* longer texts are cut by escape_dup and escape_write */

/* One character, or the escape that stands for it; width is in terminal columns. */
struct escape_unit {
	char text[11]; /* not NUL-terminated */
	uint8_t bytes;
	uint8_t width;
};

/* Takes the next unit from *s; false at its end. */
bool escape_next(const char **s, struct escape_unit *ret);

/* Columns of the whole text; counting stops above `limit`. */
unsigned int escape_width(const char *s, unsigned int limit);

/* Writes at most max columns, "..." last when cut; the columns written are returned. */
unsigned int escape_print(FILE *out, const char *s, unsigned int max);

/* Writes the text without regard to width. */
void escape_write(FILE *out, const char *s);

/* A copy, owned by the caller; NULL: no memory. Always valid UTF-8. */
char *escape_dup(const char *s);

#endif
