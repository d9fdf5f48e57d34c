/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strpool.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/vec.h"

enum { BLOCK_BYTES = 32 * 1024 };

struct block {
	struct block *next;
	size_t used;
	size_t cap;
	char data[];
};

struct strpool {
	struct block *blocks; /* owned, newest first */
	VEC(const char *) strings;
	struct hash index; /* hash of the text -> id; collisions probe hash + 1, + 2 ... */
	size_t bytes;
	size_t max_bytes;
	uint64_t seed;
};

int strpool_new(struct strpool **ret, size_t max_bytes)
{
	struct strpool *p = calloc(1, sizeof(*p));
	uint32_t id;
	int r;

	if (!p)
		return -ENOMEM;
	p->max_bytes = max_bytes;
	hash_init(&p->index);
	p->seed = p->index.seed;
	r = strpool_add_n(p, "", 0, &id);
	if (r) {
		strpool_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

struct strpool *strpool_free(struct strpool *p)
{
	struct block *b;

	if (!p)
		return NULL;
	while ((b = p->blocks)) {
		p->blocks = b->next;
		free(b);
	}
	vec_free(&p->strings);
	hash_deinit(&p->index);
	free(p);
	return NULL;
}

static char *place(struct strpool *p, size_t n)
{
	struct block *b = p->blocks;
	size_t cap = n > BLOCK_BYTES ? n : BLOCK_BYTES;

	if (!b || b->cap - b->used < n) {
		b = malloc(sizeof(*b) + cap);
		if (!b)
			return NULL;
		b->used = 0;
		b->cap = cap;
		b->next = p->blocks;
		p->blocks = b;
	}
	b->used += n;
	return b->data + b->used - n;
}

int strpool_add_n(struct strpool *p, const char *s, size_t n, uint32_t *ret_id)
{
	uint64_t h, *found;
	char *copy;
	int r;

	n = strnlen(s, n);
	h = hash_bytes(s, n, p->seed);
	while ((found = hash_get(&p->index, h))) {
		const char *have = p->strings.at[*found];

		if (!strncmp(have, s, n) && !have[n]) {
			*ret_id = *found;
			return 0;
		}
		h++;
	}
	if (p->strings.n >= UINT32_MAX || n >= p->max_bytes || p->bytes > p->max_bytes - n - 1)
		return -ENOSPC;
	copy = place(p, n + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, s, n);
	copy[n] = 0;
	p->bytes += n + 1;
	r = vec_push(&p->strings, copy);
	if (r)
		return r;
	r = hash_set(&p->index, h, p->strings.n - 1);
	if (r) {
		p->strings.n--;
		return r;
	}
	*ret_id = p->strings.n - 1;
	return 0;
}

int strpool_add(struct strpool *p, const char *s, uint32_t *ret_id)
{
	return strpool_add_n(p, s, strlen(s), ret_id);
}

const char *strpool_get(const struct strpool *p, uint32_t id)
{
	return id < p->strings.n ? p->strings.at[id] : "";
}

uint32_t strpool_count(const struct strpool *p)
{
	return p->strings.n;
}

size_t strpool_bytes(const struct strpool *p)
{
	return sizeof(*p) + p->bytes + p->strings.cap * sizeof(*p->strings.at) +
	       p->index.cap * sizeof(*p->index.slots);
}
