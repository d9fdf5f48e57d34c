/* SPDX-License-Identifier: Apache-2.0 */
/*
 * absent.h: endpoints that none of the processes has. Of one that the user named the report says so;
 * a preset has variants for several builds of its server, of which those are left out.
 */
#ifndef SPANPROF_APP_ABSENT_H
#define SPANPROF_APP_ABSENT_H

#include "app/specs.h"
#include "bpf/wire.h"
#include "pipe/engine.h"

/* Of endpoints 0 to n - 1: those that have been probed nowhere so far. */
void absent_find(struct engine *e, size_t n, bool ret[WIRE_EP_MAX]);
/* At the end, when the profile has the numbers of calls. */
void absent_mark(struct engine *e, const struct specs *specs, struct profile *p);

#endif
