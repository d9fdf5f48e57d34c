/* SPDX-License-Identifier: Apache-2.0 */
#include "net/skywalking_module.h"

const struct skywalking_module spanprof_skywalking_module = {
	.version = SPANPROF_VERSION,
	.make = skywalking_new,
};
