/* SPDX-License-Identifier: Apache-2.0 */
/* search.h: binary search in a sorted array. */
#ifndef SPANPROF_BASE_SEARCH_H
#define SPANPROF_BASE_SEARCH_H

#include <stddef.h>

/*
 * The index of the first of n elements for which is_below is false, n when there is none: an expression of
 * `it`, a pointer to an element, that is true for those at the front. search_first(at, n, e, e->start <= pc)
 * is the number of entries that start at pc or before.
 */
#define search_first(at, n, it, is_below)                                                    \
	({                                                                                   \
		size_t search_low_ = 0, search_high_ = (n);                                  \
                                                                                             \
		while (search_low_ < search_high_) {                                         \
			size_t search_mid_ = search_low_ + (search_high_ - search_low_) / 2; \
			const typeof(*(at)) *it = &(at)[search_mid_];                        \
                                                                                             \
			if (is_below)                                                        \
				search_low_ = search_mid_ + 1;                               \
			else                                                                 \
				search_high_ = search_mid_;                                  \
		}                                                                            \
		search_low_;                                                                 \
	})

#endif
