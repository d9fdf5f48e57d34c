/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.h: a capture file through the pipeline, and the recording of one.
 *
 * Mapped files are opened by the paths that the capture names, and used only when their build ID is
 * the recorded one. Needs no root and no kernel support.
 */
#ifndef SPANPROF_PIPE_REPLAY_H
#define SPANPROF_PIPE_REPLAY_H

#include <stdio.h>

#include "base/errmsg.h"
#include "pipe/capture.h"
#include "pipe/pipeline.h"

struct replay;

struct replay_options {
	struct symbolize_options symbols;
	const char *root; /* prefix of the paths of mapped files; NULL: none */
};

/* Reads the whole capture. name is for messages. The profile is complete on success. */
int replay_read(struct replay **ret, FILE *in, const char *name,
		const struct replay_options *options, struct errmsg *e);
struct replay *replay_free(struct replay *r);

/* Borrowed. */
struct profile *replay_profile(struct replay *r);

/* Files of the capture that could not be used: NULL at the end; each is returned once. */
const char *replay_next_warning(struct replay *r);

/* Writes what the pipeline knows of an address space to a capture. */
int replay_record_space(struct capture_writer *w, uint32_t tgid, uint32_t as_id,
			struct space *space);

#endif
