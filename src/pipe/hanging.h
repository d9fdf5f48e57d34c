/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hanging.h: a call that has not ended for long, and where it is, told while it hangs.
 */
#ifndef SPANPROF_PIPE_HANGING_H
#define SPANPROF_PIPE_HANGING_H

#include <stdbool.h>
#include <stdint.h>

#include "pipe/pipeline.h"

struct hanging {
	uint32_t ep_id;
	uint32_t tgid;
	uint32_t tid;
	uint64_t start_ns;
	char name[128];  /* printable */
	char where[320]; /* "request > body > pause, blocked: sleep", printable; "": not known */
};

/*
 * Of the open calls that began after after_ns, and not after until_ns, the first one; false: there
 * is none. Looks up the functions of its last snapshot, unless the pipeline does without symbols.
 */
bool hanging_find(struct pipeline *p, uint64_t after_ns, uint64_t until_ns, struct hanging *ret);

#endif
