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
	{"select 'it''s', a from t1", "select ?, a from t1"},
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

/* What "..." and \\ are depends on the dialect. */
static const struct dialect_case {
	enum sql_dialect dialect;
	const char *in;
	const char *out;
} dialects[] = {
	{SQL_MYSQL, "update t set v=\"y\" where i=5", "update t set v=? where i=?"},
	{SQL_MYSQL, "select * from t where a in (\"b\",\"c\"\"d\")",
	 "select * from t where a in (?)"},
	{SQL_MYSQL, "select \"it\\\"s\", 'a\\'b' from `t`", "select ? from `t`"},
	{SQL_MYSQL, "select \"cut off in the mid", "select ?"},
	{SQL_PGSQL, "select 'it''s', \"Col 1\" from t1", "select ?, \"Col 1\" from t1"},
	{SQL_PGSQL, "select \"a\".\"b\" from \"a\" where \"b\"=3",
	 "select \"a\".\"b\" from \"a\" where \"b\"=?"},
	{SQL_PGSQL, "select 'C:\\', 'secret', x", "select ?, x"},
	{SQL_PGSQL, "select E'it\\'s', x", "select ?, x"},
	{SQL_PGSQL, "select j #> '{a}' from t", "select j #> ? from t"},
	{SQL_SQLITE, "select 'C:\\', 'secret', x", "select ?, x"},
	{SQL_SQLITE, "insert into \"t\" values (\"secret\")", "insert into \"t\" values (?)"},
	{SQL_UNKNOWN, "select \"a\".\"b\" as \"c\" from \"a\" where \"a\".\"b\" = \"secret\"",
	 "select \"a\".\"b\" as \"c\" from \"a\" where \"a\".\"b\" = ?"},
	{SQL_UNKNOWN, "select extract(day from \"2024-01-01\")", "select extract(day from ?)"},
	{SQL_UNKNOWN, "select * from t where n=\"it\\\"s\"", "select * from t where n=?"},
	{SQL_UNKNOWN, "select * from \"cut", "select * from ?"},
	{SQL_UNKNOWN, "\"", "?"},
	{SQL_PGSQL, "/* /* */ don't */ select 'secret'", "select ?"},
	{SQL_PGSQL, "select 1 /* a /* b */ it's */ where p = 'secret' and x = 'y'",
	 "select ? where p = ? and x = ?"},
	{SQL_PGSQL, "select /* a /* b */ secret", "select"},
	{SQL_PGSQL, "select E'a'\n'b\\'secret' , x", "select ? , x"},
	{SQL_PGSQL, "select E'a' -- it's\n  'b\\'secret' , x", "select ? , x"},
	{SQL_PGSQL, "select 'a'\n'C:\\', x", "select ?, x"},
	{SQL_PGSQL, "select E'a' 'C:\\', x", "select ? ?, x"},
	{SQL_MYSQL, "/* /* */ select 'a' /* it's */ from t", "select ? from t"},
	{SQL_MYSQL, "select 5--'a\nsecret', x -- it's\n, y", "select ?--?, x , y"},
	{SQL_SQLITE, "/* /* */ select 'a' --it's\nfrom t", "select ? from t"},
	{SQL_UNKNOWN, "select a /* b /* it's */ secret */, 'c'", "select a"},
};

static const struct text_case paths[] = {
	{"GET /orders/4711", "GET /orders/{id}"},
	{"GET /orders/4711/items/9?token=secret", "GET /orders/{id}/items/{id}"},
	{"/u/123e4567-e89b-12d3-a456-426614174000/x", "/u/{id}/x"},
	{"/blob/deadbeef01", "/blob/{id}"},
	{"/v1/api/index.html", "/v1/api/index.html"},
	{"/cafe/menu", "/cafe/menu"},
	{"/a#frag", "/a"},
	{"/a%3Ftoken=secret", "/a"},
	{"/a%23secret", "/a"},
	{"/a%2fb/x", "/a%2fb/x"},
	{"GET /a;jsessionid=secret/b;c HTTP/1.1", "GET /a/b HTTP/1.1"},
	{"/u/7;v=1", "/u/{id}"},
	{"http://user:secret@h/p", "http://{id}/p"},
	{"/mail/a.b@c.example/x", "/mail/{id}/x"},
	{"/reset/eyJhbGciOiJIUzI1NiJ9.e30.abc", "/reset/{id}"},
	{"/k/sk_live_4eC39HqLyjWDarjtT1", "/k/{id}"},
	{"/k/0x5ec4e7de", "/k/{id}"},
	{"/rpc/getUserInfoV2Details", "/rpc/getUserInfoV2Details"},
	{"/", "/"},
	{"", ""},
};

static void sql_texts(void **state)
{
	char out[128];

	for (size_t i = 0; i < sizeof(sql) / sizeof(sql[0]); i++) {
		size_t n =
			normalize_sql(SQL_UNKNOWN, sql[i].in, strlen(sql[i].in), out, sizeof(out));

		assert_string_equal(out, sql[i].out);
		assert_int_equal(n, strlen(out));
	}
}

static void sql_dialects(void **state)
{
	char out[128];

	for (size_t i = 0; i < sizeof(dialects) / sizeof(dialects[0]); i++) {
		normalize_sql(dialects[i].dialect, dialects[i].in, strlen(dialects[i].in), out,
			      sizeof(out));
		assert_string_equal(out, dialects[i].out);
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

	normalize_sql(SQL_UNKNOWN, "select something long", 21, out, sizeof(out));
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
		cmocka_unit_test(sql_dialects),
		cmocka_unit_test(path_texts),
		cmocka_unit_test(output_is_bounded),
	};

	return cmocka_run_group_tests_name("normalize", tests, NULL, NULL);
}
