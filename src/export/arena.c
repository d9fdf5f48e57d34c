/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c: a bump allocator over blocks of 64 KiB; larger requests get a block of their own. */
#include "export/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

enum { BLOCK_BYTES = 64 * 1024 };

struct arena_block {
	struct arena_block *next;
	size_t used;
	size_t cap;
	alignas(max_align_t) char data[];
};

void *arena_alloc(struct arena *a, size_t n, size_t bytes)
{
	const size_t align = alignof(max_align_t);
	struct arena_block *b = a->blocks;
	size_t want, cap;

	if (n > (SIZE_MAX / 2) / bytes)
		return NULL;
	want = (n * bytes + align - 1) / align * align;
	if (!b || b->cap - b->used < want) {
		cap = want > BLOCK_BYTES ? want : BLOCK_BYTES;
		b = calloc(1, sizeof(*b) + cap);
		if (!b)
			return NULL;
		b->cap = cap;
		b->next = a->blocks;
		a->blocks = b;
	}
	b->used += want;
	return b->data + b->used - want;
}

void *arena_rows(struct arena *a, size_t n, size_t bytes)
{
	char *rows = arena_alloc(a, n, bytes);
	void **list = arena_alloc(a, n, sizeof(*list));

	if (!rows || !list)
		return NULL;
	for (size_t i = 0; i < n; i++)
		list[i] = rows + i * bytes;
	return list;
}

void arena_deinit(struct arena *a)
{
	struct arena_block *b;

	while ((b = a->blocks)) {
		a->blocks = b->next;
		free(b);
	}
}
