/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard.h: what the daemon gives up once it is set up, so that a mistake in it is worth less.
 */
#ifndef SPANPROF_APP_GUARD_H
#define SPANPROF_APP_GUARD_H

#include <stddef.h>

#include "base/errmsg.h"

/*
 * Keeps the capabilities that profiling needs (of those it has) and drops the others for good, from
 * the bounding set too; sets no_new_privs. ret_kept: their names, for the log.
 */
int guard_drop_capabilities(char *ret_kept, size_t n, struct errmsg *e);

#endif
