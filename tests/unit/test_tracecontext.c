/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "net/tracecontext.h"
#include "tests/unit/unit.h"

/* Fields: "trace.1", "seg.2", "front", "front-1", "/api", "10.0.0.1:80". */
#define SW8    "1-dHJhY2UuMQ==-c2VnLjI=-3-ZnJvbnQ=-ZnJvbnQtMQ==-L2FwaQ==-MTAuMC4wLjE6ODA="
#define TRACE  "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"

static void test_sw8(void **state)
{
	struct tracecontext c;

	assert_int_equal(parse_tracecontext(SW8, &c), TRACECONTEXT_OK);
	assert_int_equal(c.kind, TRACECONTEXT_SW8);
	assert_true(c.sampled);
	assert_string_equal(c.trace_id, "trace.1");
	assert_string_equal(c.parent_id, "seg.2");
	assert_int_equal(c.parent_span_id, 3);
	assert_string_equal(c.parent_service, "front");
	assert_string_equal(c.parent_instance, "front-1");
	assert_string_equal(c.parent_endpoint, "/api");
	assert_string_equal(c.address, "10.0.0.1:80");
}

static void test_sw8_without_padding_and_with_empty_texts(void **state)
{
	struct tracecontext c;

	assert_int_equal(parse_tracecontext("0-dHJhY2UuMQ-c2VnLjI-0----", &c), TRACECONTEXT_OK);
	assert_false(c.sampled);
	assert_string_equal(c.trace_id, "trace.1");
	assert_string_equal(c.parent_service, "");
}

static void test_w3c(void **state)
{
	struct tracecontext c;

	assert_int_equal(parse_tracecontext("00-" TRACE "-" PARENT "-01", &c), TRACECONTEXT_OK);
	assert_int_equal(c.kind, TRACECONTEXT_W3C);
	assert_true(c.sampled);
	assert_string_equal(c.trace_id, TRACE);
	assert_string_equal(c.parent_id, PARENT);
	assert_int_equal(parse_tracecontext("00-" TRACE "-" PARENT "-00", &c), TRACECONTEXT_OK);
	assert_false(c.sampled);
	assert_int_equal(parse_tracecontext("01-" TRACE "-" PARENT "-01-more", &c),
			 TRACECONTEXT_OK);
}

static void test_bad_contexts(void **state)
{
	static const char *const bad[] = {
		"",
		"-",
		"-------",
		"--------",
		"hello",
		"1-a-b-c",
		"2-dHJhY2UuMQ==-c2VnLjI=-3-ZnJvbnQ=-ZnJvbnQtMQ==-L2FwaQ==-MTAuMC4wLjE6ODA=",
		"1-dHJhY2UuMQ==-c2VnLjI=--ZnJvbnQ=-ZnJvbnQtMQ==-L2FwaQ==-MTAuMC4wLjE6ODA=",
		"1-dHJhY2UuMQ==-c2VnLjI=-99999999999-ZnJvbnQ=-ZnJvbnQ=-L2FwaQ==-MTA=",
		"1-dHJhY2UuMQ==-c2VnLjI=-2147483648-ZnJvbnQ=-ZnJvbnQ=-L2FwaQ==-MTA=",
		"1-dHJhY2UuMQ==-c2VnLjI=-x-ZnJvbnQ=-ZnJvbnQ=-L2FwaQ==-MTA=",
		"1--c2VnLjI=-3-ZnJvbnQ=-ZnJvbnQ=-L2FwaQ==-MTA=",     /* no trace id */
		"1-dHJhY2U*MQ==-c2VnLjI=-3-ZnJvbnQ=-Zg==-Zg==-Zg==", /* not base64 */
		"1-d-c2VnLjI=-3-ZnJvbnQ=-Zg==-Zg==-Zg==",            /* one digit */
		"1-AAA=-c2VnLjI=-3-ZnJvbnQ=-Zg==-Zg==-Zg==",         /* NUL bytes */
		"1-Cg==-c2VnLjI=-3-ZnJvbnQ=-Zg==-Zg==-Zg==",         /* line feed */
		"1-/////w==-c2VnLjI=-3-ZnJvbnQ=-Zg==-Zg==-Zg==",     /* not UTF-8 */
		"00-" TRACE "-" PARENT,
		"00-" TRACE "-" PARENT "-1",
		"00-" TRACE "-" PARENT "-001",
		"00-" TRACE "-" PARENT "-01-more",
		"ff-" TRACE "-" PARENT "-01",
		"00-00000000000000000000000000000000-" PARENT "-01",
		"00-" TRACE "-0000000000000000-01",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01", /* upper case is not allowed */
	};
	struct tracecontext c = {.trace_id = "untouched"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (parse_tracecontext(bad[i], &c) == TRACECONTEXT_OK)
			fail_msg("accepted: \"%s\"", bad[i]);
	assert_string_equal(c.trace_id, "untouched");
}

static void test_field_limit(void **state)
{
	char text[4096] = "1-";
	struct tracecontext c;

	memset(text + 2, 'Q', 800); /* 600 decoded bytes */
	strcat(text, "-c2VnLjI=-3-Zg==-Zg==-Zg==-Zg==");
	assert_int_equal(parse_tracecontext(text, &c), TRACECONTEXT_E_FIELD);
}

static void test_split(void **state)
{
	const char *context;

	assert_int_equal(tracecontext_split("/api/users", &context), 10);
	assert_null(context);
	assert_int_equal(tracecontext_split("/api traceparent=00-x", &context), 4);
	assert_string_equal(context, "00-x");
	assert_int_equal(tracecontext_split("/a sw8=1 sw8=2", &context), 8);
	assert_string_equal(context, "2");
	assert_int_equal(tracecontext_split(" sw8=", &context), 0);
	assert_string_equal(context, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sw8),
		cmocka_unit_test(test_sw8_without_padding_and_with_empty_texts),
		cmocka_unit_test(test_w3c),
		cmocka_unit_test(test_bad_contexts),
		cmocka_unit_test(test_field_limit),
		cmocka_unit_test(test_split),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
