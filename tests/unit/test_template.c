/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "task/template.h"
#include "tests/unit/unit.h"

static const char *env(void *ctx, const char *name)
{
	return !strcmp(name, "SET") ? "va\nlue" : !strcmp(name, "EMPTY") ? "" : NULL;
}

static const char *expand(const char *text)
{
	static char buf[256];
	const struct template_values v = {.hostname = "h1",
					  .cgroup = "0123",
					  .exe = "nginx",
					  .user = "www",
					  .service = "shop",
					  .pid = 77,
					  .env = env};
	unsigned int needs;

	assert_int_equal(template_check(text, &needs, NULL), 0);
	template_expand(text, &v, buf, sizeof(buf));
	return buf;
}

static void test_expand(void **state)
{
	assert_string_equal(expand(""), "");
	assert_string_equal(expand("plain"), "plain");
	assert_string_equal(expand("{exe}-{pid}@{hostname}"), "nginx-77@h1");
	assert_string_equal(expand("{cgroup}/{user}/{service}"), "0123/www/shop");
	assert_string_equal(expand("{env:SET}"), "va_lue");
	assert_string_equal(expand("{env:UNSET}x"), "x");
	assert_string_equal(expand("{env:UNSET:other}"), "other");
	assert_string_equal(expand("{env:EMPTY:other}"), "other");
	assert_string_equal(expand("{{pid}}"), "{pid}");
}

static void test_cut_at_70_characters(void **state)
{
	char text[512] = "";

	for (int i = 0; i < 100; i++)
		strcat(text, "\xc3\xa4");
	assert_int_equal(strlen(expand(text)), 140);
}

static void test_cut_at_a_character_when_the_buffer_is_small(void **state)
{
	const struct template_values v = {};
	char buf[6];

	template_expand("a\xe2\x82\xac\xe2\x82\xac", &v, buf, sizeof(buf));
	assert_string_equal(buf, "a\xe2\x82\xac");
}

static void test_check(void **state)
{
	unsigned int needs = 0;
	struct errmsg e;

	assert_int_equal(template_check("{pid}{env:A}{cgroup}", &needs, &e), 0);
	assert_int_equal(needs, TEMPLATE_NEEDS_PID | TEMPLATE_NEEDS_ENV | TEMPLATE_NEEDS_CGROUP);
	assert_int_equal(template_check("{", &needs, &e), -EINVAL);
	assert_int_equal(template_check("}", &needs, &e), -EINVAL);
	assert_int_equal(template_check("{}", &needs, &e), -EINVAL);
	assert_int_equal(template_check("{env:}", &needs, &e), -EINVAL);
	assert_int_equal(template_check("{nope}", &needs, &e), -EINVAL);
	assert_non_null(strstr(e.text, "{env:NAME}"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_expand),
		cmocka_unit_test(test_cut_at_70_characters),
		cmocka_unit_test(test_cut_at_a_character_when_the_buffer_is_small),
		cmocka_unit_test(test_check),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
