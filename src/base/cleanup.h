/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cleanup.h: owning locals that free themselves when they go out of scope.
 *
 * An owning local carries one of the attributes below and an initial value. Ownership moves are
 * spelled TAKE_PTR / TAKE_FD, which leave the neutral value behind.
 */
#ifndef SPANPROF_BASE_CLEANUP_H
#define SPANPROF_BASE_CLEANUP_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CLEANUP(fn) __attribute__((cleanup(fn)))

/* Defines static inline void <fn>p(T *p) { fn(*p); } for use as CLEANUP(<fn>p). */
#define DEFINE_CLEANUP(type, fn)          \
	static inline void fn##p(type *p) \
	{                                 \
		if (*p)                   \
			fn(*p);           \
	}

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup_file(FILE **f)
{
	if (*f)
		fclose(*f);
}

#define AUTO_FREE  CLEANUP(cleanup_free)
#define AUTO_CLOSE CLEANUP(cleanup_fd)
#define AUTO_FILE  CLEANUP(cleanup_file)

#define TAKE_PTR(p)                            \
	({                                     \
		__typeof__(p) take_ptr_ = (p); \
		(p) = NULL;                    \
		take_ptr_;                     \
	})

#define TAKE_FD(fd)                  \
	({                           \
		int take_fd_ = (fd); \
		(fd) = -1;           \
		take_fd_;            \
	})

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#endif
