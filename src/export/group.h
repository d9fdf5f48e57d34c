/* SPDX-License-Identifier: Apache-2.0 */
/* group.h: samples of one span that differ in time only, put together. Pure. */
#ifndef SPANPROF_EXPORT_GROUP_H
#define SPANPROF_EXPORT_GROUP_H

#include "model/profile.h"

struct group {
	uint32_t span;
	uint32_t stack;
	uint8_t kind;
	uint8_t cause;
	uint64_t wall_ns;
	uint64_t count;
	uint32_t
		first; /* its samples: members[first] to members[first + n - 1], in order of time */
	uint32_t n;
};

struct groups {
	VEC(struct group) at; /* in the order in which the samples bring them */
	uint32_t *members;    /* owned; indexes of samples */
};

/* ret is all-zero before. 0 or -ENOMEM. */
int groups_init(struct groups *ret, const struct profile *p);
void groups_deinit(struct groups *g);

#endif
