/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/glob.h"
#include "tests/unit/unit.h"

static void test_plain_and_wildcards(void **state)
{
	assert_true(glob_match("", ""));
	assert_false(glob_match("", "a"));
	assert_true(glob_match("abc", "abc"));
	assert_false(glob_match("abc", "abcd"));
	assert_false(glob_match("abcd", "abc"));
	assert_true(glob_match("*", ""));
	assert_true(glob_match("a*c", "ac"));
	assert_true(glob_match("a*c", "abbbc"));
	assert_true(glob_match("*/postgres", "/usr/lib/postgresql/15/bin/postgres"));
	assert_false(glob_match("a?c", "ac"));
	assert_true(glob_match("web-??", "web-01"));
}

static void test_sets(void **state)
{
	assert_true(glob_match("web-[0-3]", "web-2"));
	assert_false(glob_match("web-[0-3]", "web-4"));
	assert_true(glob_match("web-[!0-3]", "web-4"));
	assert_true(glob_match("[]a]x", "]x"));
	assert_true(glob_match("[ab", "[ab"));
	assert_true(glob_match("[a-]", "-"));
	assert_true(glob_match("\\*", "*"));
	assert_false(glob_match("\\*", "x"));
	assert_true(glob_match("GET:\\[x]", "GET:[x]"));
	assert_true(glob_match("\\", "\\"));
}

static void test_is_pattern(void **state)
{
	assert_false(glob_is_pattern("web-01@host"));
	assert_false(glob_is_pattern("\\*"));
	assert_false(glob_is_pattern("[ab"));
	assert_true(glob_is_pattern("web-*"));
	assert_true(glob_is_pattern("[ab]"));
}

/* A pattern that makes a backtracking matcher exponential. */
static void test_hostile_pattern(void **state)
{
	char text[2001], pattern[601];

	memset(text, 'a', 2000);
	text[2000] = 0;
	for (int i = 0; i < 300; i++)
		memcpy(pattern + 2 * i, "*a", 2);
	pattern[599] = 'b';
	pattern[600] = 0;
	assert_false(glob_match(pattern, text));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_and_wildcards),
		cmocka_unit_test(test_sets),
		cmocka_unit_test(test_is_pattern),
		cmocka_unit_test(test_hostile_pattern),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
