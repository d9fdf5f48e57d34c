/* SPDX-License-Identifier: Apache-2.0 */
/* test_preset.c: preset files: what is read, and mistakes with line and column. */
#include <errno.h>
#include <string.h>

#include "probe/preset.h"
#include "unit.h"

static int parse(struct presets *p, const char *text, struct errmsg *e)
{
	return parse_presets(p, text, strlen(text), "x.preset", e);
}

static void a_whole_preset(void **state)
{
	struct presets *p = NULL;
	const struct preset *found = NULL;
	struct errmsg e = {""};

	assert_int_equal(presets_new(&p), 0);
	assert_int_equal(
		parse(p,
		      "# comment\n[demo]\nalias = d1 d2\nsummary = a demo\nexe = demo demo-*\n"
		      "endpoint = handle(str(arg0)\n\t\" \" str(arg1))\nnote = first\nnote = second\n",
		      &e),
		0);
	assert_int_equal(presets_find(p, "d2", &found, &e), 0);
	assert_string_equal(found->name, "demo");
	assert_string_equal(found->summary, "a demo");
	assert_int_equal(found->exes.n, 2);
	assert_string_equal(found->exes.at[1], "demo-*");
	assert_int_equal(found->endpoints.n, 1);
	assert_string_equal(found->endpoints.at[0], "handle(str(arg0) \" \" str(arg1))");
	assert_int_equal(found->notes.n, 2);
	assert_int_equal(presets_find(p, "none", &found, &e), -ENOENT);
	assert_non_null(strstr(e.text, "demo"));
	presets_free(p);
}

static void later_wins_and_order_is_by_name(void **state)
{
	struct presets *p = NULL;
	struct errmsg e = {""};

	assert_int_equal(presets_new(&p), 0);
	assert_int_equal(
		parse(p, "[b]\nsummary=1\nexe=x\nendpoint=f\n[a]\nsummary=2\nexe=x\nendpoint=f\n",
		      &e),
		0);
	assert_int_equal(parse(p, "[b]\nsummary=3\nexe=x\nendpoint=f\n", &e), 0);
	assert_string_equal(presets_at(p, 0)->name, "a");
	assert_string_equal(presets_at(p, 1)->summary, "3");
	assert_null(presets_at(p, 2));
	presets_free(p);
}

struct bad {
	const char *text;
	const char *message;
};

static void mistakes_have_a_place(void **state)
{
	static const struct bad bad[] = {
		{"summary = x\n", "x.preset:1:1: a [name] must come first"},
		{"[x]\nfoo = 1\n", "x.preset:2:1: unknown key"},
		{"[x]\nsummary\n", "x.preset:2:1: expected key = value"},
		{"[x]\nsummary =\n", "x.preset:2:10: the value is missing"},
		{"[X]\n", "x.preset:1:2: a preset's name"},
		{"[x\n", "x.preset:1:2: expected [name]"},
		{"\n\n  more\n", "there is no value to continue"},
		{"[x]\nsummary = a\nexe = b\n", "x.preset:1:1: preset 'x' needs"},
		{"[x]\nsummary = a\nsummary = b\n", "x.preset:3:1: a preset has one summary"},
		{"[x]\nendpoint = f(str(arg0)\n", "x.preset:2:12: endpoint: expected ')'"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct presets *p = NULL;
		struct errmsg e = {""};

		assert_int_equal(presets_new(&p), 0);
		assert_int_equal(parse(p, bad[i].text, &e), -EINVAL);
		if (!strstr(e.text, bad[i].message))
			fail_msg("%s: %s", bad[i].text, e.text);
		presets_free(p);
	}
}

static void the_shipped_presets_are_right(void **state)
{
	static const char *const names[] = {"postgres", "mariadb", "mariadb-statements",
					    "mysql",    "redis",   "apache",
					    "php-fpm",  "mod_php", "nginx",
					    "sqlite",   "openssl"};
	struct presets *p = NULL;
	struct errmsg e = {""};

	/* The test runs in <build>/tests/unit: the program's own look-up does not apply. */
	if (presets_open(&p, NULL, &e) < 0)
		skip();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct preset *found;

		if (presets_find(p, names[i], &found, &e) < 0)
			fail_msg("%s", e.text);
	}
	presets_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_whole_preset),
		cmocka_unit_test(later_wins_and_order_is_by_name),
		cmocka_unit_test(mistakes_have_a_place),
		cmocka_unit_test(the_shipped_presets_are_right),
	};

	return cmocka_run_group_tests_name("preset", tests, NULL, NULL);
}
