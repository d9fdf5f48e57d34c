/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/capture_check.h"

#include <errno.h>
#include <inttypes.h>

#include "model/decode.h"
#include "pipe/turns.h"

#define LATE_NS 60000000000ULL /* after the end of the run, while its last records are read */

void capture_check_add(struct capture_check *c, const void *record, size_t bytes)
{
	struct event ev;

	if (decode_record(record, bytes, &ev) != DECODE_OK)
		return;
	if (c->last_ns < ev.h->mono_ns)
		c->last_ns = ev.h->mono_ns;
	if (ev.h->kind == WIRE_K_PROMOTED && ev.promoted->ep_id < WIRE_EP_MAX)
		c->of[ev.promoted->ep_id].n_begun++;
	if (ev.h->kind != WIRE_K_END || ev.end->ep_id >= WIRE_EP_MAX)
		return;
	if (ev.end->reason == WIRE_END_RETURN || ev.end->reason == WIRE_END_END_PROBE)
		c->of[ev.end->ep_id].n_ended++;
	c->n_lost += ev.end->n_lost;
}

enum { CPUS_MAX = 8192 }; /* of Linux */

/* a <= b, but for calls that came and went while the figures were read. */
static bool is_within(uint64_t a, uint64_t b)
{
	uint64_t slack = 16 + b / 64;

	return a <= b || a - b <= slack;
}

static int contradiction(struct errmsg *e, uint32_t ep_id, uint64_t a, const char *what, uint64_t b,
			 const char *beside)
{
	return errmsg_set(e, -EBADMSG,
			  "endpoint %" PRIu32 " has %" PRIu64 " %s beside %" PRIu64 " %s", ep_id, a,
			  what, b, beside);
}

int capture_check_latency(const struct capture_check *c, uint32_t ep_id, const struct latency *l,
			  struct errmsg *e)
{
	uint64_t n_bucket = 0, n_over;

	for (unsigned int i = 0; i < WIRE_HIST_BUCKETS; i++)
		if (__builtin_add_overflow(n_bucket, l->bucket[i], &n_bucket))
			n_bucket = UINT64_MAX;
	if (n_bucket != l->n_leave)
		return contradiction(e, ep_id, l->n_leave, "ends of calls", n_bucket,
				     "in its histogram");
	if (__builtin_add_overflow(l->n_leave, l->n_unknown, &n_over))
		n_over = UINT64_MAX;
	if (!is_within(n_over, l->n_enter))
		return contradiction(e, ep_id, n_over, "ends of calls", l->n_enter, "calls");
	if (!is_within(l->n_slow, l->n_leave))
		return contradiction(e, ep_id, l->n_slow, "slow calls", l->n_leave,
				     "ends of calls");
	if (!is_within(l->n_unwound, l->n_unknown))
		return contradiction(e, ep_id, l->n_unwound, "calls left by exceptions",
				     l->n_unknown, "that did not return");
	if (!is_within(c->of[ep_id].n_begun, l->n_enter))
		return contradiction(e, ep_id, c->of[ep_id].n_begun, "profiled calls", l->n_enter,
				     "calls");
	if (!is_within(c->of[ep_id].n_ended, l->n_leave))
		return contradiction(e, ep_id, c->of[ep_id].n_ended, "ends of profiled calls",
				     l->n_leave, "ends of calls");
	return 0;
}

int capture_check_totals(const struct capture_check *c, uint64_t end_ns, const struct counters *t,
			 struct errmsg *e)
{
	uint64_t n_lost = t->v[WIRE_C_RING_FULL_SNAPSHOT], n_told;

	/* One that is lost may be one of several spans. */
	if (__builtin_mul_overflow(n_lost, WIRE_NAMED_MAX, &n_told))
		n_told = UINT64_MAX;
	if (c->n_lost > n_told)
		return errmsg_set(e, -EBADMSG,
				  "%" PRIu64 " snapshots were lost beside %" PRIu64
				  " in the counter %s",
				  c->n_lost, n_lost, counter_name(WIRE_C_RING_FULL_SNAPSHOT));
	if (c->last_ns > end_ns && c->last_ns - end_ns > LATE_NS)
		return errmsg_set(e, -EBADMSG,
				  "records came %" PRIu64 " s after the end of the run",
				  (c->last_ns - end_ns) / 1000000000);
	return 0;
}

/* CPU time that so many processes can have used in a run. */
static bool is_cpu_time(uint64_t cpu_ns, uint64_t duration_ns)
{
	return cpu_ns / CPUS_MAX <= duration_ns || cpu_ns / CPUS_MAX - duration_ns <= LATE_NS;
}

int capture_check_turns(const struct profile_turns *t, uint64_t duration_ns, struct errmsg *e)
{
	if (t->probed_ns > duration_ns)
		return errmsg_set(e, -EBADMSG, "functions were probed for longer than the run");
	/* A rest is before each but the first. */
	if (!t->n_turns || !is_within(t->n_turns - 1, duration_ns / TURNS_REST_MIN_NS))
		return errmsg_set(e, -EBADMSG,
				  "functions were probed in %" PRIu64 " turns in a run of %" PRIu64
				  " s",
				  t->n_turns, duration_ns / 1000000000);
	if (!is_cpu_time(t->cpu_ns, duration_ns) || !is_cpu_time(t->cost_ns, duration_ns))
		return errmsg_set(e, -EBADMSG,
				  "%" PRIu64 " s of CPU time, and %" PRIu64
				  " s for probes, in a run of %" PRIu64 " s",
				  t->cpu_ns / 1000000000, t->cost_ns / 1000000000,
				  duration_ns / 1000000000);
	return 0;
}
