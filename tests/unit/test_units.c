/* SPDX-License-Identifier: Apache-2.0 */
/* test_units.c: numbers with units, as people type them. */
#include <errno.h>
#include <stdio.h>

#include "base/units.h"
#include "tests/unit/unit.h"

typedef int (*parse_fn)(const char *text, uint64_t *ret);

struct unit_case {
	const char *text;
	uint64_t want;
};

static const uint64_t UNTOUCHED = 4711;

static const struct unit_case durations[] = {
	{"0", 0},
	{"0.0", 0},
	{"0ns", 0},
	{"100ns", 100},
	{"10us", 10000},
	{"200ms", 200000000},
	{"1s", 1000000000},
	{"1.5s", 1500000000},
	{"1.1s", 1100000000},
	{"007ms", 7000000},
	{"2m", 120000000000},
	{"2min", 120000000000},
	{"0.5h", 1800000000000},
	{"7d", 604800000000000},
	{"3 ms", 3000000},
	{"3   ms", 3000000},
	/* What is below a nanosecond is cut off, and so is what follows the ninth digit. */
	{"1.9ns", 1},
	{"0.0000019ms", 1},
	{"0.123456789s", 123456789},
	{"0.1234567891234567891234567s", 123456789},
	{"9223372036854775807ns", INT64_MAX},
	{"9223372036s", 9223372036000000000},
	{"106751d", 9223286400000000000},
};

static const char *const bad_durations[] = {
	"",      "5",     "1.5",   "-1ms",       "+1ms",  " 1ms",   "1ms ",
	"1 m s", "ms",    ".5s",   "1.s",        "1..5s", "1.5.5s", "1,5s",
	"1e3ms", "0x1ms", "1MS",   "1Ms",        "1sec",  "1ms2ms", "1\tms",
	"one",   "inf",   "1ms\n", "\xd9\xa1ms", "0 5ms", "1k",     "1-ms",
};

static const char *const large_durations[] = {
	"9223372036854775808ns",
	"9223372037s",
	"106752d",
	"18446744073709551616ns",
	"99999999999999999999999999999999999999d",
};

static const struct unit_case sizes[] = {
	{"0", 0},
	{"4096", 4096},
	{"4096B", 4096},
	{"512K", 512 << 10},
	{"512KiB", 512 << 10},
	{"64M", 64 << 20},
	{"1.5MiB", 3 << 19},
	{"1G", 1 << 30},
	{"3 GiB", 3ULL << 30},
	{"0.0001K", 0},
	{"8589934591G", 8589934591ULL << 30},
};

static const char *const bad_sizes[] = {
	"", "-1", "+1", " 1", "K", "1k", "1KB", "1T", "1.K", "0x10", "1 K B", "1ms", "64MM",
};

static const char *const large_sizes[] = {"8589934592G", "9223372036854775808",
					  "1000000000000000000000"};

#define N(array) (sizeof(array) / sizeof((array)[0]))

static void assert_all(parse_fn parse, const struct unit_case *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t v = UNTOUCHED;
		int r = parse(cases[i].text, &v);

		if (r || v != cases[i].want)
			print_error("'%s': status %d, value %ju\n", cases[i].text, r, (uintmax_t)v);
		assert_int_equal(r, 0);
		assert_int_equal(v, cases[i].want);
	}
}

/* The result is left as it was. */
static void refuse_all(parse_fn parse, const char *const *texts, size_t n, int want)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t v = UNTOUCHED;
		int r = parse(texts[i], &v);

		if (r != want)
			print_error("'%s': status %d, value %ju\n", texts[i], r, (uintmax_t)v);
		assert_int_equal(r, want);
		assert_int_equal(v, UNTOUCHED);
	}
}

static void durations_have_units(void **state)
{
	assert_all(parse_duration, durations, N(durations));
	refuse_all(parse_duration, bad_durations, N(bad_durations), -EINVAL);
	refuse_all(parse_duration, large_durations, N(large_durations), -ERANGE);
}

static void sizes_are_powers_of_1024(void **state)
{
	assert_all(parse_size, sizes, N(sizes));
	refuse_all(parse_size, bad_sizes, N(bad_sizes), -EINVAL);
	refuse_all(parse_size, large_sizes, N(large_sizes), -ERANGE);
}

static int parse_any(const char *text, uint64_t *ret)
{
	return parse_u64(text, UINT64_MAX, ret);
}

static int parse_to_9(const char *text, uint64_t *ret)
{
	return parse_u64(text, 9, ret);
}

static void plain_numbers(void **state)
{
	static const struct unit_case good[] = {
		{"0", 0},
		{"00042", 42},
		{"4294967295", UINT32_MAX},
		{"18446744073709551609", UINT64_MAX - 6},
		{"18446744073709551610", UINT64_MAX - 5},
		{"18446744073709551615", UINT64_MAX},
	};
	static const char *const bad[] = {"",    "-1",  "+1",  " 1",     "1.0",
					  "0x1", "1e3", "1\n", "twelve", "1k"};
	static const char *const large[] = {"18446744073709551616", "18446744073709551620",
					    "184467440737095516150"};
	static const struct unit_case to_9[] = {{"0", 0}, {"9", 9}, {"0009", 9}};
	static const char *const above_9[] = {"10", "99999999999999999999"};

	assert_all(parse_any, good, N(good));
	refuse_all(parse_any, bad, N(bad), -EINVAL);
	refuse_all(parse_any, large, N(large), -ERANGE);
	assert_all(parse_to_9, to_9, N(to_9));
	refuse_all(parse_to_9, above_9, N(above_9), -ERANGE);
}

static void durations_for_reading(void **state)
{
	static const struct unit_case cases[] = {
		{"0 ns", 0},
		{"999 ns", 999},
		{"1.0 us", 1000},
		{"3.1 us", 3100},
		{"1.0 ms", 1000000},
		{"612.4 ms", 612412345},
		{"4200.0 ms", 4200000000},
		{"10.00 s", 10000000000},
		{"3600.00 s", 3600000000000},
		{"18446744073.71 s", UINT64_MAX},
	};
	char buf[32], small[5];

	for (size_t i = 0; i < N(cases); i++)
		assert_string_equal(format_duration(buf, sizeof(buf), cases[i].want),
				    cases[i].text);
	assert_string_equal(format_duration(small, sizeof(small), 612400000), "612.");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(durations_have_units),
		cmocka_unit_test(sizes_are_powers_of_1024),
		cmocka_unit_test(plain_numbers),
		cmocka_unit_test(durations_for_reading),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
