/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c: the sending half of the reporter.
 *
 * One stream at a time. Snapshots of several spans go together, up to a limit; when the backend has
 * them, the segments of the spans that are whole follow. A stream that fails is repeated from what
 * was confirmed before; one that is refused is repeated span by span, so that one span that the
 * backend cannot digest is found, dropped and counted, and holds up no other.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "net/parcel.h"
#include "net/reporter_impl.h"

#define SECOND_NS 1000000000ULL
#define DELAY_NS  200000000ULL /* to send together; a server's users accept 500 ms */

enum { TRIES_MAX = 3, REFUSED_WAIT_MAX_S = 300 };

/* ---- building a stream ---- */

/* Offsets first: the body moves while it grows. */
struct builder {
	struct rpc_call *call;
	VEC(size_t) ends;
};

static void builder_deinit(struct builder *b)
{
	rpc_call_free(b->call);
	vec_free(&b->ends);
}

static int builder_seal(struct builder *b)
{
	size_t from = 0;
	int r = 0;

	for (size_t i = 0; i < b->ends.n && !r; i++) {
		r = vec_push(&b->call->messages,
			     (struct rpc_message){b->call->body.at + from, b->ends.at[i] - from});
		from = b->ends.at[i];
	}
	return r;
}

static bool is_full(const struct reporter *r, const struct builder *b)
{
	return r->batch.items.n >= r->batch.limit || b->ends.n >= BATCH_SNAPSHOTS ||
	       b->call->body.n >= BATCH_BYTES;
}

/* As many snapshots of the item as there is room for. */
static int add_snapshots(struct reporter *r, struct builder *b, struct spool_item *item,
			 const struct parcel *p)
{
	struct batch_item entry = {.item = item, .progress = item->progress};
	int error = 0;

	while (entry.progress < p->n_snapshots && b->ends.n < BATCH_SNAPSHOTS &&
	       b->call->body.n < BATCH_BYTES && !error) {
		error = encode_parcel_snapshot(p, entry.progress, &b->call->body);
		if (!error)
			error = vec_push(&b->ends, b->call->body.n);
		entry.progress += !error;
	}
	if (error)
		return error;
	r->batch.n_snapshots += entry.progress - item->progress;
	entry.whole = entry.progress == p->n_snapshots;
	return vec_push(&r->batch.items, entry);
}

static void give_up(struct reporter *r, struct spool_item *item)
{
	uint64_t owner = item->owner;

	r->status.n_dropped++;
	spool_done(r->spool, item);
	reporter_item_gone(r, owner);
}

static void return_items(struct reporter *r)
{
	for (size_t i = 0; i < r->batch.items.n; i++)
		spool_return(r->spool, r->batch.items.at[i].item);
	r->batch.items.n = 0;
}

static int fill_snapshots(struct reporter *r, struct builder *b)
{
	struct spool_item *item;
	struct parcel p;
	int error = 0;

	r->batch.items.n = 0;
	r->batch.n_snapshots = 0;
	while (!error && !is_full(r, b) && (item = spool_take(r->spool))) {
		if (decode_parcel(item->data, item->bytes, &p) != PARCEL_OK) {
			give_up(r, item); /* the disk's fault */
			continue;
		}
		error = add_snapshots(r, b, item, &p);
		if (error)
			spool_return(r->spool, item);
	}
	return error;
}

/* The items whose snapshots are all there. */
static int fill_segments(struct reporter *r, struct builder *b)
{
	struct parcel p;
	int error = 0;

	for (size_t i = 0; i < r->batch.items.n && !error; i++) {
		const struct batch_item *entry = &r->batch.items.at[i];

		if (!entry->whole)
			continue;
		/* It was sound when its snapshots went. */
		if (decode_parcel(entry->item->data, entry->item->bytes, &p) != PARCEL_OK)
			return -EBADMSG;
		error = vec_reserve(&b->call->body, b->call->body.n + p.segment_bytes);
		if (error)
			break;
		memcpy(b->call->body.at + b->call->body.n, p.segment, p.segment_bytes);
		b->call->body.n += p.segment_bytes;
		error = vec_push(&b->ends, b->call->body.n);
	}
	return error;
}

/* ---- the end of a stream ---- */

static void stream_done(void *ctx, struct rpc_call *c);

/* False: not now; the items are back in the spool. */
static bool start_stream(struct reporter *r, bool segments, uint64_t now_ns)
{
	CLEANUP(builder_deinit) struct builder b = {};
	struct rpc_call *call;

	b.call = rpc_call_new(segments ? "/skywalking.v3.TraceSegmentReportService/collect"
				       : "/skywalking.v3.ProfileTask/collectSnapshot");
	if (!b.call || (segments ? fill_segments(r, &b) : fill_snapshots(r, &b)) ||
	    builder_seal(&b)) {
		return_items(r);
		return false;
	}
	/* All their snapshots were confirmed before, only the segments were not. */
	if (!segments && !b.ends.n && r->batch.items.n)
		return start_stream(r, true, now_ns);
	if (!b.ends.n || !link_may_start(r->link, now_ns)) {
		return_items(r);
		return false;
	}
	b.call->done = stream_done;
	b.call->ctx = r;
	r->batch.call_out = true;
	r->batch.segments = segments;
	call = TAKE_PTR(b.call);
	if (rpc_start(r->rpc, call, now_ns) == 0)
		return true;
	link_cancelled(r->link);
	r->batch.call_out = false;
	return_items(r);
	return false;
}

/* Segments can follow at once when all that is in the batch has its snapshots confirmed. */
static bool start_next(struct reporter *r, uint64_t now_ns)
{
	bool any_whole = false, all_sent = r->batch.items.n > 0;

	for (size_t i = 0; i < r->batch.items.n; i++) {
		const struct batch_item *entry = &r->batch.items.at[i];

		any_whole = any_whole || entry->whole;
		all_sent = all_sent && entry->item->progress == entry->progress;
	}
	if (all_sent && any_whole)
		return start_stream(r, true, now_ns);
	return_items(r);
	return false;
}

static void confirm_snapshots(struct reporter *r)
{
	r->status.n_snapshots += r->batch.n_snapshots;
	for (size_t i = 0; i < r->batch.items.n; i++)
		r->batch.items.at[i].item->progress = r->batch.items.at[i].progress;
}

static void confirm_segments(struct reporter *r)
{
	for (size_t i = 0; i < r->batch.items.n; i++) {
		struct batch_item *entry = &r->batch.items.at[i];
		uint64_t owner = entry->item->owner;

		if (!entry->whole) {
			spool_return(r->spool, entry->item);
			continue;
		}
		spool_done(r->spool, entry->item);
		reporter_item_gone(r, owner);
		r->status.n_spans++;
	}
	r->batch.items.n = 0;
	r->batch.limit = BATCH_SPANS;
}

/* The backend answered, but not with yes. */
static void refused(struct reporter *r, int status, uint64_t now_ns)
{
	uint64_t wait_s = 1ULL << (r->n_refused < 9 ? r->n_refused : 9);
	bool alone = r->batch.items.n == 1;

	r->n_refused++;
	r->batch.limit = 1;
	if (status == RPC_UNIMPLEMENTED)
		wait_s = REFUSED_WAIT_MAX_S;
	r->not_before_ns =
		now_ns + (wait_s < REFUSED_WAIT_MAX_S ? wait_s : REFUSED_WAIT_MAX_S) * SECOND_NS;
	/* A backend without these calls is no fault of the span: the spool's bound decides. */
	if (alone && status != RPC_UNIMPLEMENTED &&
	    ++r->batch.items.at[0].item->tries >= TRIES_MAX) {
		struct spool_item *item = r->batch.items.at[0].item;

		r->batch.items.n = 0;
		give_up(r, item);
	}
	return_items(r);
}

static enum link_verdict call_ended(struct reporter *r, const struct rpc_call *c, uint64_t now_ns)
{
	bool reconnect;
	enum link_verdict verdict = link_ended(r->link, c->status, c->start_ns, now_ns, &reconnect);

	if (reconnect)
		rpc_next_address(r->rpc);
	return verdict;
}

static void stream_done(void *ctx, struct rpc_call *c)
{
	struct reporter *r = ctx;
	uint64_t now_ns = clock_mono_ns();
	enum link_verdict verdict = call_ended(r, c, now_ns);

	r->batch.call_out = false;
	if (verdict == LINK_V_ANSWERED && c->status == RPC_OK) {
		r->n_refused = 0;
		if (r->batch.segments)
			confirm_segments(r);
		else
			confirm_snapshots(r);
		start_next(r, now_ns);
	} else {
		r->status.n_errors++;
		if (verdict == LINK_V_ANSWERED || verdict == LINK_V_UNCERTAIN)
			refused(r, c->status, now_ns);
		else
			return_items(r);
	}
	rpc_call_free(c);
	r->flush_ns = now_ns;
}

/* ---- finish reports ---- */

static void report_done(void *ctx, struct rpc_call *c)
{
	struct reporter *r = ctx;
	uint64_t now_ns = clock_mono_ns();
	enum link_verdict verdict = call_ended(r, c, now_ns);

	if (verdict == LINK_V_LOST || verdict == LINK_V_REFUSED) {
		/* It was not carried out: again later. */
		for (size_t i = 0; i < r->runs.n; i++)
			if (r->runs.at[i].owner == c->arg)
				r->runs.at[i].reporting = false;
		r->status.n_errors++;
	} else {
		r->status.n_finished += c->status == RPC_OK;
		r->status.n_errors += c->status != RPC_OK;
		r->status.n_unconfirmed += verdict == LINK_V_UNCERTAIN;
		reporter_forget_run(r, c->arg);
	}
	rpc_call_free(c);
}

static bool start_report(struct reporter *r, struct run *run, uint64_t now_ns)
{
	struct rpc_call *c = rpc_call_new("/skywalking.v3.ProfileTask/reportTaskFinish");

	if (!c || vec_reserve(&c->body, run->report.n) ||
	    vec_push(&c->messages, (struct rpc_message){c->body.at, run->report.n}) ||
	    !link_may_start(r->link, now_ns)) {
		rpc_call_free(c);
		return false;
	}
	memcpy(c->body.at, run->report.at, run->report.n);
	c->done = report_done;
	c->ctx = r;
	c->arg = run->owner;
	if (rpc_start(r->rpc, c, now_ns)) {
		link_cancelled(r->link);
		return false;
	}
	run->reporting = true;
	return true;
}

/* ---- the clock ---- */

static bool report_due(const struct run *run)
{
	return run->finished && !run->reporting && !run->n_waiting;
}

static bool has_items(const struct reporter *r)
{
	struct spool_status s;

	spool_status(r->spool, &s);
	return s.n_items > 0;
}

static uint64_t stream_due_ns(const struct reporter *r)
{
	if (r->batch.call_out || !r->flush_ns)
		return UINT64_MAX;
	return r->flush_ns > r->not_before_ns ? r->flush_ns : r->not_before_ns;
}

void reporter_dispatch(struct reporter *r, uint64_t now_ns)
{
	if (r->fresh && !r->flush_ns)
		r->flush_ns = now_ns + DELAY_NS;
	r->fresh = false;
	if (r->hurry && r->flush_ns)
		r->flush_ns = 1;
	if (stream_due_ns(r) <= now_ns) {
		if (!has_items(r))
			r->flush_ns = 0;
		else if (link_free_ns(r->link) <= now_ns && !start_stream(r, false, now_ns))
			r->flush_ns = now_ns + SECOND_NS;
	}
	notice_dispatch(&r->notice, reporter_lost(r), now_ns);
	for (size_t i = 0; i < r->runs.n; i++)
		if (report_due(&r->runs.at[i]) && r->runs.at[i].retry_ns <= now_ns &&
		    link_free_ns(r->link) <= now_ns && !start_report(r, &r->runs.at[i], now_ns))
			r->runs.at[i].retry_ns = now_ns + SECOND_NS;
}

uint64_t reporter_deadline_ns(const struct reporter *r)
{
	uint64_t due_ns = stream_due_ns(r), free_ns = link_free_ns(r->link);

	if (r->fresh)
		return 0;
	for (size_t i = 0; i < r->runs.n; i++)
		if (report_due(&r->runs.at[i]) && r->runs.at[i].retry_ns < due_ns)
			due_ns = r->runs.at[i].retry_ns;
	if (notice_deadline_ns(&r->notice, reporter_lost(r)) < due_ns)
		due_ns = notice_deadline_ns(&r->notice, reporter_lost(r));
	return due_ns > free_ns ? due_ns : free_ns;
}
