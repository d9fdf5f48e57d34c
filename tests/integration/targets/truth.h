/* SPDX-License-Identifier: Apache-2.0 */
/*
 * truth.h: what a scripted target knows of its own calls and phases, for comparison.
 *
 * Every line of the file is "call|phase NAME TID START END", CLOCK_MONOTONIC in ns, END 0 while open.
 * Events are kept in memory and written by truth_write; truth_note writes one line at once, for
 * targets that do not live to write the rest.
 */
#ifndef SPANPROF_TESTS_TRUTH_H
#define SPANPROF_TESTS_TRUTH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

uint64_t truth_now(void);
/* path NULL: nothing is written. Exits with a message on error. */
void truth_open(const char *path);
/* name lives as long as the program. */
void truth_add(const char *what, const char *name, uint64_t start_ns, uint64_t end_ns);
void truth_note(const char *what, const char *name, uint64_t start_ns, uint64_t end_ns);
void truth_write(void);

#ifdef __cplusplus
}
#endif

#endif
