/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"

enum { LOG_TIME_BYTES = 48 };

static enum log_level current_level = LOG_LEVEL_INFO;
static bool with_time;

static const char *const prefixes[] = {
	[LOG_LEVEL_ERROR] = "spanprof: error: ",
	[LOG_LEVEL_WARNING] = "spanprof: warning: ",
	[LOG_LEVEL_INFO] = "spanprof: ",
	[LOG_LEVEL_DEBUG] = "spanprof: debug: ",
};

void log_set_level(enum log_level level)
{
	current_level = level;
}

/* JOURNAL_STREAM: the device and inode of the journal's socket, if standard error still is that. */
static bool is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	char here[64];
	struct stat st;

	if (!stream || fstat(STDERR_FILENO, &st))
		return false;
	snprintf(here, sizeof(here), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	return !strcmp(stream, here);
}

void log_add_time(void)
{
	with_time = !is_journal();
}

static const char *time_now(char buf[static LOG_TIME_BYTES])
{
	struct timespec now;
	struct tm tm;
	size_t n;

	buf[0] = '\0';
	if (!with_time || clock_gettime(CLOCK_REALTIME, &now) || !gmtime_r(&now.tv_sec, &tm))
		return buf;
	n = strftime(buf, LOG_TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(buf + n, LOG_TIME_BYTES - n, ".%03ldZ ", now.tv_nsec / 1000000);
	return buf;
}

void log_line(enum log_level level, const char *format, ...)
{
	char line[2048], shown[sizeof(line)], when[LOG_TIME_BYTES];
	char *part = line, *end;
	int n, used = 0;
	va_list ap;

	if (level > current_level)
		return;
	va_start(ap, format);
	n = vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	if (n < 0)
		return;
	/*
	 * Text from a target may be in here: control characters must not reach a terminal. A line that
	 * goes on indented (the mark under a bad expression) cannot be taken for another message.
	 */
	for (char *p = line; *p; p++)
		if (*p == '\n' && p[1] == ' ' && p[2] == ' ')
			continue;
		else if ((unsigned char)*p < 0x20)
			*p = ' ';
	/* In one piece, so that the lines of several programs do not mix. */
	while ((end = strchr(part, '\n'))) {
		*end = '\0';
		used += snprintf(shown + used, sizeof(shown) - (size_t)used, "%s\n",
				 text_printable(part));
		part = end + 1;
	}
	fprintf(stderr, "%s%s%.*s%s\n", time_now(when), prefixes[level], used, shown,
		text_printable(part));
}
