/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_symtab.c: an ELF file: its symbols by name and address, its linkage stubs. */
#include <assert.h>
#include <stdlib.h>

#include "code/plt.h"
#include "code/symtab.h"
#include "elf_input.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct module *m = elf_input(data, n);
	char text[SYMTAB_NAME_MAX], names[SYMTAB_NEAREST_MAX][SYMTAB_NAME_MAX];
	struct symtab_list list = {0};
	struct symtab_symbol sym;
	struct symtab *st = NULL;
	uint64_t start, size;

	if (m && symtab_new(&st, m, NULL) == 0) {
		for (uint64_t a = 0x1000; a < 0x1400; a += 5) {
			if (symtab_find_addr(st, a, &sym))
				symtab_display(sym.name, text, sizeof(text));
			if (symtab_bounds(st, a, &start, &size))
				assert(a >= start);
			plt_find(st, m, a, text, sizeof(text));
		}
		symtab_find_name(st, "outer", &list);
		symtab_nearest(st, "otuer", names, SYMTAB_NEAREST_MAX);
	}
	vec_free(&list);
	symtab_free(st);
	module_unref(m);
	return 0;
}
