/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strpool.h: strings stored once and named by 32-bit ids. Id 0 is the empty string. Strings live
 * as long as the pool. A pool has a byte limit; beyond it strpool_add returns -ENOSPC.
 */
#ifndef SPANPROF_BASE_STRPOOL_H
#define SPANPROF_BASE_STRPOOL_H

#include <stddef.h>
#include <stdint.h>

struct strpool;

int strpool_new(struct strpool **ret, size_t max_bytes);
struct strpool *strpool_free(struct strpool *p);

/* Adds n bytes (cut at the first NUL); 0, -ENOMEM or -ENOSPC. */
int strpool_add_n(struct strpool *p, const char *s, size_t n, uint32_t *ret_id);
int strpool_add(struct strpool *p, const char *s, uint32_t *ret_id);

/* The NUL-terminated string; "" for an id that was never given out. */
const char *strpool_get(const struct strpool *p, uint32_t id);

uint32_t strpool_count(const struct strpool *p);

/* Roughly the heap bytes of the pool: texts and look-up table. */
size_t strpool_bytes(const struct strpool *p);

#endif
