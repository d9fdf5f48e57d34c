/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_perfmap.c: text of a JIT's map, in two pieces. */
#include <assert.h>

#include "code/perfmap.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const char *text = (const char *)data;
	struct perfmap *m = NULL;
	uint64_t start = 0;
	size_t used = 0, more = 0;

	if (perfmap_new(&m, 4096))
		return 0;
	if (perfmap_add_text(m, text, n / 2, &used) == 0)
		perfmap_add_text(m, text + used, n - used, &more);
	assert(used + more <= n);
	for (uint64_t pc = 0; pc < 0x4000; pc += 0x1f)
		assert(!perfmap_find(m, pc, &start) || start <= pc);
	perfmap_find(m, UINT64_MAX, &start);
	perfmap_free(m);
	return 0;
}
