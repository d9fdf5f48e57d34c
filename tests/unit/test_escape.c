/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "export/escape.h"
#include "tests/unit/unit.h"

static void expect(const char *in, const char *out, unsigned int width)
{
	char *got = escape_dup(in);

	assert_string_equal(got, out);
	assert_int_equal(escape_width(in, 1000), width);
	free(got);
}

static void plain_text_stays(void **state)
{
	expect("", "", 0);
	expect("GET:/orders/{id} \"x\" <a>&;\\", "GET:/orders/{id} \"x\" <a>&;\\", 27);
	expect("na\xc3\xafve", "na\xc3\xafve", 5);
}

static void controls_are_escaped(void **state)
{
	expect("\x1b[31m", "\\x1b[31m", 8);
	expect("a\r\n\tb\x7f", "a\\x0d\\x0a\\x09b\\x7f", 18);
	expect("\xc2\x9b"
	       "31m",
	       "\\u009b31m", 9);
}

static void hidden_characters_are_escaped(void **state)
{
	expect("\xe2\x80\xae", "\\u202e", 6);          /* right-to-left override */
	expect("\xe2\x80\xa8", "\\u2028", 6);          /* line separator */
	expect("\xef\xbb\xbf", "\\ufeff", 6);          /* byte order mark */
	expect("\xf3\xa0\x81\x81", "\\U000e0041", 10); /* tag */
}

static void bytes_that_are_not_utf8_are_escaped(void **state)
{
	expect("\xff\xfe", "\\xff\\xfe", 8);
	expect("\xc3", "\\xc3", 4);                             /* cut short */
	expect("\xc0\xaf", "\\xc0\\xaf", 8);                    /* not the shortest form */
	expect("\xe0\x80\xaf", "\\xe0\\x80\\xaf", 12);          /* the same */
	expect("\xed\xa0\x80", "\\xed\\xa0\\x80", 12);          /* surrogate */
	expect("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80", 16); /* beyond U+10FFFF */
	expect("\xe6\xb3", "\\xe6\\xb3", 8);
}

static void width_is_in_columns(void **state)
{
	expect("\xe6\xb3\xa8\xe6\x96\x87", "\xe6\xb3\xa8\xe6\x96\x87", 4);
	expect("\xf0\x9f\x94\xa5", "\xf0\x9f\x94\xa5", 2);
	expect("e\xcc\x81", "e\xcc\x81", 1);
}

static void expect_print(const char *in, unsigned int max, const char *out, unsigned int width)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);
	unsigned int got = escape_print(f, in, max);

	fclose(f);
	assert_string_equal(text, out);
	assert_int_equal(got, width);
	free(text);
}

static void print_cuts_on_display_width(void **state)
{
	expect_print("abcdef", 6, "abcdef", 6);
	expect_print("abcdefg", 6, "abc...", 6);
	expect_print("abcdefg", 2, "..", 2);
	expect_print("abc", 0, "", 0);
	/* A wide character that does not fit is left out whole. */
	expect_print("\xe6\xb3\xa8\xe6\x96\x87\xe6\x96\x87", 5, "\xe6\xb3\xa8...", 5);
	expect_print("\xe6\xb3\xa8\xe6\x96\x87\xe6\x96\x87", 4, "...", 3);
	/* So is an escape. */
	expect_print("ab\x1b"
		     "cdef",
		     6, "ab...", 5);
}

static void long_text_is_cut(void **state)
{
	const size_t n = 300000;
	char *in = malloc(n + 1), *out;

	memset(in, '\x01', n);
	in[n] = 0;
	out = escape_dup(in);
	assert_true(strlen(out) <= ESCAPE_MAX_BYTES);
	assert_string_equal(out + strlen(out) - 7, "\\x01...");
	free(in);
	free(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_text_stays),
		cmocka_unit_test(controls_are_escaped),
		cmocka_unit_test(hidden_characters_are_escaped),
		cmocka_unit_test(bytes_that_are_not_utf8_are_escaped),
		cmocka_unit_test(width_is_in_columns),
		cmocka_unit_test(print_cuts_on_display_width),
		cmocka_unit_test(long_text_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
