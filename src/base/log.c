/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

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
	char line[2048], shown[sizeof(line)];
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
	fprintf(stderr, "%s%.*s%s\n", prefixes[level], used, shown, text_printable(part));
}
