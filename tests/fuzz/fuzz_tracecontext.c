/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_tracecontext.c: any text as a trace context, and as a span's name that ends in one. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "net/label.h"
#include "net/tracecontext.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *text = malloc(n + 1);
	struct tracecontext c;
	const char *context;

	if (!text)
		return 0;
	memcpy(text, data, n);
	text[n] = '\0';
	assert(tracecontext_split(text, &context) <= strlen(text));
	if (parse_tracecontext(text, &c) == TRACECONTEXT_OK) {
		assert(*c.trace_id && label_is_clean(c.trace_id));
		assert(*c.parent_id && label_is_clean(c.parent_id));
		assert(label_is_clean(c.parent_service) && c.parent_span_id >= 0);
	}
	free(text);
	return 0;
}
