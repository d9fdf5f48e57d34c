/* SPDX-License-Identifier: Apache-2.0 */
/* test_scan.c: tokens of expressions, their places, and what is none. */
#include <errno.h>
#include <string.h>

#include "probe/scan.h"
#include "tests/unit/unit.h"

static struct errmsg message;

static struct scan begin(const char *text)
{
	struct scan s;

	message = (struct errmsg){};
	scan_init(&s, "endpoint", text, 0, &message);
	return s;
}

static void tokens_have_places(void **state)
{
	struct scan s = begin(" a1->b_2\t== 0x1F;rest");

	assert_true(scan_is_ident(&s, "a1"));
	assert_false(scan_is_ident(&s, "a"));
	assert_false(scan_is_ident(&s, "a11"));
	assert_int_equal(s.token.at, 1);
	assert_int_equal(s.token.end, 3);
	scan_next(&s);
	assert_true(scan_is_punct(&s, "->"));
	assert_false(scan_is_punct(&s, "-"));
	assert_false(scan_take_punct(&s, "=="));
	assert_true(scan_take_punct(&s, "->"));
	assert_true(scan_is_ident(&s, "b_2"));
	scan_next(&s);
	assert_int_equal(scan_expect_punct(&s, "=="), 0);
	assert_int_equal(s.token.kind, TOKEN_NUMBER);
	assert_int_equal(s.token.number, 0x1f);
	assert_int_equal(s.token.at, 12);
	assert_int_equal(s.token.end, 16);
	/* The end is where the next option begins, however often it is asked for. */
	for (int i = 0; i < 2; i++) {
		scan_next(&s);
		assert_int_equal(s.token.kind, TOKEN_END);
		assert_int_equal(s.token.at, 16);
	}
	assert_string_equal(message.text, "");
}

static void the_longest_operator_is_taken(void **state)
{
	static const char *const want[] = {"<<", "<=", "<", ">>", "=~", "^=", "=", "&&", "&", "-"};
	struct scan s = begin("<<<=< >>=~^== &&&-");

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		assert_int_equal(s.token.kind, TOKEN_PUNCT);
		assert_string_equal(s.token.punct, want[i]);
		scan_next(&s);
	}
	assert_int_equal(s.token.kind, TOKEN_END);
}

static void numbers(void **state)
{
	static const struct {
		const char *text;
		uint64_t want;
	} good[] = {
		{"0", 0},
		{"007", 7},
		{"18446744073709551615", UINT64_MAX},
		{"0xffffffffffffffff", UINT64_MAX},
		{"0XaB", 0xab},
		{"'c'", 'c'},
		{"';'", ';'},
		{"'\\''", '\''},
		{"'\\n'", '\n'},
		{"'\\xfF'", 255},
		{"'\xc3'", 0xc3},
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct scan s = begin(good[i].text);

		assert_int_equal(s.token.kind, TOKEN_NUMBER);
		assert_int_equal(s.token.number, good[i].want);
		assert_int_equal(s.token.end, strlen(good[i].text));
	}
}

static void texts_are_unescaped(void **state)
{
	struct scan s = begin("\"a\\t\\\"b\\\\;\\x00\\0'z\"x");

	assert_int_equal(s.token.kind, TOKEN_STRING);
	assert_int_equal(s.string_bytes, 10);
	assert_memory_equal(s.string, "a\t\"b\\;\0\0'z", 11);
	scan_next(&s);
	assert_true(scan_is_ident(&s, "x"));
	s = begin("\"\"");
	assert_int_equal(s.token.kind, TOKEN_STRING);
	assert_int_equal(s.string_bytes, 0);
}

/* The longest text that fits, and one byte more. */
static void texts_have_a_limit(void **state)
{
	char text[SCAN_STRING_MAX + 3];
	struct scan s;

	memset(text, 'x', sizeof(text));
	text[0] = text[SCAN_STRING_MAX] = '"';
	text[SCAN_STRING_MAX + 1] = '\0';
	s = begin(text);
	assert_int_equal(s.token.kind, TOKEN_STRING);
	assert_int_equal(s.string_bytes, SCAN_STRING_MAX - 1);
	text[SCAN_STRING_MAX] = 'x';
	text[SCAN_STRING_MAX + 1] = '"';
	text[SCAN_STRING_MAX + 2] = '\0';
	s = begin(text);
	assert_int_equal(s.token.kind, TOKEN_BAD);
	assert_non_null(strstr(message.text, "longer than 255 bytes at column 1"));
}

static void what_is_no_token_is_marked(void **state)
{
	static const struct {
		const char *text;
		const char *want;
	} bad[] = {
		{"  $", "endpoint: unexpected character at column 3\n    $\n    ^"},
		{"\x01", "endpoint: unexpected character at column 1\n  ?\n  ^"},
		{"0x", "endpoint: hexadecimal digits expected after 0x at column 1\n  0x\n  ^"},
		{"12_", "endpoint: '_' is not part of a number at column 3\n  12_\n    ^"},
		{"0x10000000000000000", "endpoint: number does not fit into 64 bits at column 1\n"
					"  0x10000000000000000\n  ^"},
		{"18446744073709551616", "endpoint: number does not fit into 64 bits at column 1\n"
					 "  18446744073709551616\n  ^"},
		{"''", "endpoint: expected ' after the character at column 3\n  ''\n    ^"},
		{"'ab'", "endpoint: expected ' after the character at column 3\n  'ab'\n    ^"},
		{"'", "endpoint: no closing ' at column 1\n  '\n  ^"},
		{" \"ab;c", "endpoint: no closing \" at column 2\n   \"ab;c\n   ^"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct scan s = begin(bad[i].text);

		assert_int_equal(s.token.kind, TOKEN_BAD);
		assert_string_equal(message.text, bad[i].want);
		/* It is not told a second time. */
		message.text[0] = '\0';
		assert_int_equal(scan_expect_punct(&s, "("), -EINVAL);
		assert_string_equal(message.text, "");
	}
}

/* The caret stays under its byte where a long text is shown in part only. */
static void long_texts_are_shown_around_the_place(void **state)
{
	char text[1001];
	const char *shown, *caret;
	struct scan s;

	memset(text, 'a', 1000);
	text[1000] = '\0';
	text[700] = '$';
	message = (struct errmsg){};
	scan_init(&s, "endpoint", text, 700, &message);
	assert_non_null(strstr(message.text, "at column 701\n"));
	shown = strchr(message.text, '\n') + 1;
	caret = strchr(shown, '\n') + 1;
	assert_in_range(strcspn(shown, "\n"), 100, 400);
	assert_int_equal(strchr(shown, '$') - shown, strchr(caret, '^') - caret);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tokens_have_places),
		cmocka_unit_test(the_longest_operator_is_taken),
		cmocka_unit_test(numbers),
		cmocka_unit_test(texts_are_unescaped),
		cmocka_unit_test(texts_have_a_limit),
		cmocka_unit_test(what_is_no_token_is_marked),
		cmocka_unit_test(long_texts_are_shown_around_the_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
