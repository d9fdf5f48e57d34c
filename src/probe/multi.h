/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multi.h: uprobes as BPF links of their own (uprobe_multi, Linux 6.6), each of one or many places.
 *
 * They are attached and detached many times faster than perf events, and some kernels (6.18 among
 * them) let only CAP_SYS_ADMIN make the latter. A program is loaded for one of the two kinds.
 */
#ifndef SPANPROF_PROBE_MULTI_H
#define SPANPROF_PROBE_MULTI_H

#include <stdbool.h>

#include "probe/attach.h"

/* enum bpf_attach_type BPF_TRACE_UPROBE_MULTI: newer than some kernel headers. */
enum { MULTI_ATTACH_TYPE = 48 };

/* The kernel has them, and lets this thread make them. */
bool multi_is_there(void);

/* This thread may make uprobes of either kind. */
bool multi_is_any_allowed(void);

/* As probe_attach: a descriptor, or the negative errno of the kernel. */
int multi_attach(const struct attach_point *at);
int multi_attach_batch(const struct attach_batch *batch);

#endif
