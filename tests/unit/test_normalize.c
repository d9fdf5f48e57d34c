/* SPDX-License-Identifier: Apache-2.0 */
/* test_normalize.c: names without the values in them. */
#include <string.h>

#include "probe/normalize.h"
#include "unit.h"

struct text_case {
	const char *in;
	const char *out;
};

static const struct text_case sql[] = {
	{"SELECT * FROM t WHERE id = 42", "SELECT * FROM t WHERE id = ?"},
	{"select 'it''s', \"Col 1\" from t1", "select ?, \"Col 1\" from t1"},
	{"INSERT INTO a VALUES (1, 'x', -2.5e-3, 0xff)", "INSERT INTO a VALUES (?)"},
	{"WHERE id IN (1,2,3) AND b = ?", "WHERE id IN (?) AND b = ?"},
	{"SELECT /* secret */ 1 -- more\nFROM t", "SELECT ? FROM t"},
	{"a\t=\n  'x\\'y' limit 10", "a = ? limit ?"},
	{"select $tag$ secret ' $tag$, $1", "select ?, $1"},
	{"select E'a', N'b', X'ff'", "select ?"},
	{"select 'cut off in the mid", "select ?"},
	{"select /* cut off", "select"},
	{"update `t1` set a1=1", "update `t1` set a1=?"},
	{"select 1; ", "select ?"},
	{"", ""},
	{"   ", ""},
};

static const struct text_case paths[] = {
	{"GET /orders/4711", "GET /orders/{id}"},
	{"GET /orders/4711/items/9?token=secret", "GET /orders/{id}/items/{id}"},
	{"/u/123e4567-e89b-12d3-a456-426614174000/x", "/u/{id}/x"},
	{"/blob/deadbeef01", "/blob/{id}"},
	{"/v1/api/index.html", "/v1/api/index.html"},
	{"/cafe/menu", "/cafe/menu"},
	{"/a#frag", "/a"},
	{"/", "/"},
	{"", ""},
};

static void sql_texts(void **state)
{
	char out[128];

	for (size_t i = 0; i < sizeof(sql) / sizeof(sql[0]); i++) {
		size_t n = normalize_sql(sql[i].in, strlen(sql[i].in), out, sizeof(out));

		assert_string_equal(out, sql[i].out);
		assert_int_equal(n, strlen(out));
	}
}

static void path_texts(void **state)
{
	char out[128];

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		normalize_path(paths[i].in, strlen(paths[i].in), out, sizeof(out));
		assert_string_equal(out, paths[i].out);
	}
}

static void output_is_bounded(void **state)
{
	char out[8];

	normalize_sql("select something long", 21, out, sizeof(out));
	assert_string_equal(out, "select");
	normalize_path("/a/1/2/3/4", 10, out, sizeof(out));
	assert_int_equal(strlen(out), 7);
	normalize_path("/abc", 4, out, 1);
	assert_string_equal(out, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sql_texts),
		cmocka_unit_test(path_texts),
		cmocka_unit_test(output_is_bounded),
	};

	return cmocka_run_group_tests_name("normalize", tests, NULL, NULL);
}
