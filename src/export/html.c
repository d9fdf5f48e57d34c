/* SPDX-License-Identifier: Apache-2.0 */
/*
 * html.c: a page that shows the profile without anything else: flame graph and timeline of spans.
 *
 * The page is fixed (html/page.*); the profile is inside it as the JSON document, in a script
 * element that is never run. Its "<", ">" and "&" are escapes, so no text of a target can end the
 * element; the page's own policy forbids it to fetch anything.
 */
#include "export/formats.h"
#include "export/html_page.h"

int html_write(const struct profile *p, const struct export_options *o, FILE *out, struct errmsg *e)
{
	int r;

	fwrite(html_page_before, 1, html_page_before_bytes, out);
	r = json_put(p, out, true, e);
	fwrite(html_page_after, 1, html_page_after_bytes, out);
	return r;
}
