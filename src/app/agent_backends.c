/* SPDX-License-Identifier: Apache-2.0 */
#include "app/agent_backends.h"

#include <errno.h>
#include <string.h>

#include "net/skywalking.h"

int agent_backend_new(const struct backend_config *config, struct task_source **ret_source,
		      struct span_sink **ret_sink, struct errmsg *e)
{
	if (!strcmp(config->kind, "skywalking"))
		return skywalking_new(config, ret_source, ret_sink, e);
	return errmsg_set(e, -EINVAL, "backend '%s' is of kind '%s', which is not known",
			  config->name, config->kind);
}
