/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_demangle.c: one name from a symbol table. */
#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "code/demangle.h"
#include "fuzz.h"

/* libiberty loses a few bytes on malformed punycode in Rust names; that is known, not looked for. */
static bool may_leak(const char *name)
{
	if (strncmp(name, "_R", 2) != 0)
		return false;
	while ((name = strchr(name, 'u')))
		if (*++name >= '0' && *name <= '9')
			return true;
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *name = strndup((const char *)data, n);
	char text[DEMANGLE_TEXT_MAX];

	if (!name || may_leak(name)) {
		free(name);
		return 0;
	}
	for (size_t room = 4; room <= sizeof(text); room += sizeof(text) - 4) {
		demangle_name(name, room > 4, text, room);
		assert(strlen(text) < room);
		for (const char *p = text; *p; p++)
			assert((unsigned char)*p >= 0x20 && *p != 0x7f);
	}
	free(name);
	return 0;
}
