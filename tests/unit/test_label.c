/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <string.h>

#include "net/label.h"
#include "tests/unit/unit.h"

static void assert_label(const char *src, size_t max, const char *want)
{
	char buf[64];

	assert_int_equal(label_copy(buf, sizeof(buf), src, max), strlen(want));
	assert_string_equal(buf, want);
}

static void test_clean_text_stays(void **state)
{
	assert_label("", 9, "");
	assert_label(NULL, 9, "");
	assert_label("caf\xc3\xa9", 9, "caf\xc3\xa9");
	assert_label("\xf0\x9f\x90\x98", 9, "\xf0\x9f\x90\x98");
}

static void test_bad_bytes_become_question_marks(void **state)
{
	assert_label("a\xff"
		     "b",
		     9, "a?b");
	assert_label("a\nb\x7f", 9, "a?b?");
	assert_label("\xc0\x80", 9, "??");           /* overlong NUL */
	assert_label("\xed\xa0\x80", 9, "???");      /* surrogate */
	assert_label("\xf4\x90\x80\x80", 9, "????"); /* above U+10FFFF */
	assert_label("\xf8\x88\x80\x80\x80", 9, "?????");
	assert_label("x\xe2\x82", 9, "x??"); /* cut inside a character */
	assert_label("\xc2\x85", 9, "?");    /* C1 control */
}

static void test_cut_counts_utf16_units(void **state)
{
	assert_label("abcdef", 3, "abc");
	assert_label("\xc3\xa9\xc3\xa9\xc3\xa9", 2, "\xc3\xa9\xc3\xa9");
	assert_label("a\xf0\x9f\x90\x98", 2, "a"); /* a pair does not fit into one unit */
	assert_label("a\xf0\x9f\x90\x98", 3, "a\xf0\x9f\x90\x98");
}

static void test_cut_at_the_buffer(void **state)
{
	char buf[4];

	assert_int_equal(label_copy(buf, sizeof(buf), "ab\xc3\xa9", 99), 2);
	assert_string_equal(buf, "ab");
	assert_int_equal(label_copy(buf, 1, "ab", 99), 0);
	assert_string_equal(buf, "");
}

static void test_is_clean(void **state)
{
	assert_true(label_is_clean("caf\xc3\xa9 /x"));
	assert_true(label_is_clean(""));
	assert_false(label_is_clean("a\tb"));
	assert_false(label_is_clean("a\xc3"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clean_text_stays),
		cmocka_unit_test(test_bad_bytes_become_question_marks),
		cmocka_unit_test(test_cut_counts_utf16_units),
		cmocka_unit_test(test_cut_at_the_buffer),
		cmocka_unit_test(test_is_clean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
