/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/limits.h"

#include <stddef.h>

static struct limit *find(const struct limits *l, uint32_t instance_id)
{
	for (size_t i = 0; i < l->all.n; i++)
		if (l->all.at[i].instance_id == instance_id)
			return &l->all.at[i];
	return NULL;
}

void limits_deinit(struct limits *l)
{
	vec_free(&l->all);
}

int limits_set(struct limits *l, uint32_t instance_id, uint64_t endpoints)
{
	struct limit *limit = find(l, instance_id);

	if (!limit)
		return vec_push(&l->all, (struct limit){instance_id, endpoints});
	limit->endpoints = endpoints;
	return 0;
}

void limits_remove(struct limits *l, uint32_t instance_id)
{
	struct limit *limit = find(l, instance_id);

	if (limit)
		*limit = l->all.at[--l->all.n];
}

uint64_t limits_get(const struct limits *l, uint32_t instance_id)
{
	const struct limit *limit = find(l, instance_id);

	return limit ? limit->endpoints : UINT64_MAX;
}
