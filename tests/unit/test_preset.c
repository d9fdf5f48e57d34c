/* SPDX-License-Identifier: Apache-2.0 */
/* test_preset.c: preset files: what is read, and mistakes with line and column. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "probe/preset.h"
#include "unit.h"

static int parse(struct presets *p, const char *text, struct errmsg *e)
{
	size_t n = strlen(text);

	/* One of the texts has a NUL inside. */
	return parse_presets(p, text, n + (text[n - 1] == 'm' ? 10 : 0), "x.preset", e);
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

/* One's own file may have a preset that is called as an alias of a shipped one. */
static void a_name_comes_before_an_alias(void **state)
{
	struct presets *p = NULL;
	const struct preset *found = NULL;
	struct errmsg e = {""};

	assert_int_equal(presets_new(&p), 0);
	assert_int_equal(parse(p, "[a]\nalias=b c\nsummary=1\nexe=x\nendpoint=f\n", &e), 0);
	assert_int_equal(parse(p, "[b]\nsummary=2\nexe=x\nendpoint=f\n", &e), 0);
	assert_int_equal(presets_find(p, "b", &found, &e), 0);
	assert_string_equal(found->name, "b");
	assert_int_equal(presets_find(p, "c", &found, &e), 0);
	assert_string_equal(found->name, "a");
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
		{"[x]\nsummary = a\nexe = b\nendpoint = f\n[y]\nsummary = a\nexe = b\nendpoint = f\n"
		 "# again\n[x]\nsummary = c\nexe = b\nendpoint = f\n",
		 "x.preset:10:2: preset 'x' is in line 1 already: rename one of them, or make them one"},
		{"[x]\nendpoint = f(str(arg0)\n", "x.preset:2:23: endpoint: expected ')'"},
		{"[x]\nendpoint = f(str(arg0)\n\t  \" \" str(arg1 +))\n",
		 "x.preset:3:18: endpoint: expected"},
		{"[x]\nendpoint = f(\n\n # no comment\n",
		 "x.preset:4:2: endpoint: unexpected character"},
		{"[x]\nsum\0mary = a\n", "x.preset:2:4: not a text file"},
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

static const char whole[] =
	"[demo]\nalias = d1 d2\nsummary = a demo\nexe = demo demo-*\nlibrary = libdemo.so*\n"
	"endpoint = 'ns::f(int)'(lower(str(*(r->uri + 0x8))) \" \"\n"
	"\tmap(arg1&0xff, 1=\"a\", 2=\"b\") | lower(str(u64(arg0))) \" \" map(arg1, 1=\"a\", 2=\"b\") @ \"text:1.2*\")\n"
	"\t;if=arg0==2 && str(arg1)^=\"x\";once;end=g|h;end-if=arg0!=2;normalize=sql,path;as=t\n"
	"endpoint = usdt:p:n(str(arg0));match=~^a+$;file=!*/x/*\nnote = the end\n";

static bool has_place(const char *message)
{
	unsigned int line, column;

	return sscanf(message, "x.preset:%u:%u: ", &line, &column) == 2 && line >= 1 &&
	       line <= 12 && column >= 1 && column <= sizeof(whole);
}

/* The whole file with `change` in the place of n bytes at i: 1 when it is refused. */
static size_t refused(size_t i, const char *change, size_t n)
{
	char text[sizeof(whole) + 1];
	struct presets *p = NULL;
	struct errmsg e = {""};
	int r;

	snprintf(text, sizeof(text), "%.*s%s%s", (int)i, whole, change, whole + i + n);
	assert_int_equal(presets_new(&p), 0);
	r = parse_presets(p, text, strlen(text), "x.preset", &e);
	if (r < 0 && !has_place(e.text))
		fail_msg("%s\n%s", text, e.text);
	presets_free(p);
	return r < 0;
}

static void each_mistake_has_a_place(void **state)
{
	static const char others[] = "[]()=;:'\"|&*@~^ \t\n#\\\x01\xff"
				     "0az";
	size_t n_refused = 0;

	assert_int_equal(refused(sizeof(whole) - 1, "", 0), 0);
	for (size_t i = 0; i < sizeof(whole) - 1; i++) {
		n_refused += refused(i, "", 1);
		for (const char *c = others; *c; c++) {
			char change[2] = {*c, '\0'};

			n_refused += refused(i, change, 0) + refused(i, change, 1);
		}
	}
	assert_true(n_refused > sizeof(whole));
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
		cmocka_unit_test(a_name_comes_before_an_alias),
		cmocka_unit_test(mistakes_have_a_place),
		cmocka_unit_test(each_mistake_has_a_place),
		cmocka_unit_test(the_shipped_presets_are_right),
	};

	return cmocka_run_group_tests_name("preset", tests, NULL, NULL);
}
