/* SPDX-License-Identifier: Apache-2.0 */
/* formats.h: the rows of the table in export.c; private to src/export. */
#ifndef SPANPROF_EXPORT_FORMATS_H
#define SPANPROF_EXPORT_FORMATS_H

#include "export/export.h"

int text_write(const struct profile *p, const struct export_options *o, FILE *out,
	       struct errmsg *e);
int folded_write(const struct profile *p, const struct export_options *o, FILE *out,
		 struct errmsg *e);
int pprof_write(const struct profile *p, const struct export_options *o, FILE *out,
		struct errmsg *e);
int json_write(const struct profile *p, const struct export_options *o, FILE *out,
	       struct errmsg *e);
int otlp_write(const struct profile *p, const struct export_options *o, FILE *out,
	       struct errmsg *e);
int html_write(const struct profile *p, const struct export_options *o, FILE *out,
	       struct errmsg *e);

/* The JSON document; in_html: without '<', '>' and '&', to stand inside a script element. */
int json_put(const struct profile *p, FILE *out, bool in_html, struct errmsg *e);

#endif
