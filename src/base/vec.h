/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vec.h: growable arrays of plain values.
 *
 * VEC(T) declares { T *at; size_t n; size_t cap; }; an all-zero vector is empty. Elements are moved
 * by memcpy. Pointers into `at` are invalid after a push.
 */
#ifndef SPANPROF_BASE_VEC_H
#define SPANPROF_BASE_VEC_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define VEC(T)              \
	struct {            \
		T *at;      \
		size_t n;   \
		size_t cap; \
	}

/* Makes room for `want` elements in all; 0 or -ENOMEM, the vector is unchanged on error. */
int vec_reserve_bytes(void **at, size_t *cap, size_t want, size_t elem_bytes);

#define vec_reserve(v, want) \
	vec_reserve_bytes((void **)&(v)->at, &(v)->cap, (want), sizeof(*(v)->at))

/* Appends a value; evaluates to 0 or -ENOMEM. */
#define vec_push(v, ...)                                   \
	({                                                 \
		int vec_r_ = vec_reserve((v), (v)->n + 1); \
		if (!vec_r_)                               \
			(v)->at[(v)->n++] = (__VA_ARGS__); \
		vec_r_;                                    \
	})

#define vec_free(v)                    \
	do {                           \
		free((v)->at);         \
		(v)->at = NULL;        \
		(v)->n = (v)->cap = 0; \
	} while (0)

#endif
