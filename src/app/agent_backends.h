/* SPDX-License-Identifier: Apache-2.0 */
/* agent_backends.h: which object stands for which kind of backend. */
#ifndef SPANPROF_APP_AGENT_BACKENDS_H
#define SPANPROF_APP_AGENT_BACKENDS_H

#include "base/errmsg.h"
#include "task/backend.h"
#include "task/sink.h"
#include "task/source.h"

/* Makes the source and the sink of a backend, or neither. */
int agent_backend_new(const struct backend_config *config, struct task_source **ret_source,
		      struct span_sink **ret_sink, struct errmsg *e);

#endif
