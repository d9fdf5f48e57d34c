/* SPDX-License-Identifier: Apache-2.0 */
#include "code/module_cache.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/vec.h"

struct cached {
	uint64_t dev;
	uint64_t ino;
	uint64_t used;         /* value of the clock at the last use */
	struct module *module; /* a reference */
};

struct module_cache {
	VEC(struct cached) entries;
	struct hash index; /* hash of (dev, ino) -> entry; collisions go on at hash + 1 */
	size_t max_modules;
	uint64_t clock; /* counts uses */
};

int module_cache_new(struct module_cache **ret, size_t max_modules)
{
	struct module_cache *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	hash_init(&c->index);
	c->max_modules = max_modules;
	*ret = c;
	return 0;
}

struct module_cache *module_cache_free(struct module_cache *c)
{
	if (!c)
		return NULL;
	for (size_t i = 0; i < c->entries.n; i++)
		module_unref(c->entries.at[i].module);
	vec_free(&c->entries);
	hash_deinit(&c->index);
	free(c);
	return NULL;
}

static uint64_t hash_of(uint64_t dev, uint64_t ino)
{
	return hash_mix(ino ^ hash_mix(dev));
}

/* The entry, or NULL and the hash where it can be put. */
static struct cached *find(struct module_cache *c, uint64_t dev, uint64_t ino, uint64_t *ret_hash)
{
	uint64_t h = hash_of(dev, ino), *found;

	for (; (found = hash_get(&c->index, h)); h++) {
		struct cached *e = &c->entries.at[*found];

		if (e->dev == dev && e->ino == ino)
			return e;
	}
	*ret_hash = h;
	return NULL;
}

static int rebuild_index(struct module_cache *c)
{
	uint64_t seed = c->index.seed;

	hash_deinit(&c->index);
	c->index.seed = seed;
	for (size_t i = 0; i < c->entries.n; i++) {
		uint64_t h = hash_of(c->entries.at[i].dev, c->entries.at[i].ino);
		int r;

		while (hash_get(&c->index, h))
			h++;
		r = hash_set(&c->index, h, i);
		if (r)
			return r;
	}
	return 0;
}

/* Without memory for a new index the modules that are not in it are opened again. */
static int drop(struct module_cache *c, size_t idx)
{
	module_unref(c->entries.at[idx].module);
	c->entries.at[idx] = c->entries.at[--c->entries.n];
	return rebuild_index(c);
}

struct module *module_cache_get(struct module_cache *c, uint64_t dev, uint64_t ino)
{
	uint64_t h;
	struct cached *e = find(c, dev, ino, &h);

	if (!e)
		return NULL;
	if (module_is_changed(e->module)) {
		drop(c, (size_t)(e - c->entries.at));
		return NULL;
	}
	e->used = ++c->clock;
	return e->module;
}

/* Closes the module that was unused for longest, of those that only the cache holds. */
static int evict_one(struct module_cache *c)
{
	size_t victim = SIZE_MAX;

	for (size_t i = 0; i < c->entries.n; i++) {
		if (module_refs(c->entries.at[i].module) > 1)
			continue;
		if (victim == SIZE_MAX || c->entries.at[i].used < c->entries.at[victim].used)
			victim = i;
	}
	if (victim == SIZE_MAX)
		return -EMFILE;
	return drop(c, victim);
}

int module_cache_put(struct module_cache *c, uint64_t dev, uint64_t ino, struct module *m)
{
	uint64_t h;
	int r = 0;

	if (c->entries.n >= c->max_modules)
		r = evict_one(c);
	if (!r)
		r = vec_reserve(&c->entries, c->entries.n + 1);
	if (r)
		return r;
	if (find(c, dev, ino, &h))
		return 0;
	r = hash_set(&c->index, h, c->entries.n);
	if (r)
		return r;
	c->entries.at[c->entries.n++] = (struct cached){
		.dev = dev, .ino = ino, .used = ++c->clock, .module = module_ref(m)};
	return 0;
}

size_t module_cache_count(const struct module_cache *c)
{
	return c->entries.n;
}
