/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_kallsyms.c: text of /proc/kallsyms. */
#include <assert.h>

#include "code/kallsyms.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct kallsyms *k = NULL;
	uint64_t off;

	if (parse_kallsyms((const char *)data, n, &k))
		return 0;
	assert(kallsyms_count(k) > 0);
	for (uint64_t pc = 0xffffffff81000000; pc < 0xffffffff81000400; pc += 0x11)
		kallsyms_find(k, pc, &off);
	kallsyms_find(k, UINT64_MAX, &off);
	kallsyms_free(k);
	return 0;
}
