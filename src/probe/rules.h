/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.h: finds out what this kernel does with probes, by trying it on a small function of our own.
 */
#ifndef SPANPROF_PROBE_RULES_H
#define SPANPROF_PROBE_RULES_H

#include "probe/attach.h"
#include "probe/site.h"

/*
 * Probes a long nop in this very process and calls it once: whether the kernel emulated it shows in
 * whether it had to make the page of code in which it steps over instructions. On any trouble the
 * cautious answer is given: only what every kernel emulates.
 *
 * Links of Linux 6.6 to 6.9 see only one thread of a process: where that shows, the source is changed
 * to perf events. To be called before programs are loaded for it.
 */
void rules_measure(struct attach_source *source, struct site_rules *ret);

/* What probes cost, ns per call, the best of many: for doctor and probes. 0: could not be measured. */
struct rules_cost {
	uint64_t push_ns;
	uint64_t long_nop_ns;
	uint64_t stepped_ns;
};
void rules_measure_cost(const struct attach_source *source, struct rules_cost *ret);

#endif
