/* SPDX-License-Identifier: Apache-2.0 */
#include "task/watermark.h"

#include <string.h>

#include "base/hash.h"
#include "base/search.h"

enum { MARKS_MAX_DEFAULT = 4096 };

#define FUTURE_MAX_MS 86400000LL

uint64_t watermark_key(const char *source, const char *service, const char *instance)
{
	uint64_t h = hash_bytes(source, strlen(source) + 1, 0x5350414e);

	h = hash_bytes(service, strlen(service) + 1, h);
	return hash_bytes(instance, strlen(instance) + 1, h);
}

/* The first index whose key is not below `key`. */
static size_t lower_bound(const struct watermarks *w, uint64_t key)
{
	return search_first(w->marks.at, w->marks.n, m, m->key < key);
}

static void drop_oldest(struct watermarks *w)
{
	size_t oldest = 0;

	for (size_t i = 1; i < w->marks.n; i++)
		if (w->marks.at[i].used_ms < w->marks.at[oldest].used_ms)
			oldest = i;
	memmove(&w->marks.at[oldest], &w->marks.at[oldest + 1],
		(w->marks.n - oldest - 1) * sizeof(w->marks.at[0]));
	w->marks.n--;
}

int64_t watermarks_get(const struct watermarks *w, uint64_t key)
{
	size_t i = lower_bound(w, key);

	return i < w->marks.n && w->marks.at[i].key == key ? w->marks.at[i].create_ms : -1;
}

bool watermarks_move(struct watermarks *w, uint64_t key, int64_t create_ms, int64_t now_ms)
{
	size_t max = w->max ? w->max : MARKS_MAX_DEFAULT;
	size_t i = lower_bound(w, key);
	struct watermark m = {.key = key, .create_ms = create_ms, .used_ms = now_ms};

	if (create_ms < 0 || create_ms - FUTURE_MAX_MS > now_ms)
		return false;
	if (i < w->marks.n && w->marks.at[i].key == key) {
		if (create_ms <= w->marks.at[i].create_ms)
			return false;
		w->marks.at[i] = m;
		return true;
	}
	if (w->marks.n >= max) {
		drop_oldest(w);
		i = lower_bound(w, key);
	}
	if (vec_push(&w->marks, m))
		return false;
	memmove(&w->marks.at[i + 1], &w->marks.at[i], (w->marks.n - 1 - i) * sizeof(m));
	w->marks.at[i] = m;
	return true;
}

void watermarks_deinit(struct watermarks *w)
{
	vec_free(&w->marks);
}
