/* SPDX-License-Identifier: Apache-2.0 */
/* test_pattern.c: regular expressions match, and those that would cost too much are not compiled. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "probe/pattern.h"
#include "unit.h"

static void places_are_counted(void **state)
{
	static const struct {
		const char *text;
		unsigned int places;
	} cases[] = {
		{"", 0},
		{"abc", 3},
		{"a[b-d]\\.", 3},
		{"[]a]b", 2},
		{"[^][:alpha:]x]b", 2},
		{"a{20}", 20},
		{"a{2,7}b", 8},
		{"a{3,}", 4},
		{"a+", 2},
		{"(ab){4}", 12},
		{"((a{3}){3})", 13},
		{"a{300}", UINT_MAX},
		{"((((a{1,255}){1,255}){1,255}){1,255})", UINT_MAX},
		{"(((((((((((a+)+)+)+)+)+)+)+)+)+)+)", UINT_MAX},
		{"a{99999999999999999999}", UINT_MAX},
		{"(a*)*{1,255}{1,255}", UINT_MAX},
		{"((((((((((((((((((((((((((((((((((((((((", UINT_MAX},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(pattern_places(cases[i].text), cases[i].places);
}

static void refusals_have_reasons(void **state)
{
	static const struct {
		const char *text;
		int result;
	} cases[] = {
		{"^GET /orders", PATTERN_OK},    {"", PATTERN_OK},
		{"[\\1]x", PATTERN_OK},          {"(a)\\1", PATTERN_E_BACK_REFERENCE},
		{"a[", PATTERN_E_SYNTAX},        {"(a", PATTERN_E_SYNTAX},
		{"a{300}", PATTERN_E_TOO_LARGE},
	};
	char longest[300];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct pattern *p = NULL;

		assert_int_equal(pattern_new(&p, cases[i].text), cases[i].result);
		assert_true((p != NULL) == (cases[i].result == PATTERN_OK));
		assert_true(strlen(pattern_reason(cases[i].result)) > 0);
		pattern_free(p);
	}
	memset(longest, 'a', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(pattern_new(&(struct pattern *){NULL}, longest), PATTERN_E_TOO_LARGE);
}

/* Only there with a sanitizer, which keeps up to 256 MiB of what has been freed. */
extern __attribute__((weak)) void __asan_init(void);

/* Each text of its own leads to states that the C library keeps. */
static void states_do_not_pile_up(void **state)
{
	struct pattern *p;
	struct rusage before, after;
	unsigned int seed = 1;
	char text[201];

	assert_int_equal(pattern_new(&p, "^(a|b)*a(a|b){50}$"), PATTERN_OK);
	for (int round = 0; round < 300; round++) {
		for (size_t i = 0; i + 1 < sizeof(text); i++) {
			seed = seed * 1103515245 + 12345;
			text[i] = seed & 0x10000 ? 'a' : 'b';
		}
		text[sizeof(text) - 1] = '\0';
		assert_true(pattern_matches(p, text) == (text[sizeof(text) - 52] == 'a'));
		if (round == 50)
			getrusage(RUSAGE_SELF, &before);
	}
	getrusage(RUSAGE_SELF, &after);
	assert_true(after.ru_maxrss - before.ru_maxrss < (__asan_init ? 400 : 16) << 10);
	pattern_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(places_are_counted),
		cmocka_unit_test(refusals_have_reasons),
		cmocka_unit_test(states_do_not_pile_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
