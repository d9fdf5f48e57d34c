/* SPDX-License-Identifier: Apache-2.0 */
/* export.c: the table of formats, by name and by file name. */
#include "export/export.h"

#include <string.h>

#include "export/formats.h"

static const struct export_format formats[] = {
	{"text", ".txt", "tree and figures for reading", text_write},
	{"pprof", ".pb.gz .pprof .pb", "gzipped protobuf for go tool pprof and its kin",
	 pprof_write},
	{"folded", ".folded .collapsed", "one line a stack, for flame graph tools", folded_write},
	{"json", ".json", "everything, with the schema of docs/json.md", json_write},
	{"html", ".html .htm", "flame graph and timeline in one page", html_write},
	{"otlp", ".otlp", "OpenTelemetry profiles, v1development protobuf", otlp_write},
	{},
};

const struct export_format *export_formats(void)
{
	return formats;
}

const struct export_format *export_find(const char *name)
{
	for (const struct export_format *f = formats; f->name; f++)
		if (!strcmp(f->name, name))
			return f;
	return NULL;
}

static bool ends_with(const char *path, size_t n, const char *suffix, size_t suffix_n)
{
	return n > suffix_n && !memcmp(path + n - suffix_n, suffix, suffix_n);
}

const struct export_format *export_guess(const char *path)
{
	size_t n = strlen(path);

	for (const struct export_format *f = formats; f->name; f++) {
		for (const char *s = f->suffixes; *s; s += strspn(s, " ")) {
			size_t suffix_n = strcspn(s, " ");

			if (ends_with(path, n, s, suffix_n))
				return f;
			s += suffix_n;
		}
	}
	return NULL;
}
