/* SPDX-License-Identifier: Apache-2.0 */
/* test_endpoint.c: specifications, their compilation for a build, and names from captured fields. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/glob.h"
#include "probe/endpoint.h"
#include "probe/endpoint_priv.h"
#include "unit.h"

static struct endpoint *parse(const char *text)
{
	struct endpoint *ep = NULL;
	struct errmsg e = {""};

	if (parse_endpoint(text, &ep, &e) < 0)
		fail_msg("%s", e.text);
	return ep;
}

static void targets(void **state)
{
	struct endpoint *ep = parse("processCommand");

	assert_int_equal(endpoint_target(ep)->kind, ENDPOINT_SYMBOL);
	assert_null(endpoint_target(ep)->binary);
	assert_string_equal(endpoint_target(ep)->symbol, "processCommand");
	endpoint_free(ep);
	ep = parse("libphp8.2.so:php_execute_script(str(arg0))");
	assert_string_equal(endpoint_target(ep)->binary, "libphp8.2.so");
	assert_string_equal(endpoint_target(ep)->symbol, "php_execute_script");
	assert_true(endpoint_has_name(ep));
	endpoint_free(ep);
	ep = parse("/usr/bin/x:0x1f40");
	assert_int_equal(endpoint_target(ep)->kind, ENDPOINT_OFFSET);
	assert_int_equal(endpoint_target(ep)->offset, 0x1f40);
	endpoint_free(ep);
	ep = parse("srv::Router::handle");
	assert_null(endpoint_target(ep)->binary);
	assert_string_equal(endpoint_target(ep)->symbol, "srv::Router::handle");
	endpoint_free(ep);
	ep = parse("app:srv::Router::handle(str(arg1, arg2))");
	assert_string_equal(endpoint_target(ep)->binary, "app");
	assert_string_equal(endpoint_target(ep)->symbol, "srv::Router::handle");
	endpoint_free(ep);
	ep = parse("app:'ns::f(int, char*)'(str(arg1));as=f");
	assert_string_equal(endpoint_target(ep)->symbol, "ns::f(int, char*)");
	assert_string_equal(endpoint_display(ep), "f");
	endpoint_free(ep);
}

static unsigned int needs_of(const char *text)
{
	struct endpoint *ep = parse(text);
	unsigned int n = endpoint_needs(ep);

	endpoint_free(ep);
	return n;
}

static void needs(void **state)
{
	assert_int_equal(needs_of("send_uret_end"), 0);
	assert_int_equal(needs_of("f;end=g"), ENDPOINT_NEEDS_END);
	assert_int_equal(needs_of("usdt:shop:order__start"), ENDPOINT_NEEDS_END);
	assert_int_equal(needs_of("usdt:shop:order__start;leave=retsite"), 0);
	assert_int_equal(needs_of("usdt:shop:order"), 0);
	assert_int_equal(needs_of("f;leave=uretprobe"), ENDPOINT_NEEDS_URETPROBE);
	assert_int_equal(needs_of("f(str(arg0))"), ENDPOINT_NEEDS_NAMES);
	assert_int_equal(needs_of("f;if=arg0==1"), ENDPOINT_NEEDS_NAMES);
	assert_int_equal(needs_of("f;leave-name=str(entry(arg1))"),
			 ENDPOINT_NEEDS_NAMES | ENDPOINT_NEEDS_END_READS);
	assert_int_equal(needs_of("f;end=g;end-if=arg0==1"), ENDPOINT_NEEDS_END);
	assert_int_equal(needs_of("f;end=g;end-if=str(arg0)==\"x\""),
			 ENDPOINT_NEEDS_END | ENDPOINT_NEEDS_END_READS);
	assert_int_equal(needs_of("f;end=g;end-if=*arg0==1"),
			 ENDPOINT_NEEDS_END | ENDPOINT_NEEDS_END_READS);
}

static void usdt_and_ends(void **state)
{
	struct endpoint *ep =
		parse("usdt:php:request__startup(str(arg1));end=usdt:php:request__shutdown");

	assert_int_equal(endpoint_target(ep)->kind, ENDPOINT_USDT);
	assert_string_equal(endpoint_target(ep)->provider, "php");
	assert_string_equal(endpoint_end(ep)->name, "request__shutdown");
	assert_int_equal(endpoint_leave(ep), LEAVE_END);
	endpoint_free(ep);
	ep = parse("a;end=lib.so:b;end-if=arg0==1;once");
	assert_string_equal(endpoint_end(ep)->binary, "lib.so");
	assert_string_equal(endpoint_end(ep)->symbol, "b");
	assert_null(endpoint_other_end(ep));
	endpoint_free(ep);
	ep = parse("a;end=b|lib.so:c;once");
	assert_string_equal(endpoint_end(ep)->symbol, "b");
	assert_string_equal(endpoint_other_end(ep)->binary, "lib.so");
	assert_string_equal(endpoint_other_end(ep)->symbol, "c");
	endpoint_free(ep);
}

struct bad {
	const char *text;
	const char *message;
};

static void mistakes(void **state)
{
	static const struct bad bad[] = {
		{"", "a name is missing at column 1"},
		{"a:b:c", "too many ':'"},
		{"0x1234", "an offset needs its file"},
		{"usdt:php", "usdt:PROVIDER:NAME"},
		{"f(", "expected a value at"},
		{"s::f(std::string)",
		 "quotes of their own, as in \"'f(std::string)'\") at column 9"},
		{"f(str(arg0)) x", "options start with ';') at column 14"},
		{"f;foo=1", "unknown or repeated option"},
		{"f;normalize=xml", "sqlite, path, lower at column 13"},
		{"f;leave=magic", "auto, retsite, end, ret, uretprobe"},
		{"f;match=~(", "not an extended regular expression"},
		{"f;end-if=arg0==1", "end-if= needs end="},
		{"f;leave=end", "leave=end needs end="},
		{"f;end=a|b|c", "more than two end functions"},
		{"f;end=a|", "a name is missing at column 9"},
		{"f;end=usdt:p:n|b", "of two ends none can be a USDT probe"},
		{"f(str(arg0));leave-name=str(ret)", "exclude each other"},
		{"f;name=str(arg0);name=str(arg1)", "given twice"},
		{"f;if=arg0=1", "expected one of =="},
		{"f(str(arg0) | arg1 \"x\")", "same parts"},
		{"'f", "no closing quote"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct endpoint *ep = NULL;
		struct errmsg e = {""};

		assert_int_equal(parse_endpoint(bad[i].text, &ep, &e), -EINVAL);
		if (!strstr(e.text, bad[i].message))
			fail_msg("%s: %s", bad[i].text, e.text);
	}
}

/* Builds the bytes that BPF captures. */
struct fields {
	uint8_t at[WIRE_NAME_MAX];
	size_t n;
};

static void add_field(struct fields *f, enum wire_field_type type, const void *data, size_t bytes)
{
	struct wire_field head = {.type = (uint8_t)type, .bytes = (uint16_t)bytes};

	memcpy(f->at + f->n, &head, sizeof(head));
	memcpy(f->at + f->n + sizeof(head), data, bytes);
	f->n += sizeof(head) + ((bytes + 7) & ~7UL);
}

static void add_text(struct fields *f, const char *text)
{
	add_field(f, WIRE_FIELD_STR, text, strlen(text));
}

static void add_number(struct fields *f, enum wire_field_type type, int64_t v)
{
	add_field(f, type, &v, sizeof(v));
}

static void check_name(const char *spec, const struct fields *f, const char *want)
{
	struct endpoint *ep = parse(spec);
	char name[64];

	endpoint_format_name(ep, f->at, f->n, name, sizeof(name));
	assert_string_equal(name, want);
	endpoint_free(ep);
}

static void names(void **state)
{
	struct fields f = {.n = 0};

	add_text(&f, "GET");
	add_text(&f, "/orders/42?x=1");
	check_name("f(str(arg0) \" \" str(arg1))", &f, "GET /orders/42?x=1");
	check_name("f(lower(str(arg0)) \":\" str(arg1));normalize=path", &f, "get:/orders/{id}");
	f = (struct fields){.n = 0};
	add_number(&f, WIRE_FIELD_INT, -5);
	add_number(&f, WIRE_FIELD_UINT, 255);
	add_number(&f, WIRE_FIELD_INT, 3);
	check_name("f(int(arg0) \"/\" hex(arg1) \"/\" map(arg2, 3=\"query\"))", &f,
		   "-5/0xff/query");
	f = (struct fields){.n = 0};
	add_text(&f, "select 'secret'");
	check_name("f(str(arg0));normalize=sql,lower", &f, "select ?");
}

static void names_that_cannot_be_read(void **state)
{
	struct fields f = {.n = 0};

	check_name("f(str(arg0))", &f, "f");
	add_field(&f, WIRE_FIELD_FAULT, "", 0);
	check_name("f(str(arg0));as=thing", &f, "thing");
	add_text(&f, "x");
	check_name("f(str(arg0) \"-\" str(arg1))", &f, "?-x");
	f = (struct fields){.n = 0};
	add_text(&f, "GET");
	add_field(&f, WIRE_FIELD_FAULT, "", 0);
	add_text(&f, "/orders/42?x=1");
	check_name("f(str(arg0) \" \" str(arg1) \" \" str(arg2));normalize=path,lower", &f,
		   "get ? /orders/{id}");
	f = (struct fields){.n = 0};
	add_text(&f, "\x01\x02\x03\x04");
	check_name("f(str(arg0))", &f, "f");
	f = (struct fields){.n = 0};
	add_text(&f, "a\nb\x1b[31mtail text here\xff\xc3\xa9");
	check_name("f(str(arg0))", &f, "a b\\x1b[31mtail text here\\xff\xc3\xa9");
}

static void matching(void **state)
{
	struct endpoint *ep = parse("f(str(arg0));match=GET *");

	assert_true(endpoint_matches(ep, "GET /x"));
	assert_false(endpoint_matches(ep, "POST /x"));
	endpoint_free(ep);
	ep = parse("f(str(arg0));match=~^/api/v[0-9]+/");
	assert_true(endpoint_matches(ep, "/api/v2/x"));
	assert_false(endpoint_matches(ep, "/v2/api"));
	endpoint_free(ep);
	ep = parse("f;file=!*/18/*");
	assert_true(endpoint_wants_file(ep, "/usr/lib/postgresql/15/bin/postgres"));
	assert_false(endpoint_wants_file(ep, "/usr/lib/postgresql/18/bin/postgres"));
	endpoint_free(ep);
}

static bool has_version(void *ctx, const char *glob)
{
	return glob_match(glob, ctx);
}

static void compiled(const char *spec, const char *path, struct endpoint_code *ret)
{
	static char version[] = "server/3.1.7";
	struct endpoint_build build = {
		.path = path, .build_id = "abcdef", .has_text = has_version, .ctx = version};
	struct endpoint *ep = parse(spec);
	struct errmsg e = {""};

	if (endpoint_compile(ep, NULL, NULL, &build, ret, &e) < 0)
		fail_msg("%s", e.text);
	endpoint_free(ep);
}

static void flags(void **state)
{
	struct endpoint_code c;

	compiled("f", "", &c);
	assert_int_equal(c.wire.flags, 0);
	compiled("f(str(arg1));if=arg0==2;once;end=g;end-if=arg0!=2", "", &c);
	assert_int_equal(c.wire.flags, WIRE_EP_F_BEGIN_IF_NONE | WIRE_EP_F_END_PROBE |
					       WIRE_EP_F_HAS_OPS | WIRE_EP_F_END_OPS);
	assert_int_equal(c.wire.entry_ops[1].code, WIRE_OP_IF_EQ);
	assert_int_equal(c.wire.leave_ops[1].code, WIRE_OP_IF_NE);
	assert_int_equal(c.registers, 1U << WIRE_REG_RDI | 1U << WIRE_REG_RSI);
	compiled("f;leave-name=str(entry(arg1), ret)", "", &c);
	assert_int_equal(c.wire.flags, WIRE_EP_F_NAME_AT_LEAVE | WIRE_EP_F_HAS_OPS);
	assert_int_equal(c.wire.entry_ops[1].code, WIRE_OP_KEEP);
}

static void alternatives(void **state)
{
	static const char spec[] =
		"f(str(r->uri) | str(*(arg0+8)) @ \"*/new/*\" | "
		"str(*(arg0+16)) @ \"build-id:abc\" | str(*(arg0+24)) @ \"build-id:ff\")";
	struct endpoint_code c;

	compiled(spec, "/new/f", &c);
	assert_int_equal(c.wire.entry_ops[1].imm, 8);
	assert_false(c.nameless);
	compiled(spec, "/old/f", &c);
	assert_int_equal(c.wire.entry_ops[1].imm, 16);
	compiled(
		"f(str(*(arg0+8)) @ \"text:server/3.2*\" | str(*(arg0+16)) @ \"text:server/3.1.*\")",
		"/f", &c);
	assert_int_equal(c.wire.entry_ops[1].imm, 16);
	compiled("f(str(arg0) @ \"text:server/4*\" | str(arg1) @ \"text:other*\")", "/f", &c);
	assert_true(c.nameless);
	compiled("f(str(r->uri) | str(arg0) @ \"*/new/*\")", "/old/f", &c);
	assert_int_equal(c.wire.n_entry_ops, 0);
	assert_true(c.nameless);
}

/* A name that was given stays; else it is that of the first function that was found. */
static void test_names(void **state)
{
	struct endpoint *ep = parse("*serve*");

	assert_string_equal(endpoint_display(ep), "*serve*");
	assert_string_equal(endpoint_pattern(ep), "*serve*");
	assert_int_equal(endpoint_found(ep, "shop::serve"), 0);
	assert_int_equal(endpoint_found(ep, "mall::serve"), 0);
	assert_string_equal(endpoint_display(ep), "shop::serve");
	assert_null(endpoint_pattern(ep));
	endpoint_free(ep);

	ep = parse("*serve*;as=x");
	assert_int_equal(endpoint_set_name(ep, "order"), 0);
	assert_null(endpoint_pattern(ep));
	assert_int_equal(endpoint_found(ep, "shop::serve"), 0);
	assert_string_equal(endpoint_display(ep), "order");
	endpoint_free(ep);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),    cmocka_unit_test(targets),
		cmocka_unit_test(usdt_and_ends), cmocka_unit_test(mistakes),
		cmocka_unit_test(names),         cmocka_unit_test(names_that_cannot_be_read),
		cmocka_unit_test(matching),      cmocka_unit_test(flags),
		cmocka_unit_test(needs),         cmocka_unit_test(alternatives),
	};

	return cmocka_run_group_tests_name("endpoint", tests, NULL, NULL);
}
