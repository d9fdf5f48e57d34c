/* SPDX-License-Identifier: Apache-2.0 */
#include <skywalking/command.pb-c.h>
#include <stdlib.h>
#include <string.h>

#include "net/commands.h"
#include "tests/unit/unit.h"

struct text_pair {
	const char *key;
	const char *value;
};

/* Appends one command to a Commands message: concatenated messages are one. */
static void add_command(uint8_t *buf, size_t *n, const char *name, const struct text_pair *args)
{
	Skywalking__V3__KeyStringValuePair pairs[16], *list[16];
	Skywalking__V3__Command c = SKYWALKING__V3__COMMAND__INIT, *commands[] = {&c};
	Skywalking__V3__Commands m = SKYWALKING__V3__COMMANDS__INIT;

	for (; args[c.n_args].key; c.n_args++) {
		skywalking__v3__key_string_value_pair__init(&pairs[c.n_args]);
		pairs[c.n_args].key = (char *)args[c.n_args].key;
		pairs[c.n_args].value = (char *)args[c.n_args].value;
		list[c.n_args] = &pairs[c.n_args];
	}
	c.command = (char *)name;
	c.args = list;
	m.commands = commands;
	m.n_commands = 1;
	*n += skywalking__v3__commands__pack(&m, buf + *n);
}

static int decode_one(const struct text_pair *args, struct commands *ret)
{
	uint8_t buf[4096];
	size_t n = 0;

	add_command(buf, &n, "ProfileTaskQuery", args);
	return decode_commands(buf, n, ret);
}

static void test_whole_task(void **state)
{
	static const struct text_pair args[] = {
		{"SerialNumber", "6f1d3f0a-0000-4000-8000-000000000001"},
		{"TaskId", "1638342771580_ZGVmYXVsdA==.1"},
		{"EndpointName", "/api/users"},
		{"Duration", "5"},
		{"MinDurationThreshold", "100"},
		{"DumpPeriod", "10"},
		{"MaxSamplingCount", "3"},
		{"StartTime", "1638342771581"},
		{"CreateTime", "1638342771580"},
		{"InstanceName", "web-*"},
		{"FromTheFuture", "x"},
		{},
	};
	struct commands c;
	const struct task_raw *raw;

	assert_int_equal(decode_one(args, &c), COMMANDS_OK);
	assert_int_equal(c.tasks.n, 1);
	assert_null(c.tasks.at[0].why);
	raw = &c.tasks.at[0].raw;
	assert_string_equal(raw->id, "1638342771580_ZGVmYXVsdA==.1");
	assert_string_equal(raw->endpoint, "/api/users");
	assert_string_equal(raw->instance, "web-*");
	assert_int_equal(raw->duration_min, 5);
	assert_int_equal(raw->threshold_ms, 100);
	assert_int_equal(raw->period_ms, 10);
	assert_int_equal(raw->max_count, 3);
	assert_int_equal(raw->start_ms, 1638342771581);
	assert_int_equal(raw->create_ms, 1638342771580);
	commands_deinit(&c);
}

static void test_missing_arguments_are_zero(void **state)
{
	static const struct text_pair args[] = {{"TaskId", "t"}, {}};
	struct commands c;

	assert_int_equal(decode_one(args, &c), COMMANDS_OK);
	assert_null(c.tasks.at[0].why);
	assert_null(c.tasks.at[0].raw.endpoint);
	assert_null(c.tasks.at[0].raw.instance);
	assert_int_equal(c.tasks.at[0].raw.create_ms, 0);
	commands_deinit(&c);
}

static void assert_refused(const char *key, const char *value, const char *why)
{
	const struct text_pair args[] = {{"TaskId", "t"}, {key, value}, {"CreateTime", "77"}, {}};
	struct commands c;

	assert_int_equal(decode_one(args, &c), COMMANDS_OK);
	assert_non_null(c.tasks.at[0].why);
	assert_string_equal(c.tasks.at[0].why, why);
	assert_int_equal(c.tasks.at[0].raw.create_ms, 77);
	commands_deinit(&c);
}

static void test_garbage_numbers(void **state)
{
	assert_refused("Duration", "five", "Duration is \"five\", not a number of 32 bits");
	assert_refused("Duration", "", "Duration is \"\", not a number of 32 bits");
	assert_refused("Duration", "5 ", "Duration is \"5 \", not a number of 32 bits");
	assert_refused("Duration", " 5", "Duration is \" 5\", not a number of 32 bits");
	assert_refused("DumpPeriod", "1e3", "DumpPeriod is \"1e3\", not a number of 32 bits");
	assert_refused("DumpPeriod", "0x10", "DumpPeriod is \"0x10\", not a number of 32 bits");
	assert_refused("DumpPeriod", "2147483648",
		       "DumpPeriod is \"2147483648\", not a number of 32 bits");
	assert_refused("StartTime", "9223372036854775808",
		       "StartTime is \"9223372036854775808\", not a number of 64 bits");
	assert_refused("MaxSamplingCount", "\x01\xff",
		       "MaxSamplingCount is \"??\", not a number of 32 bits");
}

static void test_garbage_texts(void **state)
{
	assert_refused("EndpointName", "a\nb",
		       "EndpointName holds bytes that are not printable UTF-8");
	assert_refused("EndpointName", "\xff",
		       "EndpointName holds bytes that are not printable UTF-8");
	assert_refused("TaskId", "other", "TaskId is given twice with different values");
}

static void assert_create_unknown(const char *one, const char *two)
{
	const struct text_pair args[] = {
		{"TaskId", "t"}, {"CreateTime", one}, {"CreateTime", two}, {}};
	struct commands c;

	assert_int_equal(decode_one(args, &c), COMMANDS_OK);
	assert_non_null(c.tasks.at[0].why);
	assert_int_equal(c.tasks.at[0].raw.create_ms, -1);
	commands_deinit(&c);
}

static void test_create_time_that_is_no_number(void **state)
{
	assert_create_unknown("soon", "soon");
	assert_create_unknown("77", "78");
	assert_create_unknown("99999999999999999999", "1");
}

static void test_numbers_as_java_reads_them(void **state)
{
	static const struct text_pair args[] = {{"TaskId", "t"},       {"Duration", "+5"},
						{"Duration", "5"},     {"StartTime", "-1"},
						{"CreateTime", "007"}, {}};
	struct commands c;

	assert_int_equal(decode_one(args, &c), COMMANDS_OK);
	assert_null(c.tasks.at[0].why);
	assert_int_equal(c.tasks.at[0].raw.duration_min, 5);
	assert_int_equal(c.tasks.at[0].raw.start_ms, -1);
	assert_int_equal(c.tasks.at[0].raw.create_ms, 7);
	commands_deinit(&c);
}

static void test_no_task_id(void **state)
{
	static const struct text_pair args[] = {{"Duration", "5"}, {}};
	struct commands c;

	assert_int_equal(decode_one(args, &c), COMMANDS_OK);
	assert_string_equal(c.tasks.at[0].why, "TaskId is missing");
	commands_deinit(&c);
}

static void test_order_and_other_commands(void **state)
{
	static const struct text_pair late[] = {{"TaskId", "late"}, {"CreateTime", "20"}, {}};
	static const struct text_pair early[] = {{"TaskId", "early"}, {"CreateTime", "10"}, {}};
	uint8_t buf[4096];
	struct commands c;
	size_t n = 0;

	add_command(buf, &n, "ProfileTaskQuery", late);
	add_command(buf, &n, "EBPFProfilingTaskQuery", early);
	add_command(buf, &n, "ProfileTaskQuery", early);
	assert_int_equal(decode_commands(buf, n, &c), COMMANDS_OK);
	assert_int_equal(c.n_other, 1);
	assert_int_equal(c.tasks.n, 2);
	assert_string_equal(c.tasks.at[0].raw.id, "early");
	assert_string_equal(c.tasks.at[1].raw.id, "late");
	commands_deinit(&c);
}

static void test_empty_answer(void **state)
{
	struct commands c;

	assert_int_equal(decode_commands(NULL, 0, &c), COMMANDS_OK);
	assert_int_equal(c.tasks.n, 0);
	commands_deinit(&c);
}

static void test_not_a_message(void **state)
{
	struct commands c;

	assert_int_equal(decode_commands("\x0a\x7f", 2, &c), COMMANDS_E_FORM);
	assert_int_equal(decode_commands("<html>", 6, &c), COMMANDS_E_FORM);
}

/* The smallest commands that there are: each costs a server 2 bytes and us a struct. */
static void test_memory_is_bounded(void **state)
{
	size_t n = COMMANDS_BYTES_MAX;
	uint8_t *buf = calloc(1, n + 1);
	struct commands c;
	int r;

	assert_non_null(buf);
	for (size_t i = 0; i < n; i += 2)
		buf[i] = 0x0a;
	assert_int_equal(decode_commands(buf, n + 1, &c), COMMANDS_E_LIMIT);
	r = decode_commands(buf, n, &c);
	assert_int_equal(r, COMMANDS_E_LIMIT);
	free(buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole_task),
		cmocka_unit_test(test_missing_arguments_are_zero),
		cmocka_unit_test(test_garbage_numbers),
		cmocka_unit_test(test_garbage_texts),
		cmocka_unit_test(test_create_time_that_is_no_number),
		cmocka_unit_test(test_numbers_as_java_reads_them),
		cmocka_unit_test(test_no_task_id),
		cmocka_unit_test(test_order_and_other_commands),
		cmocka_unit_test(test_empty_answer),
		cmocka_unit_test(test_not_a_message),
		cmocka_unit_test(test_memory_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
