/* SPDX-License-Identifier: Apache-2.0 */
/* test_options.c: what is said of options that are none. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "app/options.h"
#include "tests/unit/unit.h"

static const struct option longs[] = {
	{"pid", required_argument, NULL, 'p'},
	{"max-samples", required_argument, NULL, 256},
	{"max-parallel", required_argument, NULL, 257},
	{"no-kernel", no_argument, NULL, 258},
	{"quiet", no_argument, NULL, 'q'},
	{},
};

/* The first option of "run WORD [WORD]", and what was printed on standard error. */
struct result {
	int option;
	char value[128];
	char text[1024];
};

static struct result take(const char *word, const char *next)
{
	char run[] = "run", a[128], b[128];
	char *words[] = {run, a, next ? b : NULL, NULL};
	int fd = memfd_create("stderr", MFD_CLOEXEC);
	int own = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	struct result r = {};

	snprintf(a, sizeof(a), "%s", word);
	snprintf(b, sizeof(b), "%s", next ? next : "");
	assert_true(fd >= 0 && own >= 0);
	assert_true(dup2(fd, STDERR_FILENO) >= 0);
	optind = 0;
	optarg = NULL;
	r.option = next_option(next ? 3 : 2, words, "+:p:q", longs);
	snprintf(r.value, sizeof(r.value), "%s", optarg ? optarg : "");
	fflush(stderr);
	assert_true(dup2(own, STDERR_FILENO) >= 0);
	assert_true(pread(fd, r.text, sizeof(r.text) - 1, 0) >= 0);
	close(own);
	close(fd);
	return r;
}

static void mistake(const char *word, const char *want)
{
	struct result r = take(word, NULL);
	char line[1024];

	snprintf(line, sizeof(line), "spanprof: error: run: %s see 'spanprof run --help'\n", want);
	assert_int_equal(r.option, '?');
	assert_string_equal(r.text, line);
}

static void good_ones_say_nothing(void **state)
{
	struct result r = take("--max-samples", "7");

	assert_int_equal(r.option, 256);
	assert_string_equal(r.text, "");
	assert_string_equal(r.value, "7");
	assert_int_equal(take("--max-p=8", NULL).option, 257);
	assert_int_equal(take("-q", NULL).option, 'q');
	assert_int_equal(take("--no", NULL).option, 258);
	/* Nothing after what is no option is taken. */
	assert_int_equal(take("word", "-q").option, -1);
	assert_int_equal(take("--", "-q").option, -1);
}

static void values_that_are_missing_or_too_much(void **state)
{
	mistake("--pid", "--pid needs a value;");
	mistake("-p", "--pid needs a value;");
	mistake("--max-samples", "--max-samples needs a value;");
	mistake("--no-kernel=yes", "--no-kernel takes no value;");
	mistake("--quiet=", "--quiet takes no value;");
}

static void unknown_ones_name_the_nearest(void **state)
{
	mistake("-z", "there is no option '-z';");
	mistake("--max", "there is no option '--max'; did you mean --max-samples, --max-parallel?");
	mistake("--quite", "there is no option '--quite'; did you mean --quiet?");
	mistake("--no-kernal=1", "there is no option '--no-kernal'; did you mean --no-kernel?");
	mistake("--zzzzzzzzzzzz", "there is no option '--zzzzzzzzzzzz';");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_ones_say_nothing),
		cmocka_unit_test(values_that_are_missing_or_too_much),
		cmocka_unit_test(unknown_ones_name_the_nearest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
