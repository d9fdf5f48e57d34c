/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "export/export.h"
#include "tests/unit/export_text.h"
#include "tests/unit/sample_profile.h"
#include "tests/unit/unit.h"

static void formats_are_found_by_name(void **state)
{
	assert_string_equal(export_find("pprof")->name, "pprof");
	assert_string_equal(export_find("text")->name, "text");
	assert_null(export_find("svg"));
	assert_null(export_find(""));
}

static void formats_are_guessed_from_the_file_name(void **state)
{
	assert_string_equal(export_guess("out.pb.gz")->name, "pprof");
	assert_string_equal(export_guess("/tmp/a.b/x.folded")->name, "folded");
	assert_string_equal(export_guess("x.json")->name, "json");
	assert_string_equal(export_guess("x.html")->name, "html");
	assert_string_equal(export_guess("x.txt")->name, "text");
	assert_null(export_guess("x"));
	assert_null(export_guess("x.gz"));
	assert_null(export_guess(".json"));
	assert_null(export_guess(""));
}

/* Every format takes every profile, the same bytes each time. */
static void every_format_takes_every_profile(void **state)
{
	struct profile *all[] = {sample_profile_bare(),     sample_profile_empty(),
				 sample_profile_orders(),   sample_profile_unfinished(),
				 sample_profile_deep(1024), sample_profile_hostile()};
	const struct export_options o = {.columns = 80, .rows = 40};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		for (const struct export_format *f = export_formats(); f->name; f++) {
			size_t n = 0, again_n = 0;
			char *text = export_text(f->name, all[i], &o, &n);
			char *again = export_text(f->name, all[i], &o, &again_n);

			assert_true(n > 0);
			assert_int_equal(n, again_n);
			assert_memory_equal(text, again, n);
			free(text);
			free(again);
		}
		profile_free(all[i]);
	}
}

/* No control character of a target gets into a text format, and all text is whole UTF-8. */
static void hostile_names_come_out_escaped(void **state)
{
	static const char *const text_formats[] = {"text", "folded", "json", "html"};
	struct profile *p = sample_profile_hostile();
	const struct export_options o = {.columns = 120};

	for (size_t i = 0; i < sizeof(text_formats) / sizeof(text_formats[0]); i++) {
		size_t n = 0;
		char *text = export_text(text_formats[i], p, &o, &n);

		assert_int_equal(strlen(text), n);
		for (size_t k = 0; k < n; k++)
			assert_true((unsigned char)text[k] >= 0x20 || text[k] == '\n' ||
				    (text[k] == '\t' && !strcmp(text_formats[i], "html")));
		assert_null(strchr(text, 0x7f));
		assert_null(strstr(text, "\xc2\x9b"));
		assert_null(strstr(text, "\xff"));
		assert_null(strstr(text, "\xe2\x80\xae"));
		assert_null(strstr(text, "\xe2\x80\xa8"));
		free(text);
	}
	profile_free(p);
}

/* Completeness and losses are in every format that can be read as text. */
static void completeness_is_in_every_format(void **state)
{
	struct profile *p = sample_profile_orders();
	const struct export_options o = {};
	static const char *const text_formats[] = {"text", "folded", "json", "html"};

	for (size_t i = 0; i < sizeof(text_formats) / sizeof(text_formats[0]); i++) {
		size_t n = 0;
		char *text = export_text(text_formats[i], p, &o, &n);

		assert_non_null(strstr(text, "complete"));
		assert_non_null(strstr(text, "ring_full_snapshot"));
		free(text);
	}
	profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(formats_are_found_by_name),
		cmocka_unit_test(formats_are_guessed_from_the_file_name),
		cmocka_unit_test(every_format_takes_every_profile),
		cmocka_unit_test(hostile_names_come_out_escaped),
		cmocka_unit_test(completeness_is_in_every_format),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
