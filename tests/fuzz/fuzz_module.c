/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_module.c: an ELF file: its layout, and unwind rules all over its first 64 KiB. */
#include "code/module.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct cfi_buf b;
	struct module *m;
	uint64_t v;

	if (module_open_image(&m, data, n, "fuzz", NULL))
		return 0;
	for (uint64_t at = 0; at < 0x10000; at += 0x3fd) {
		module_find_cfi(m, at, &b);
		module_vaddr_of_mapping(m, at, &v);
		module_read_code(m, at, &b, 64);
	}
	module_unref(m);
	return 0;
}
