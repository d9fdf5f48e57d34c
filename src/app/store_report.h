/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_report.h: spans of an agent's store as a profile, for `report --store`.
 */
#ifndef SPANPROF_APP_STORE_REPORT_H
#define SPANPROF_APP_STORE_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/errmsg.h"
#include "model/profile.h"

struct store_report {
	const char *store;  /* path */
	uint64_t spans[64]; /* serials; n_spans 0: those of task and service, or all */
	size_t n_spans;
	const char *task_id; /* NULL: any */
	const char *service; /* NULL: any */
};

enum { STORE_REPORT_SPANS_MAX = 1000 }; /* without --span: the newest ones */

/* 0 or a negative errno with the message. The profile is the caller's. */
int store_report_load(const struct store_report *o, struct profile **ret, struct errmsg *e);

#endif
