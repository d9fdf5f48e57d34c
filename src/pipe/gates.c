/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/gates.h"

#include <stddef.h>

static struct gate_entry *find(const struct gates *g, const struct wire_gate_key *key)
{
	for (size_t i = 0; i < g->all.n; i++)
		if (g->all.at[i].key.ep_id == key->ep_id &&
		    g->all.at[i].key.instance_id == key->instance_id)
			return &g->all.at[i];
	return NULL;
}

void gates_deinit(struct gates *g)
{
	vec_free(&g->all);
}

int gates_set(struct gates *g, const struct wire_gate_key *key, const struct gate_terms *terms)
{
	struct gate_entry *e = find(g, key);

	if (!e)
		return vec_push(&g->all, (struct gate_entry){.key = *key, .terms = *terms});
	e->terms = *terms;
	return 0;
}

void gates_remove(struct gates *g, const struct wire_gate_key *key)
{
	struct gate_entry *e = find(g, key);

	if (e)
		*e = g->all.at[--g->all.n];
}

const struct gate_terms *gates_get(const struct gates *g, const struct wire_gate_key *key)
{
	const struct gate_entry *e = find(g, key);

	return e ? &e->terms : NULL;
}
