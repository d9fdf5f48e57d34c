/* SPDX-License-Identifier: Apache-2.0 */
#include "base/vec.h"

#include <stdint.h>

int vec_reserve_bytes(void **at, size_t *cap, size_t want, size_t elem_bytes)
{
	size_t new_cap = *cap ? *cap : 8;
	void *p;

	if (want <= *cap)
		return 0;
	while (new_cap < want) {
		if (new_cap > SIZE_MAX / 2)
			return -ENOMEM;
		new_cap *= 2;
	}
	if (new_cap > SIZE_MAX / elem_bytes)
		return -ENOMEM;
	p = realloc(*at, new_cap * elem_bytes);
	if (!p)
		return -ENOMEM;
	*at = p;
	*cap = new_cap;
	return 0;
}
