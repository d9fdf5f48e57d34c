/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_site.c: any bytes as the code of a function, and around a return address. */
#include <assert.h>

#include "fuzz.h"
#include "probe/insn.h"
#include "probe/site.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct site_function f = {.code = data, .code_bytes = n, .vaddr = 0x1000};
	struct site_return at = {
		.code = data, .code_bytes = n, .before = n < 16 ? n : 16, .vaddr = 0x1000};
	struct site_rules rules = {.long_nops = n & 1};
	int64_t offset;
	uint8_t size;
	struct site s;
	char text[96];

	site_unused_arguments(&f);
	if (site_choose_entry(&f, n & 2 ? 0 : 0x30 | (n & 4 ? SITE_KEEP_MEMORY : 0), &rules, &s) ==
	    SITE_OK)
		assert(s.vaddr == f.vaddr + s.off && s.off < n);
	if (site_choose_return(&at, 0, &rules, &s) == SITE_OK)
		assert(s.vaddr == at.vaddr + s.off && s.off < n);
	insn_find_getter(data, n, &offset, &size);
	format_insn(data, n, 0, text, sizeof(text));
	return 0;
}
