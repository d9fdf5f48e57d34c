/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_usdt.c: notes of USDT probes and the text of their arguments. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "probe/usdt.h"

static void parse_all(const char *arguments)
{
	unsigned int n = usdt_n_arguments(arguments);
	struct place place;

	for (unsigned int i = 0; i <= n; i++)
		parse_usdt_argument(arguments, i, &place);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *text = calloc(1, n + 1);
	struct usdt_note note;
	size_t off = 0;

	memcpy(text, data, n);
	parse_all(text);
	while (parse_usdt_note((const uint8_t *)text, n, &off, &note))
		parse_all(note.arguments);
	free(text);
	return 0;
}
