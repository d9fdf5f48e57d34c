/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.h: makes text from files and programs that are not trusted safe to print; names of files. Pure.
 */
#ifndef SPANPROF_BASE_TEXT_H
#define SPANPROF_BASE_TEXT_H

#include <stddef.h>

/*
 * Replaces by '?', in place: control characters (C0, DEL, and C1 as UTF-8), bidirectional overrides, and
 * every byte that is not part of well-formed UTF-8. The length stays the same or shrinks. s is returned.
 */
char *text_printable(char *s);

/*
 * Copies n bytes at s (to the first NUL at most) to buf, printable; what does not fit is cut at a
 * character's boundary and ends in "...". buf_bytes >= 4. buf is returned.
 */
char *text_copy_printable(char *buf, size_t buf_bytes, const char *s, size_t n);

/* The same with all of s. */
char *text_show(char *buf, size_t buf_bytes, const char *s);

/* What follows the last slash; all of a path that ends in one. Points into path. */
const char *text_base_name(const char *path);

#endif
