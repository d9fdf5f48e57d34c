/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ratelog.h: how much a daemon may log: bursts are allowed, floods are cut and counted. Pure.
 */
#ifndef SPANPROF_APP_RATELOG_H
#define SPANPROF_APP_RATELOG_H

#include <stdbool.h>
#include <stdint.h>

enum { RATELOG_BURST = 100, RATELOG_PER_SECOND = 10 };

struct ratelog {
	uint64_t last_ns;
	uint64_t credit_ns;    /* what a line costs is RATELOG_PER_SECOND to the second */
	uint64_t n_suppressed; /* since the last line that was allowed */
	bool started;
};

/* Whether a line may be written now; ret_suppressed: lines that were not, before it. */
bool ratelog_allow(struct ratelog *r, uint64_t now_ns, uint64_t *ret_suppressed);

#endif
