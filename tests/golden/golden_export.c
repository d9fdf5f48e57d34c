/* SPDX-License-Identifier: Apache-2.0 */
/*
 * golden_export.c: hand-built profiles written as text, folded and JSON, compared byte for byte
 * with the files in tests/golden/export.
 *
 * After a wanted change of a format, write the files anew and read their diff before committing:
 *
 *     UPDATE_GOLDEN=1 meson test -C build --suite golden golden_export && git diff tests/golden
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "tests/unit/export_text.h"
#include "tests/unit/sample_profile.h"
#include "tests/unit/unit.h"

enum { FILE_MAX_BYTES = 4 << 20, DEPTH = 40 };

struct golden {
	const char *file;
	const char *format;
	struct profile *(*make)(void);
	struct export_options options;
};

static struct profile *make_deep(void)
{
	return sample_profile_deep(DEPTH);
}

static const struct golden cases[] = {
	{"bare.txt", "text", sample_profile_bare, {}},
	{"empty.txt", "text", sample_profile_empty, {.columns = 100}},
	{"orders.txt", "text", sample_profile_orders, {}},
	{"orders-80.txt", "text", sample_profile_orders, {.columns = 80, .rows = 8}},
	{"orders-120-verbose.txt",
	 "text",
	 sample_profile_orders,
	 {.columns = 120, .n_slowest = 2, .verbose = true}},
	{"orders-color.txt", "text", sample_profile_orders, {.columns = 100, .color = true}},
	{"unfinished.txt", "text", sample_profile_unfinished, {.columns = 100}},
	{"deep.txt", "text", make_deep, {.columns = 100}},
	{"hostile-100.txt", "text", sample_profile_hostile, {.columns = 100}},
	{"orders.folded", "folded", sample_profile_orders, {}},
	{"empty.folded", "folded", sample_profile_empty, {}},
	{"orders.json", "json", sample_profile_orders, {}},
	{"unfinished.json", "json", sample_profile_unfinished, {}},
};

static void write_file(const char *path, const char *text, size_t n)
{
	AUTO_FILE FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, n, f), n);
}

/* Shows the first line that differs: a whole diff is what git is for. */
static void compare(const char *path, const char *want, const char *got)
{
	size_t line = 1, from = 0, i = 0;

	for (; want[i] && want[i] == got[i]; i++) {
		if (want[i] == '\n') {
			line++;
			from = i + 1;
		}
	}
	if (want[i] == got[i])
		return;
	fail_msg("%s:%zu differs\nwant: %.*s\ngot:  %.*s", path, line,
		 (int)strcspn(want + from, "\n"), want + from, (int)strcspn(got + from, "\n"),
		 got + from);
}

static void output_equals_the_golden_files(void **state)
{
	const char *root = getenv("SOURCE_ROOT");

	assert_non_null(root);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct golden *c = &cases[i];
		struct profile *p = c->make();
		size_t n = 0, want_n = 0;
		AUTO_FREE char *got = export_text(c->format, p, &c->options, &n);
		AUTO_FREE char *want = NULL;
		char path[4096];

		profile_free(p);
		snprintf(path, sizeof(path), "%s/tests/golden/export/%s", root, c->file);
		if (getenv("UPDATE_GOLDEN")) {
			write_file(path, got, n);
			continue;
		}
		assert_int_equal(read_file(AT_FDCWD, path, FILE_MAX_BYTES, &want, &want_n), 0);
		compare(path, want, got);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(output_equals_the_golden_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
