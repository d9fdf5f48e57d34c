/* SPDX-License-Identifier: Apache-2.0 */
/*
 * path.h: the frames of a sample as exporters without a place for stop reasons show them.
 *
 * Every path starts in the function of the span's endpoint, so that the parts of a span hang
 * together: a synthetic frame hangs under it, and so does a stack that ends early, below a frame
 * "[incomplete: no_cfi]". Names of frames are in the profile; those made up here are text.
 */
#ifndef SPANPROF_EXPORT_PATH_H
#define SPANPROF_EXPORT_PATH_H

#include "model/profile.h"

struct path_frame {
	uint32_t frame;   /* index into frames; 0: see text */
	const char *text; /* borrowed from the profile or static */
};

struct paths {
	const struct profile *p; /* borrowed */
	uint32_t *roots; /* owned; endpoint -> location of its function, 0: no complete stack */
	VEC(struct path_frame) path; /* scratch and result of paths_of */
};

int paths_init(struct paths *ret, const struct profile *p);
void paths_deinit(struct paths *ps);

/* Fills ps->path, root first. 0 or -ENOMEM. */
int paths_of(struct paths *ps, const struct profile_sample *s);

const char *paths_text(const struct paths *ps, const struct path_frame *f);

/* "[incomplete: no_cfi]"; NULL for a stack that is complete or synthetic. */
const char *path_incomplete(enum stack_stop stop);

/* "[run queue]", "[blocked: lock]"; NULL for on-CPU samples. */
const char *path_state(const struct profile_sample *s);

#endif
