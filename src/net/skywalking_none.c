/* SPDX-License-Identifier: Apache-2.0 */
/* skywalking_none.c: takes skywalking.c's place in a build without gRPC. */
#include <errno.h>

#include "net/skywalking.h"

int skywalking_new(const struct backend_config *config, struct task_source **ret_source,
		   struct span_sink **ret_sink, struct errmsg *e)
{
	return errmsg_set(
		e, -ENOTSUP,
		"backend \"%s\": this spanprof was built without SkyWalking support (meson option skywalking; needs gRPC, protobuf-c and nanopb)",
		config->name);
}
