/* SPDX-License-Identifier: Apache-2.0 */
/* export_text.h: a profile written in a format, as bytes in memory. */
#ifndef SPANPROF_TESTS_EXPORT_TEXT_H
#define SPANPROF_TESTS_EXPORT_TEXT_H

#include <stddef.h>

#include "export/export.h"

/* NUL-terminated after ret_bytes bytes; freed by the caller. Asserts that writing succeeds. */
char *export_text(const char *format, const struct profile *p, const struct export_options *o,
		  size_t *ret_bytes);

/* Asserts that a text of a target neither steers a terminal nor breaks UTF-8. */
void assert_harmless(const char *text);

#endif
