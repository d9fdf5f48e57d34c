/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glob.h: shell-style patterns on plain text, in time O(pattern x text) whatever the pattern.
 *
 * '*' any text, '?' one byte, '[a-z]' and '[!a-z]' one byte of a set, '\' takes the next byte as it
 * is. '/' and leading dots are nothing special. A '[' without its ']' stands for itself.
 */
#ifndef SPANPROF_BASE_GLOB_H
#define SPANPROF_BASE_GLOB_H

#include <stdbool.h>

bool glob_match(const char *pattern, const char *text);

/* True when the pattern can match more than one text. */
bool glob_is_pattern(const char *pattern);

#endif
