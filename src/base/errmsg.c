/* SPDX-License-Identifier: Apache-2.0 */
#include "base/errmsg.h"

#include <stdarg.h>
#include <stdio.h>

int errmsg_set(struct errmsg *e, int error, const char *format, ...)
{
	va_list ap;

	if (!e)
		return error;
	va_start(ap, format);
	vsnprintf(e->text, sizeof(e->text), format, ap);
	va_end(ap);
	return error;
}
