/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multi.h: uprobes as BPF links of their own (uprobe_multi, Linux 6.6), for want of perf-event ones.
 *
 * Some kernels (6.18 among them) let only CAP_SYS_ADMIN make perf-event uprobes, but give these links to
 * whoever may load the programs. A program is loaded for one of the two kinds.
 */
#ifndef SPANPROF_PROBE_MULTI_H
#define SPANPROF_PROBE_MULTI_H

#include <stdbool.h>

#include "probe/attach.h"

/* enum bpf_attach_type BPF_TRACE_UPROBE_MULTI: newer than some kernel headers. */
enum { MULTI_ATTACH_TYPE = 48 };

/* This thread may not make perf-event uprobes, and the kernel has the links. */
bool multi_is_needed(void);

/* It may make uprobes of either kind. */
bool multi_is_any_allowed(void);

/* As probe_attach; the negative errno of the kernel. The program was loaded for MULTI_ATTACH_TYPE. */
int multi_attach(const struct attach_point *at, int *ret_link_fd);

#endif
