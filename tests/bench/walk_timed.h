/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk_timed.h: what walk_timed.bpf.c tells of one walk.
 */
#ifndef SPANPROF_BENCH_WALK_TIMED_H
#define SPANPROF_BENCH_WALK_TIMED_H

#include <linux/types.h>

#define WALK_FRAMES 127

struct walk_timed {
	__u64 ns;
	__s64 bytes; /* of frames; negative: an error */
	__u64 frames[WALK_FRAMES];
};

#endif
