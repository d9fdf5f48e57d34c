/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inspect.h: one running process, opened for looking at its modules without probing anything.
 */
#ifndef SPANPROF_APP_INSPECT_H
#define SPANPROF_APP_INSPECT_H

#include <sys/types.h>

#include "base/errmsg.h"
#include "code/space.h"
#include "probe/binary.h"
#include "probe/preset.h"
#include "probe/resolve.h"

struct inspect {
	pid_t pid;
	struct space_cache *cache;
	struct space *space;
	struct binaries *binaries;
	struct resolve_input input; /* for src/probe: borrows the above */
};

/*
 * debug_max_bytes: see binary.h; 0: wide. 0 or a negative errno with the message set; deinit is due only
 * after success.
 */
int inspect_open(struct inspect *ret, pid_t pid, const char *debug_dirs, uint64_t debug_max_bytes,
		 struct errmsg *e);
void inspect_deinit(struct inspect *i);
/* The next preset from number *idx on that fits this process, by its program and its libraries; NULL: no more. */
const struct preset *inspect_preset(const struct inspect *i, const struct presets *all,
				    size_t *idx);

#endif
