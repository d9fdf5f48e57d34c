/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "task/control_message.h"
#include "tests/unit/unit.h"

static void expect_error(const char *line, const char *part)
{
	struct control_request r;
	struct errmsg e = {};

	assert_int_equal(parse_control_line(line, strlen(line), &r, &e), -EINVAL);
	if (!strstr(e.text, part))
		fail_msg("'%s' is not in '%s'", part, e.text);
}

static struct control_request parse(const char *line)
{
	struct control_request r;
	struct errmsg e = {};

	if (parse_control_line(line, strlen(line), &r, &e))
		fail_msg("%s", e.text);
	return r;
}

static void test_create(void **state)
{
	struct control_request r = parse(
		"{\"v\":1,\"req\":\"7\",\"cmd\":\"task.create\",\"task\":{\"service\":\"s\","
		"\"instance\":\"i-*\",\"endpoint\":\"*\",\"threshold\":\"0\",\"period\":\"1ms\","
		"\"duration\":\"0\",\"spans\":3,\"parallel\":9,\"end_by_count\":true,\"start_ms\":5}}");

	assert_int_equal(r.command, CONTROL_TASK_CREATE);
	assert_string_equal(r.req, "7");
	assert_string_equal(r.task.source, "control");
	assert_string_equal(r.task.instance, "i-*");
	assert_int_equal(r.task.period_ns, 1000000);
	assert_int_equal(r.task.duration_ns, 0);
	assert_int_equal(r.task.max_spans, 3);
	assert_int_equal(r.task.start_ms, 5);
	assert_true(r.task.end_by_count);
	assert_false(r.task.from_start);
}

static void test_others(void **state)
{
	struct control_request r = parse("{\"v\":1,\"cmd\":\"task.log\",\"id\":\"a\",\"limit\":5}");

	assert_int_equal(r.command, CONTROL_TASK_LOG);
	assert_string_equal(r.id, "a");
	assert_int_equal(r.limit, 5);
	r = parse("{\"v\":1,\"cmd\":\"span.list\",\"service\":\"s\",\"min_duration\":\"1s\"}");
	assert_int_equal(r.min_ns, 1000000000);
	assert_int_equal(r.limit, 100);
	assert_int_equal(parse("{\"v\":1,\"cmd\":\"top\"}").command, CONTROL_TOP);
}

static void test_refused(void **state)
{
	expect_error("", "not JSON");
	expect_error("{\"v\":1", "not JSON");
	expect_error("[]", "must be an object");
	expect_error("{}", "'v' must be 1");
	expect_error("{\"v\":2,\"cmd\":\"top\"}", "'v' must be 1");
	expect_error("{\"v\":1,\"v\":1,\"cmd\":\"top\"}", "duplicate");
	expect_error("{\"v\":1,\"cmd\":\"rm\"}", "'cmd' is 'rm', which is not known");
	expect_error("{\"v\":1,\"cmd\":\"top\",\"x\":1}", "unknown key 'x'; allowed here: none");
	expect_error("{\"v\":1,\"cmd\":\"task.show\"}", "'id' is missing");
	expect_error("{\"v\":1,\"cmd\":\"task.show\",\"id\":1}", "'id' must be a text");
	expect_error("{\"v\":1,\"cmd\":\"task.show\",\"id\":\"a\\u0000b\"}", "NUL");
	expect_error("{\"v\":1,\"cmd\":\"task.log\",\"id\":\"a\",\"limit\":1001}",
		     "from 0 to 1000");
	expect_error("{\"v\":1,\"cmd\":\"task.create\"}", "'task' is missing");
	expect_error("{\"v\":1,\"cmd\":\"task.create\",\"task\":{\"svc\":1}}",
		     "unknown key 'svc'; allowed here: id, service, instance");
	expect_error("{\"v\":1,\"cmd\":\"task.create\",\"task\":{\"service\":\"a\"}}",
		     "names no endpoint");
	expect_error(
		"{\"v\":1,\"cmd\":\"task.create\",\"task\":{\"service\":\"a\",\"endpoint\":\"b\","
		"\"period\":\"10us\"}}",
		"at least 1 ms");
	expect_error("{\"v\":1,\"cmd\":\"task.create\",\"task\":{\"period\":10}}",
		     "'period' must be a duration");
	expect_error("{\"v\":1,\"cmd\":\"task.create\",\"task\":{\"spans\":-1}}",
		     "'spans' must be");
	expect_error("{\"v\":1,\"cmd\":\"task.create\",\"task\":{\"from_start\":1}}",
		     "must be true or false");
}

static void test_oversized(void **state)
{
	static char line[CONTROL_LINE_MAX + 2];
	struct control_request r;
	struct errmsg e = {};
	char id[1024];

	memset(line, ' ', sizeof(line));
	assert_int_equal(parse_control_line(line, sizeof(line), &r, &e), -EINVAL);
	assert_non_null(strstr(e.text, "longer than"));
	memset(id, 'x', sizeof(id));
	snprintf(line, sizeof(line), "{\"v\":1,\"cmd\":\"task.show\",\"id\":\"%.500s\"}", id);
	expect_error(line, "'id' is longer than 255 bytes");
	memset(line, '[', CONTROL_LINE_MAX); /* deep nesting */
	assert_int_equal(parse_control_line(line, CONTROL_LINE_MAX, &r, &e), -EINVAL);
}

static void test_replies(void **state)
{
	char *s = control_reply("a\"b", "{\"x\":1}");

	assert_string_equal(s, "{\"v\":1,\"req\":\"a\\\"b\",\"ok\":true,\"result\":{\"x\":1}}\n");
	free(s);
	s = control_reply_error("", CONTROL_E_REFUSED, "no\nway");
	assert_string_equal(s, "{\"v\":1,\"req\":\"\",\"ok\":false,\"error\":{\"code\":\"refused\","
			       "\"message\":\"no\\nway\"}}\n");
	free(s);
	s = control_reply_error("", CONTROL_E_INVALID, "\xff");
	assert_non_null(strstr(s, "not UTF-8"));
	free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_create),  cmocka_unit_test(test_others),
		cmocka_unit_test(test_refused), cmocka_unit_test(test_oversized),
		cmocka_unit_test(test_replies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
