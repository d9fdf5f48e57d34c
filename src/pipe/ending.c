/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/ending.h"

struct ending ending_of(const struct wire_end *end)
{
	return (struct ending){
		.end_ns = end->h.mono_ns,
		.total = end->wall,
		.reason = end->reason,
		.n_due = end->n_due,
		.name = end->name,
		.name_bytes = end->name_bytes,
	};
}

struct ending ending_unfinished(const struct open_span *s, uint64_t now_ns, uint16_t reason)
{
	const struct wire_promoted *b = &s->begin;
	struct ending e = {.end_ns = now_ns, .reason = reason};
	struct wire_wall last = b->promoted;
	uint64_t known_ns, rest_ns;

	if (e.end_ns < s->last_ns)
		e.end_ns = s->last_ns;
	if (s->obs.n) {
		const struct observation *o = &s->obs.at[s->obs.n - 1];

		last = o->wall;
		e.n_due = o->seq + 1;
	}
	e.total.oncpu_ns = last.oncpu_ns - b->start.oncpu_ns;
	e.total.runq_ns = last.runq_ns - b->start.runq_ns;
	e.total.blocked_ns = last.blocked_ns - b->start.blocked_ns;
	known_ns = e.total.oncpu_ns + e.total.runq_ns + e.total.blocked_ns;
	rest_ns = e.end_ns - b->start_ns > known_ns ? e.end_ns - b->start_ns - known_ns : 0;
	if (!s->obs.n || s->obs.at[s->obs.n - 1].kind != WIRE_SNAP_STUCK)
		e.total.oncpu_ns += rest_ns;
	else if (s->obs.at[s->obs.n - 1].flags & WIRE_SNAP_F_PREEMPTED)
		e.total.runq_ns += rest_ns;
	else
		e.total.blocked_ns += rest_ns;
	return e;
}
