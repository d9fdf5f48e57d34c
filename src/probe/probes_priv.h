/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probes_priv.h: what the parts of the probes share: probes.c, which processes are probed and what changes
 * for them; probes_attach.c, from plans to attached probes.
 */
#ifndef SPANPROF_PROBE_PROBES_PRIV_H
#define SPANPROF_PROBE_PROBES_PRIV_H

#include "base/vec.h"
#include "probe/ahead.h"
#include "probe/binary.h"
#include "probe/plan.h"
#include "probe/probes.h"
#include "probe/retsites.h"
#include "probe/spot.h"
#include "probe/warnings.h"

struct slot {
	struct endpoint *ep; /* owned */
	bool has_wire;       /* the map's entry is written: programs are fixed from then on */
	bool returns_tried;  /* its own returns were to be probed for want of return sites */
	bool nameless;       /* no alternative of its name fits a build that was met */
	struct wire_endpoint wire;
};

struct process {
	pid_t pid;
	uint32_t as_id;
	bool forks;
};

struct probes {
	struct probe_programs programs;
	struct probes_options options;
	char *debug_dirs;          /* owned, may be NULL */
	uint64_t next_look_ns;     /* at what has changed */
	bool shedding;             /* links of single processes are left over from probes_widen */
	bool is_draining;          /* entries rest */
	bool rests;                /* and all others, too */
	struct binaries *binaries; /* owned */
	struct retsites *retsites; /* owned */
	VEC(struct slot) slots;
	VEC(struct spot *) spots; /* entry, end and uretprobe spots; owned */
	VEC(struct process) processes;
	struct warnings warnings;
};

/* Endpoints are given as bits. */
static inline bool probes_among(uint64_t endpoints, size_t ep_id)
{
	return endpoints & 1ULL << (ep_id % WIRE_EP_MAX);
}

/* With what probes of this kind are attached now; NULL: they rest. */
static inline const struct attach_source *probes_source(const struct probes *p,
							enum wire_probe_kind kind)
{
	return p->rests || (p->is_draining && kind == WIRE_P_ENTER) ? NULL : &p->options.source;
}

/* These endpoints in one process. The first message is kept when nothing could be attached. */
int probes_attach(struct probes *p, const struct resolve_input *in,
		  const struct retsites_scope *scope, uint64_t endpoints, struct errmsg *e);

/*
 * Some call of this endpoint cannot be seen to return where it was called from: from now on its own
 * returns are looked at, if they can be had.
 */
void probes_use_rets(struct probes *p, uint32_t ep_id);

#endif
