/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_srcline.c: an ELF file with DWARF: lines and inlined frames. */
#include <assert.h>

#include "code/srcline.h"
#include "elf_input.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct srcline_frame frames[SRCLINE_FRAMES_MAX];
	struct module *m = elf_input(data, n);
	struct srcline *s = NULL;

	if (m && srcline_new(&s, m, NULL, &(struct srcline_options){}) == 0)
		for (uint64_t a = 0x1000; a < 0x1400; a += 7)
			assert(srcline_find(s, a, frames) <= SRCLINE_FRAMES_MAX);
	srcline_free(s);
	module_unref(m);
	return 0;
}
