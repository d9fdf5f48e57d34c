/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

static enum log_level current_level = LOG_LEVEL_INFO;

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

void log_line(enum log_level level, const char *format, ...)
{
	char line[2048];
	va_list ap;
	int n;

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
		else if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = ' ';
	fprintf(stderr, "%s%s\n", prefixes[level], line);
}
