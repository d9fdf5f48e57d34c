/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "code/nearest.h"
#include "tests/unit/unit.h"

static struct nearest near;

static void offer_all(const char *name)
{
	static const char *const names[] = {
		"main",
		"exec_simple_query",
		"exec_simple_check",
		"PortalRun",
		"PortalRunSelect",
		"portal_start",
		"Server::handle_request",
		"handle",
		"exec_simple_query",
	};

	nearest_init(&near, name);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		nearest_offer(&near, names[i]);
}

static void test_typo(void **state)
{
	offer_all("exec_simple_qeury");
	assert_true(near.n >= 1);
	assert_string_equal(near.best[0].text, "exec_simple_query");
	for (size_t i = 1; i < near.n; i++)
		assert_string_not_equal(near.best[i].text, "exec_simple_query");
}

static void test_case_and_part(void **state)
{
	offer_all("portalrun");
	assert_true(near.n >= 2);
	assert_string_equal(near.best[0].text, "PortalRun");
	assert_string_equal(near.best[1].text, "PortalRunSelect");
}

static void test_last_component(void **state)
{
	offer_all("handle_requst");
	assert_int_equal(near.n, 1);
	assert_string_equal(near.best[0].text, "Server::handle_request");
}

static void test_nothing(void **state)
{
	offer_all("zzzzzzzzzzzz");
	assert_int_equal(near.n, 0);
	offer_all("");
	assert_int_equal(near.n, 0);
}

static void test_short(void **state)
{
	static const char *const names[] = {"fork", "brk", "warn", "sbrk", "Worker", "wok"};

	nearest_init(&near, "work");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		nearest_offer(&near, names[i]);
	assert_int_equal(near.n, 2);
	assert_string_equal(near.best[0].text, "wok");
	assert_string_equal(near.best[1].text, "Worker");
}

static void test_many_and_long(void **state)
{
	char text[1000];

	nearest_init(&near, "function");
	for (int i = 0; i < 26; i++) {
		strcpy(text, "function?");
		text[8] = (char)('a' + i);
		nearest_offer(&near, text);
	}
	assert_int_equal(near.n, NEAREST_MAX);
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	nearest_offer(&near, text);
	nearest_init(&near, text);
	nearest_offer(&near, text);
	assert_int_equal(strlen(near.best[0].text), NEAREST_TEXT_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_typo),           cmocka_unit_test(test_case_and_part),
		cmocka_unit_test(test_last_component), cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_many_and_long),  cmocka_unit_test(test_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
