/* SPDX-License-Identifier: Apache-2.0 */
/* test_log.c: messages on standard error, read back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/unit/caught.h"

static void levels(void **state)
{
	struct caught c;

	catch_begin(&c, stderr);
	log_debug("not said");
	log_info("%s %d", "info", 1);
	log_set_level(LOG_LEVEL_ERROR);
	log_warning("not said");
	log_error("bad");
	log_set_level(LOG_LEVEL_DEBUG);
	log_warning("odd");
	log_debug("detail");
	log_set_level(LOG_LEVEL_INFO);
	assert_string_equal(catch_end(&c), "spanprof: info 1\n"
					   "spanprof: error: bad\n"
					   "spanprof: warning: odd\n"
					   "spanprof: debug: detail\n");
}

/* Text of a target neither steers the terminal nor begins a line of its own. */
static void hostile_text(void **state)
{
	struct caught c;

	catch_begin(&c, stderr);
	log_info("a\033[2Jb\rc\x7f \xff \xe2\x80\xae");
	log_info("name\nspanprof: error: a lie");
	log_info("bad\n  arg1 +\n    ^");
	assert_string_equal(catch_end(&c), "spanprof: a [2Jb c? ? ?\n"
					   "spanprof: name spanprof: error: a lie\n"
					   "spanprof: bad\n  arg1 +\n    ^\n");
}

static void long_text_is_cut(void **state)
{
	char text[5000];
	struct caught c;
	const char *got;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	catch_begin(&c, stderr);
	log_info("%s", text);
	log_info("next");
	got = catch_end(&c);
	assert_in_range(strcspn(got, "\n"), 1000, 2100);
	assert_string_equal(strchr(got, '\n'), "\nspanprof: next\n");
}

/* "2026-01-31T12:34:56.789Z " before the message. */
static void assert_time(const char *text)
{
	static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ ";

	for (size_t i = 0; form[i]; i++)
		if (form[i] == 'd')
			assert_in_range(text[i], '0', '9');
		else
			assert_int_equal(text[i], form[i]);
	assert_string_equal(text + strlen(form), "spanprof: said\n");
}

static void time_unless_the_journal_adds_one(void **state)
{
	struct caught c;
	struct stat st;
	char stream[64];

	catch_begin(&c, stderr);
	assert_int_equal(fstat(STDERR_FILENO, &st), 0);
	snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	assert_int_equal(setenv("JOURNAL_STREAM", stream, 1), 0);
	log_add_time();
	log_info("said");
	assert_string_equal(catch_end(&c), "spanprof: said\n");

	/* Inherited from a service, but standard error is something else now. */
	assert_int_equal(setenv("JOURNAL_STREAM", "1:1", 1), 0);
	log_add_time();
	catch_begin(&c, stderr);
	log_info("said");
	assert_time(catch_end(&c));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(levels),
		cmocka_unit_test(hostile_text),
		cmocka_unit_test(long_text_is_cut),
		cmocka_unit_test(time_unless_the_journal_adds_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
