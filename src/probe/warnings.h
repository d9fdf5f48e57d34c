/* SPDX-License-Identifier: Apache-2.0 */
/*
 * warnings.h: what is worth telling the user that is no error: lines in the order in which they came, each told
 * once; what an endpoint lacks, once for each file.
 */
#ifndef SPANPROF_PROBE_WARNINGS_H
#define SPANPROF_PROBE_WARNINGS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/vec.h"

struct warning {
	char *text; /* owned */
	uint32_t ep_id;
	dev_t exe_dev; /* of what it lacks; 0, 0: it is of no file */
	ino_t exe_ino;
};

/* All-zero is empty. */
struct warnings {
	VEC(struct warning) v;
	size_t n_told;
};

void warnings_deinit(struct warnings *w);
/* Nothing, when the same has been told. */
void warnings_add(struct warnings *w, const char *text);
/* The endpoint is not in this process: nothing, when that has been said of another one of its executable. */
void warnings_add_missing(struct warnings *w, uint32_t ep_id, pid_t pid, const char *text);
/* The next one, each once; NULL at the end. */
const char *warnings_next(struct warnings *w);

#endif
