/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

uint64_t hash_mix(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ULL;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ULL;
	x ^= x >> 32;
	return x;
}

uint64_t hash_bytes(const void *data, size_t n, uint64_t seed)
{
	const unsigned char *p = data;
	uint64_t h = hash_mix(seed ^ (n * 0x9e3779b97f4a7c15ULL));
	uint64_t w;

	for (; n >= 8; n -= 8, p += 8) {
		memcpy(&w, p, 8);
		h = hash_mix(h ^ w);
	}
	w = 0;
	if (n)
		memcpy(&w, p, n);
	return hash_mix(h ^ w);
}

void hash_init(struct hash *h)
{
	*h = (struct hash){};
	if (getrandom(&h->seed, sizeof(h->seed), GRND_NONBLOCK) != sizeof(h->seed))
		h->seed = (uint64_t)(uintptr_t)h;
}

void hash_deinit(struct hash *h)
{
	free(h->slots);
	h->slots = NULL;
	h->cap = h->n = 0;
}

static size_t home(const struct hash *h, uint64_t key)
{
	return hash_mix(key ^ h->seed) & (h->cap - 1);
}

static size_t find(const struct hash *h, uint64_t key)
{
	size_t i = home(h, key);

	while (h->slots[i].used && h->slots[i].key != key)
		i = (i + 1) & (h->cap - 1);
	return i;
}

uint64_t *hash_get(const struct hash *h, uint64_t key)
{
	size_t i;

	if (!h->cap)
		return NULL;
	i = find(h, key);
	return h->slots[i].used ? &h->slots[i].value : NULL;
}

static int grow(struct hash *h)
{
	struct hash old = *h;
	size_t cap = old.cap ? old.cap * 2 : 16;

	if (cap > SIZE_MAX / sizeof(*h->slots))
		return -ENOMEM;
	h->slots = calloc(cap, sizeof(*h->slots));
	if (!h->slots) {
		*h = old;
		return -ENOMEM;
	}
	h->cap = cap;
	for (size_t i = 0; i < old.cap; i++)
		if (old.slots[i].used)
			h->slots[find(h, old.slots[i].key)] = old.slots[i];
	free(old.slots);
	return 0;
}

int hash_set(struct hash *h, uint64_t key, uint64_t value)
{
	size_t i;
	int r;

	if ((h->n + 1) * 4 > h->cap * 3) {
		r = grow(h);
		if (r)
			return r;
	}
	i = find(h, key);
	if (!h->slots[i].used)
		h->n++;
	h->slots[i] = (struct hash_slot){.key = key, .value = value, .used = 1};
	return 0;
}

bool hash_remove(struct hash *h, uint64_t key)
{
	size_t i, j;

	if (!h->cap)
		return false;
	i = find(h, key);
	if (!h->slots[i].used)
		return false;
	/* Close the gap: pull back each later entry of the run that may live at or before it. */
	for (j = (i + 1) & (h->cap - 1); h->slots[j].used; j = (j + 1) & (h->cap - 1)) {
		size_t want = home(h, h->slots[j].key);

		if (((j - want) & (h->cap - 1)) >= ((j - i) & (h->cap - 1))) {
			h->slots[i] = h->slots[j];
			i = j;
		}
	}
	h->slots[i].used = 0;
	h->n--;
	return true;
}

bool hash_next(const struct hash *h, size_t *pos, uint64_t *ret_key, uint64_t *ret_value)
{
	for (; *pos < h->cap; (*pos)++) {
		if (!h->slots[*pos].used)
			continue;
		*ret_key = h->slots[*pos].key;
		*ret_value = h->slots[*pos].value;
		(*pos)++;
		return true;
	}
	return false;
}
