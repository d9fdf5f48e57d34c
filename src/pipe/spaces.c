/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/spaces.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/vec.h"

struct entry {
	uint32_t tgid;
	uint32_t as_id;
	struct space *space; /* owned */
	bool gone;           /* the process is; kept for relatives */
	bool seen;           /* `generation` is what spaces_changed has told */
	uint32_t generation;
};

struct spaces {
	struct space_cache *cache;
	VEC(struct entry) entries;
	struct hash index; /* tgid << 32 | as_id -> index into entries */
	bool live;
};

static uint64_t key_of(uint32_t tgid, uint32_t as_id)
{
	return (uint64_t)tgid << 32 | as_id;
}

int spaces_new(struct spaces **ret, bool live)
{
	struct spaces *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->live = live;
	hash_init(&s->index);
	r = space_cache_new(&s->cache);
	if (r) {
		spaces_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

struct spaces *spaces_free(struct spaces *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < s->entries.n; i++)
		space_free(s->entries.at[i].space);
	vec_free(&s->entries);
	hash_deinit(&s->index);
	if (s->cache)
		space_cache_free(s->cache);
	free(s);
	return NULL;
}

struct space_cache *spaces_cache(struct spaces *s)
{
	return s->cache;
}

int spaces_set(struct spaces *s, uint32_t tgid, uint32_t as_id, struct space *take_space)
{
	uint64_t *at = hash_get(&s->index, key_of(tgid, as_id));
	int r;

	if (at) {
		space_free(s->entries.at[*at].space);
		s->entries.at[*at].space = take_space;
		s->entries.at[*at].gone = false;
		s->entries.at[*at].seen = false;
		return 0;
	}
	r = vec_push(&s->entries,
		     (struct entry){.tgid = tgid, .as_id = as_id, .space = take_space});
	if (r)
		return r;
	r = hash_set(&s->index, key_of(tgid, as_id), s->entries.n - 1);
	if (r)
		s->entries.n--;
	return r;
}

static struct space *relative(const struct spaces *s, uint32_t as_id)
{
	for (size_t i = 0; i < s->entries.n; i++)
		if (s->entries.at[i].as_id == as_id)
			return s->entries.at[i].space;
	return NULL;
}

struct space *spaces_get(struct spaces *s, uint32_t tgid, uint32_t as_id)
{
	uint64_t *at = hash_get(&s->index, key_of(tgid, as_id));
	struct space *space = NULL;

	if (at)
		return s->entries.at[*at].space;
	if (!s->live)
		return relative(s, as_id);
	if (space_new(&space, s->cache, tgid))
		return relative(s, as_id);
	if (space_refresh(space) || spaces_set(s, tgid, as_id, space)) {
		space_free(space);
		return relative(s, as_id);
	}
	return space;
}

bool spaces_changed(struct spaces *s, uint32_t tgid, uint32_t as_id)
{
	uint64_t *at = hash_get(&s->index, key_of(tgid, as_id));
	struct entry *e = at ? &s->entries.at[*at] : NULL;

	if (!e || (e->seen && e->generation == space_generation(e->space)))
		return false;
	e->seen = true;
	e->generation = space_generation(e->space);
	return true;
}

static bool has_relatives(const struct spaces *s, size_t i)
{
	for (size_t j = 0; j < s->entries.n; j++)
		if (j != i && s->entries.at[j].as_id == s->entries.at[i].as_id)
			return true;
	return false;
}

static void remove_at(struct spaces *s, size_t i)
{
	struct entry *e = &s->entries.at[i];
	const struct entry *last = &s->entries.at[s->entries.n - 1];

	space_free(e->space);
	hash_remove(&s->index, key_of(e->tgid, e->as_id));
	if (e != last) {
		*e = *last;
		*hash_get(&s->index, key_of(e->tgid, e->as_id)) = i;
	}
	s->entries.n--;
}

void spaces_drop(struct spaces *s, uint32_t tgid)
{
	for (size_t i = s->entries.n; i-- > 0;) {
		struct entry *e = &s->entries.at[i];

		if (e->tgid != tgid)
			continue;
		if (has_relatives(s, i) || !s->live)
			remove_at(s, i);
		else
			e->gone = true;
	}
	/* The last of a family stays for children not seen yet, until the next one goes. */
	for (size_t i = s->entries.n; i-- > 0;)
		if (s->entries.at[i].gone && s->entries.at[i].tgid != tgid && !has_relatives(s, i))
			remove_at(s, i);
}
