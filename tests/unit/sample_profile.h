/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_profile.h: hand-built profiles for the tests of the model and of the exporters.
 *
 * Everything in them is fixed: no clock, no host name of the machine. In every profile the samples
 * of a span add up to its duration, as the contract in model/profile.h says.
 */
#ifndef SPANPROF_TESTS_SAMPLE_PROFILE_H
#define SPANPROF_TESTS_SAMPLE_PROFILE_H

#include "model/profile.h"

/* No endpoint, no span. */
struct profile *sample_profile_bare(void);
/* One endpoint with calls, none of them slow. */
struct profile *sample_profile_empty(void);
/*
 * Two endpoints, several names, inlined, kernel, JIT and unknown frames, synthetic and incomplete
 * stacks, every kind of sample, spans that did not return, an unfinished one, counters.
 */
struct profile *sample_profile_orders(void);
/* One endpoint whose only span is unfinished. */
struct profile *sample_profile_unfinished(void);
/* One span with a stack of n frames. */
struct profile *sample_profile_deep(size_t n);
/*
 * Names, functions and paths with control characters, quotes, markup, invalid UTF-8, wide
 * characters, separators of the formats, and one of 300 000 bytes.
 */
struct profile *sample_profile_hostile(void);

/* Names of its spans as every output shall show them, where quotes, markup and separators mean nothing. */
enum { SAMPLE_HOSTILE_NAMES = 5 };
extern const char *const sample_hostile_names[SAMPLE_HOSTILE_NAMES];

/* The building blocks; each asserts that it succeeds. */
uint32_t sample_string(struct profile *p, const char *text);
uint32_t sample_module(struct profile *p, const char *path, uint8_t id_byte, uint64_t start);
uint32_t sample_frame(struct profile *p, const char *function, const char *file, uint32_t line,
		      uint32_t flags);
/* A location of one frame in the module, at an offset that depends on function and line. */
uint32_t sample_location(struct profile *p, uint32_t module, const char *function, const char *file,
			 uint32_t line, uint32_t frame_flags);
uint32_t sample_endpoint(struct profile *p, const char *name, uint64_t n_calls, uint64_t n_slow);
/* Appends a span without samples that starts at start_ms; sample_wall extends it. */
uint32_t sample_span(struct profile *p, uint32_t endpoint, const char *name, uint32_t tid,
		     uint64_t start_ms);
/* Appends a sample to the last span and wall_us to its duration and its split. */
void sample_wall(struct profile *p, uint32_t stack, enum sample_kind kind, int syscall_nr,
		 uint64_t wall_us);

#endif
