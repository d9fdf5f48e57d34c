/* SPDX-License-Identifier: Apache-2.0 */
/*
 * skywalking.h: a SkyWalking backend (OAP, or a server that speaks like it) as a source of tasks and a
 * sink of spans. Both share one connection for all instances; either may be freed first.
 */
#ifndef SPANPROF_NET_SKYWALKING_H
#define SPANPROF_NET_SKYWALKING_H

#include "base/errmsg.h"
#include "task/backend.h"
#include "task/sink.h"
#include "task/source.h"

/*
 * Makes both, or neither. config is used only during the call. -ENOTSUP when spanprof was built
 * without gRPC. The source's fd and deadline serve the sink, too: a daemon must run the source.
 */
int skywalking_new(const struct backend_config *config, struct task_source **ret_source,
		   struct span_sink **ret_sink, struct errmsg *e);

#endif
