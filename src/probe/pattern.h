/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pattern.h: an extended regular expression of bounded cost. What it comes from may be a capture file, so
 * its size when all repetitions are written out is computed before it is compiled: the C library needs memory
 * in the square of it. Back references are refused, as their cost has no bound in the pattern.
 */
#ifndef SPANPROF_PROBE_PATTERN_H
#define SPANPROF_PROBE_PATTERN_H

#include <stdbool.h>

struct pattern;

/*
 * A positive value of enum pattern_result when the text is refused; -ENOMEM. Owned by the caller,
 * pattern_free.
 */
enum pattern_result { PATTERN_OK, PATTERN_E_SYNTAX, PATTERN_E_BACK_REFERENCE, PATTERN_E_TOO_LARGE };
int pattern_new(struct pattern **ret, const char *text);
struct pattern *pattern_free(struct pattern *p);

bool pattern_matches(struct pattern *p, const char *text);

/* Places for one byte in it, repetitions written out; UINT_MAX: more than can be counted. Pure. */
unsigned int pattern_places(const char *text);

/* Why it is refused, for messages. */
const char *pattern_reason(enum pattern_result result);

#endif
