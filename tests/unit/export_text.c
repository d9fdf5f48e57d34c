/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/export_text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tests/unit/unit.h"

char *export_text(const char *format, const struct profile *p, const struct export_options *o,
		  size_t *ret_bytes)
{
	const struct export_format *f = export_find(format);
	char *text = NULL;
	struct errmsg e = {};
	FILE *out = open_memstream(&text, ret_bytes);
	int r;

	assert(f && out);
	r = f->write(p, o, out, &e);
	assert(r == 0);
	fclose(out);
	return text;
}

/* As messages decide it, by other code than the exporters'. */
void assert_harmless(const char *text)
{
	char *copy = strdup(text);

	assert_non_null(copy);
	assert_string_equal(text_printable(copy), text);
	free(copy);
}
