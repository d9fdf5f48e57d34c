/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limits.h: which endpoints, as bits, the processes of an instance are probed for.
 */
#ifndef SPANPROF_PIPE_LIMITS_H
#define SPANPROF_PIPE_LIMITS_H

#include <stdint.h>

#include "base/vec.h"

struct limit {
	uint32_t instance_id;
	uint64_t endpoints;
};

/* All zero: empty. */
struct limits {
	VEC(struct limit) all;
};

void limits_deinit(struct limits *l);
/* 0, -ENOMEM. */
int limits_set(struct limits *l, uint32_t instance_id, uint64_t endpoints);
void limits_remove(struct limits *l, uint32_t instance_id);
/* All bits for an instance that has no limit. */
uint64_t limits_get(const struct limits *l, uint32_t instance_id);

#endif
