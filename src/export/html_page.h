/* SPDX-License-Identifier: Apache-2.0 */
/* html_page.h: the page of the HTML export, made by html/embed.py from the files beside it. */
#ifndef SPANPROF_EXPORT_HTML_PAGE_H
#define SPANPROF_EXPORT_HTML_PAGE_H

#include <stddef.h>

/* Not NUL-terminated; the JSON document stands between the two. */
extern const unsigned char html_page_before[];
extern const size_t html_page_before_bytes;
extern const unsigned char html_page_after[];
extern const size_t html_page_after_bytes;

#endif
