/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h: messages for people, on stderr, one line each. Only app/ and the daemon print; layers below
 * return errors. The level, and whether lines have a time, are the program's only mutable globals.
 */
#ifndef SPANPROF_BASE_LOG_H
#define SPANPROF_BASE_LOG_H

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_set_level(enum log_level level);
/* From now on lines begin with the time of day (UTC), unless standard error is the journal, which adds one. */
void log_add_time(void);

void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...)   log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)    log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)   log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
