/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_maps.c: text of /proc/PID/maps. */
#include <assert.h>
#include <string.h>

#include "fuzz.h"
#include "proc/maps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct maps_entry e;
	size_t off = 0, before = 0;
	enum maps_result r;

	while ((r = parse_maps_line((const char *)data, n, &off, &e)) != MAPS_END) {
		if (r == MAPS_E_PARTIAL)
			break;
		assert(off > before && off <= n);
		before = off;
		assert(r != MAPS_OK || (e.start < e.end && strlen(e.path) == e.path_bytes));
	}
	return 0;
}
