/* SPDX-License-Identifier: Apache-2.0 */
/*
 * skywalking_module.h: what the shared module with the SkyWalking part exports.
 */
#ifndef SPANPROF_NET_SKYWALKING_MODULE_H
#define SPANPROF_NET_SKYWALKING_MODULE_H

#include "net/skywalking.h"

struct skywalking_module {
	const char *version; /* SPANPROF_VERSION of its build */
	int (*make)(const struct backend_config *config, struct task_source **ret_source,
		    struct span_sink **ret_sink, struct errmsg *e);
};

#define SKYWALKING_MODULE_SYMBOL "spanprof_skywalking_module"

extern const struct skywalking_module spanprof_skywalking_module;

#endif
