/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text.h"
#include "tests/unit/unit.h"

static void check(const char *in, const char *want)
{
	char buf[64];

	strcpy(buf, in);
	assert_string_equal(text_printable(buf), want);
}

static void test_printable(void **state)
{
	check("", "");
	check("plain text 123", "plain text 123");
	check("a\tb\nc\033[2Jd\x7f", "a?b?c?[2Jd?");
	check("gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f");
	check("\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80");
}

static void test_not_utf8(void **state)
{
	check("\xff", "?");
	check("\xc3", "?");
	check("\xc0\xaf", "??");
	check("\xe2\x82", "??");
	check("\xed\xa0\x80", "???");
	check("\xf4\x90\x80\x80", "????");
	check("a\x80z", "a?z");
}

static void test_controls_in_utf8(void **state)
{
	check("\xc2\x9b"
	      "2J",
	      "?2J");
	check("\xe2\x80\xae"
	      "abc",
	      "?abc");
	check("\xe2\x80\xa8", "?");
	check("\xef\xbb\xbf", "?");
}

static void test_copy(void **state)
{
	char buf[8];

	assert_string_equal(text_show(buf, sizeof(buf), "1234567"), "1234567");
	assert_string_equal(text_show(buf, sizeof(buf), "12345678"), "1234...");
	assert_string_equal(text_copy_printable(buf, sizeof(buf), "1234567890", 3), "123");
	assert_string_equal(text_copy_printable(buf, sizeof(buf),
						"123\xc3\xbc"
						"5678",
						SIZE_MAX),
			    "123...");
	assert_string_equal(text_copy_printable(buf, 4, "12345", SIZE_MAX), "...");
}

static void test_base_name(void **state)
{
	assert_string_equal(text_base_name("/usr/lib/libc.so.6"), "libc.so.6");
	assert_string_equal(text_base_name("./a"), "a");
	assert_string_equal(text_base_name("[vdso]"), "[vdso]");
	assert_string_equal(text_base_name("/srv/"), "/srv/");
	assert_string_equal(text_base_name(""), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_printable),        cmocka_unit_test(test_not_utf8),
		cmocka_unit_test(test_controls_in_utf8), cmocka_unit_test(test_copy),
		cmocka_unit_test(test_base_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
