/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/members.h"

void members_init(struct members *m)
{
	*m = (struct members){};
	hash_init(&m->by_pid);
}

void members_deinit(struct members *m)
{
	vec_free(&m->all);
	hash_deinit(&m->by_pid);
}

struct member *members_get(const struct members *m, pid_t pid)
{
	uint64_t *at = hash_get(&m->by_pid, pid);

	return at ? &m->all.at[*at] : NULL;
}

int members_add(struct members *m, const struct member *one)
{
	int r = vec_push(&m->all, *one);

	if (r)
		return r;
	r = hash_set(&m->by_pid, one->process.pid, m->all.n - 1);
	if (r)
		m->all.n--;
	return r;
}

void members_drop(struct members *m, pid_t pid)
{
	uint64_t *at = hash_get(&m->by_pid, pid);
	size_t i;

	if (!at)
		return;
	i = *at;
	hash_remove(&m->by_pid, pid);
	m->all.n--;
	if (i < m->all.n) {
		m->all.at[i] = m->all.at[m->all.n];
		*hash_get(&m->by_pid, m->all.at[i].process.pid) = i;
	}
}
