/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash.h: a map from 64-bit keys to 64-bit values, and the mixing functions it uses.
 *
 * Open addressing with linear probing, deletion without tombstones. Keys that come from a target
 * are mixed with a per-map seed, so that a target cannot choose collisions.
 */
#ifndef SPANPROF_BASE_HASH_H
#define SPANPROF_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash_slot {
	uint64_t key;
	uint64_t value;
	uint8_t used;
};

struct hash {
	struct hash_slot *slots; /* owned, cap of them, cap is a power of two or 0 */
	size_t cap;
	size_t n;
	uint64_t seed;
};

void hash_init(struct hash *h);
void hash_deinit(struct hash *h);

/* The address of the value of `key`, or NULL. Valid until the next set or remove. */
uint64_t *hash_get(const struct hash *h, uint64_t key);

/* Adds or replaces; 0 or -ENOMEM. */
int hash_set(struct hash *h, uint64_t key, uint64_t value);

/* True when the key was there. */
bool hash_remove(struct hash *h, uint64_t key);

/* Iteration: starts with *pos = 0; false at the end. The map must not change meanwhile. */
bool hash_next(const struct hash *h, size_t *pos, uint64_t *ret_key, uint64_t *ret_value);

uint64_t hash_mix(uint64_t x);
uint64_t hash_bytes(const void *data, size_t n, uint64_t seed);

#endif
