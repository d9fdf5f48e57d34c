/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profiler_priv.h: what the parts of the profiler share: profiler.c, the engine and its figures;
 * profiler_sync.c, what is attached and sampled.
 */
#ifndef SPANPROF_APP_PROFILER_PRIV_H
#define SPANPROF_APP_PROFILER_PRIV_H

#include "app/costly.h"
#include "app/profiler.h"
#include "app/targets.h"
#include "base/vec.h"

struct open_gate {
	uint32_t target; /* index */
	struct wire_gate gate;
	uint64_t tasks; /* that it was opened for: see gate_plan */
	bool is_shared; /* it has served others, too: max_spans is no longer left to BPF */
	bool wanted;
};

/* An instance with a running task. */
struct active {
	uint32_t instance_id;
	VEC(pid_t) pids; /* attached */
	VEC(struct open_gate) gates;
	bool wanted;
	bool told; /* that it cannot be attached */
};

struct profiler {
	struct profiler_options options;
	struct engine *engine; /* NULL: could not be made anew */
	const struct rules *rules;
	struct target_list targets;
	VEC(struct active) active;
	struct profiler_stats stats;
	uint64_t last_ns; /* of the last dispatch */
	uint64_t renewed_ns;
	size_t n_locations; /* of the profile, at the last look */
	uint64_t rest_at;   /* unless there are more until then; 0: they rest already */
	uint64_t rest_ns;
	bool is_measured; /* how this kernel probes: that takes a child, which is refused later on */
	struct attach_source source;
	struct site_rules site_rules;
	struct trapcost cost; /* all zero: not known */
	struct costly costly;
};

/* What an endpoint is called: after the function that it turned out to be, when it is known. */
struct gate_endpoint profiler_names(const struct profiler *p, const struct target *t);

/* profiler_sync.c: hands out what is open of an active instance, detaches it, and drops it from `active`. */
void profiler_deactivate(struct profiler *p, size_t idx, uint64_t now_ns);

#endif
