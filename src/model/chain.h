/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chain.h: which frames of a chain of calls are shown where there is no room for all. Pure.
 *
 * What names the work is shown first: the last frame of the program's own, the first one, the function
 * of the runtime library that the program called last, then more of its own frames. The inside of a
 * runtime library (what pthread_cond_wait calls) says nothing that its first frame does not say, and
 * a frame without a name says nothing at all: these come last.
 */
#ifndef SPANPROF_MODEL_CHAIN_H
#define SPANPROF_MODEL_CHAIN_H

#include <stdbool.h>
#include <stddef.h>

#define CHAIN_GAP " > "
#define CHAIN_CUT "..."

struct chain_frame {
	unsigned int width; /* columns of its name */
	bool runtime;       /* chain_is_runtime */
	bool unnamed;       /* "module+0x1234"; changed by chain_choose */
	bool shown;         /* set by chain_choose */
};

/* The frame is the C, C++ or Rust library's: by its module's path, or by its name. */
bool chain_is_runtime(const char *module_path, const char *function);

/*
 * Chooses frames that fit into room columns, with a CHAIN_CUT in place of each row of left-out ones; at
 * least one. Frames are in the order of the calls, n at least 1.
 */
void chain_choose(struct chain_frame *frames, size_t n, unsigned int room);

/* Columns of what is shown. */
unsigned int chain_width(const struct chain_frame *frames, size_t n);

#endif
