/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.h: finds out what this kernel emulates, by measuring it on a small function of our own.
 */
#ifndef SPANPROF_PROBE_RULES_H
#define SPANPROF_PROBE_RULES_H

#include "probe/attach.h"
#include "probe/site.h"

/*
 * Probes a push and a long nop in this very process, a few hundred calls each, and compares. On any
 * trouble the cautious answer is given: only what every kernel emulates. program_fd: any uprobe
 * program, which sees calls of a process that is no member; -1: one that does nothing.
 */
void rules_measure(const struct attach_source *source, int program_fd, struct site_rules *ret);

/* The figures behind it, ns per call: for doctor and probes. 0: could not be measured. */
struct rules_cost {
	uint64_t push_ns;
	uint64_t long_nop_ns;
	uint64_t stepped_ns;
};
void rules_measure_cost(const struct attach_source *source, int program_fd, struct rules_cost *ret);

#endif
