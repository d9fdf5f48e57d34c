/* SPDX-License-Identifier: Apache-2.0 */
/* group.c: two passes over the samples: find and count the groups, then sort the members in. */
#include "export/group.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/hash.h"

void groups_deinit(struct groups *g)
{
	vec_free(&g->at);
	free(g->members);
}

static bool belongs(const struct group *g, const struct profile_sample *s)
{
	return g->span == s->span && g->stack == s->stack && g->kind == s->kind &&
	       g->cause == s->cause;
}

/* The group of the sample, made when it is new. */
static int find_group(struct groups *g, struct hash *index, const struct profile_sample *s,
		      uint32_t *ret)
{
	const uint32_t key[] = {s->span, s->stack, s->kind, s->cause};
	uint64_t h = hash_bytes(key, sizeof(key), index->seed), *found;
	int r;

	for (; (found = hash_get(index, h)); h++) {
		if (*found < g->at.n && belongs(&g->at.at[*found], s)) {
			*ret = *found;
			return 0;
		}
	}
	r = vec_push(&g->at, (struct group){s->span, s->stack, s->kind, s->cause});
	if (!r)
		r = hash_set(index, h, g->at.n - 1);
	if (!r)
		*ret = g->at.n - 1;
	return r;
}

int groups_init(struct groups *ret, const struct profile *p)
{
	AUTO_FREE uint32_t *group_of = calloc(p->samples.n, sizeof(*group_of));
	CLEANUP(groups_deinit) struct groups g = {};
	CLEANUP(hash_deinit) struct hash index;
	uint32_t first = 0;
	int r = 0;

	hash_init(&index);
	g.members = calloc(p->samples.n, sizeof(*g.members));
	if (!group_of || !g.members)
		return -ENOMEM;
	for (uint32_t i = 1; i < p->samples.n && !r; i++) {
		r = find_group(&g, &index, &p->samples.at[i], &group_of[i]);
		if (!r)
			g.at.at[group_of[i]].n++;
	}
	if (r)
		return r;
	for (size_t i = 0; i < g.at.n; i++) {
		g.at.at[i].first = first;
		first += g.at.at[i].n;
		g.at.at[i].n = 0;
	}
	for (uint32_t i = 1; i < p->samples.n; i++) {
		struct group *one = &g.at.at[group_of[i]];

		g.members[one->first + one->n++] = i;
		one->wall_ns += p->samples.at[i].wall_ns;
		one->count += p->samples.at[i].count;
	}
	*ret = g;
	g = (struct groups){};
	return 0;
}
