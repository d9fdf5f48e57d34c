/* SPDX-License-Identifier: Apache-2.0 */
/*
 * errmsg.h: the one message that a failed operation hands up to app/.
 *
 * Functions that can fail for a reason worth explaining take a struct errmsg and fill it in with
 * what was being done, to which object, why, and what the user can do, next to the negative errno
 * they return. NULL is accepted everywhere and means that nobody wants the text.
 */
#ifndef SPANPROF_BASE_ERRMSG_H
#define SPANPROF_BASE_ERRMSG_H

struct errmsg {
	char text[768];
};

/* Stores the formatted text and returns `error` unchanged, so that "return errmsg_set(...)" works. */
int errmsg_set(struct errmsg *e, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
