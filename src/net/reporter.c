/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reporter.c: spans into the spool, and the end of tasks. Sending is stream.c's.
 */
#include "net/reporter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "net/parcel.h"
#include "net/reporter_impl.h"
#include "net/tracecontext.h"

enum {
	SPOOL_BYTES = 8 << 20,
	PARCEL_BYTES_MAX = 2 << 20,
	SNAPSHOTS_MIN = 64, /* a span is not made coarser than that to fit */
	RUNS_MAX = 4096,
};

static struct run *run_find(struct reporter *r, uint64_t owner)
{
	for (size_t i = 0; i < r->runs.n; i++)
		if (r->runs.at[i].owner == owner)
			return &r->runs.at[i];
	return NULL;
}

void run_deinit(struct run *run)
{
	free(run->task_id);
	free(run->instance);
	bytes_deinit(&run->report);
}

void reporter_forget_run(struct reporter *r, uint64_t owner)
{
	struct run *run = run_find(r, owner);

	if (!run)
		return;
	if (r->on_reported)
		r->on_reported(r->ctx, run->task_id, run->instance);
	run_deinit(run);
	*run = r->runs.at[--r->runs.n];
}

/* The run of a task on an instance, made when it is new; NULL: no memory, or too many. */
static struct run *run_of(struct reporter *r, const struct task *t, const struct instance *i)
{
	struct run run = {.instance_id = i->id};

	for (size_t j = 0; j < r->runs.n; j++) {
		struct run *known = &r->runs.at[j];

		if (known->instance_id == i->id && !known->finished &&
		    strcmp(known->task_id, t->id) == 0)
			return known;
	}
	if (r->runs.n >= RUNS_MAX)
		return NULL;
	run.task_id = strdup(t->id);
	if (!run.task_id)
		return NULL;
	run.owner = ++r->last_owner;
	if (vec_push(&r->runs, run)) {
		free(run.task_id);
		return NULL;
	}
	return &r->runs.at[r->runs.n - 1];
}

void reporter_item_gone(struct reporter *r, uint64_t owner)
{
	struct run *run = run_find(r, owner);

	if (run && run->n_waiting)
		run->n_waiting--;
}

static void item_dropped(void *ctx, uint64_t owner)
{
	reporter_item_gone(ctx, owner);
}

/* In the shape that Java agents use: process, thread, number. */
static void format_id(const struct reporter *r, const struct sink_span *s, char *buf, size_t n)
{
	const struct profile_span *span = &s->profile->spans.at[s->span];

	snprintf(buf, n, "%016llx%016llx.%u.%llu", (unsigned long long)r->agent_id[0],
		 (unsigned long long)r->agent_id[1], span->tid, (unsigned long long)s->serial);
}

struct texts {
	char segment_id[96];
	char endpoint[1024];
	struct tracecontext context;
};

/* The caller's context may ride on the span's name. */
static void fill_info(struct reporter *r, const struct sink_span *s, struct texts *t,
		      struct segment_info *ret)
{
	const struct profile *p = s->profile;
	const char *name = strpool_get(p->strings, p->spans.at[s->span].name), *context;
	size_t n;

	if (!*name)
		name = s->task->endpoint;
	n = tracecontext_split(name, &context);
	snprintf(t->endpoint, sizeof(t->endpoint), "%.*s", (int)n, name);
	format_id(r, s, t->segment_id, sizeof(t->segment_id));
	*ret = (struct segment_info){
		.instance = s->instance,
		.segment_id = t->segment_id,
		.trace_id = t->segment_id,
		.endpoint = t->endpoint,
	};
	if (!context)
		return;
	if (parse_tracecontext(context, &t->context) == TRACECONTEXT_OK)
		ret->context = &t->context;
	else
		r->status.n_bad_contexts++;
}

/* A span that would be too large as one block gets a longer period. */
static int pack_span(struct reporter *r, const struct sink_span *s, void **ret_data,
		     size_t *ret_bytes)
{
	struct snapshots_options o = {.period_ns = s->task->period_ns};
	struct segment_info info;
	struct texts texts;
	struct parcel_input in = {
		.profile = s->profile,
		.span = s->span,
		.info = &info,
		.task_id = s->task->id,
		.max_bytes = r->parcel_bytes_max,
	};
	int error;

	fill_info(r, s, &texts, &info);
	do {
		CLEANUP(snapshots_deinit) struct snapshots snapshots = {};

		error = snapshots_of_span(s->profile, s->span, &o, &snapshots);
		if (error)
			return error;
		in.snapshots = &snapshots;
		error = pack_parcel(&in, ret_data, ret_bytes);
		o.max_snapshots = (uint32_t)snapshots.list.n / 2;
	} while (error == -EFBIG && o.max_snapshots >= SNAPSHOTS_MIN);
	return error;
}

void reporter_span(struct reporter *r, const struct sink_span *s)
{
	struct run *run = run_of(r, s->task, s->instance);
	void *data = NULL;
	size_t bytes = 0;

	notice_speak_for(&r->notice, s->instance);
	r->fresh = true;
	if (!run || pack_span(r, s, &data, &bytes)) {
		r->status.n_dropped++;
		return;
	}
	/* Pushing may drop older spans of the same run, but it moves no run. */
	run->n_waiting++;
	if (spool_push(r->spool, run->owner, data, bytes)) {
		run->n_waiting--; /* the spool has counted it */
	}
}

void reporter_task_finished(struct reporter *r, const struct task *t, const struct instance *i)
{
	struct run *run = run_of(r, t, i);

	if (run && !run->instance)
		run->instance = strdup(i->name);
	if (!run || !run->instance || encode_task_finish(i, t->id, &run->report)) {
		r->status.n_errors++;
		return;
	}
	run->finished = true;
	r->fresh = true;
}

uint64_t reporter_lost(const struct reporter *r)
{
	struct spool_status s;

	spool_status(r->spool, &s);
	return r->status.n_dropped + s.n_dropped + s.n_damaged;
}

bool reporter_is_idle(const struct reporter *r)
{
	struct spool_status s;

	spool_status(r->spool, &s);
	for (size_t i = 0; i < r->runs.n; i++)
		if (r->runs.at[i].finished)
			return false;
	return !s.n_items && !r->batch.call_out;
}

void reporter_hurry(struct reporter *r)
{
	r->hurry = true;
}

void reporter_status(const struct reporter *r, struct reporter_status *ret)
{
	struct spool_status s;

	spool_status(r->spool, &s);
	*ret = r->status;
	ret->n_dropped = reporter_lost(r);
	ret->n_waiting = s.n_items;
	ret->waiting_bytes = s.memory_bytes + s.disk_bytes;
}

int reporter_new(struct reporter **ret, const struct reporter_options *o, struct errmsg *e)
{
	struct reporter *r = calloc(1, sizeof(*r));
	struct spool_options spool = {
		.max_memory_bytes = o->spool_bytes ? o->spool_bytes : SPOOL_BYTES,
		.file = o->spool_file,
		.max_file_bytes = o->spool_file_bytes,
		.dropped = item_dropped,
		.ctx = r,
	};
	int error;

	if (!r)
		return -ENOMEM;
	r->rpc = o->rpc;
	r->link = o->link;
	r->on_reported = o->on_reported;
	r->ctx = o->ctx;
	if (getrandom(r->agent_id, sizeof(r->agent_id), 0) != sizeof(r->agent_id)) {
		r->agent_id[0] = clock_real_ns();
		r->agent_id[1] = clock_mono_ns();
	}
	r->batch.limit = BATCH_SPANS;
	notice_init(&r->notice, o->rpc, o->link);
	/* At least four fit. */
	r->parcel_bytes_max = spool.max_memory_bytes / 4;
	if (r->parcel_bytes_max > PARCEL_BYTES_MAX)
		r->parcel_bytes_max = PARCEL_BYTES_MAX;
	/* What an earlier life left behind goes first. */
	r->fresh = true;
	error = spool_new(&r->spool, &spool, e);
	if (error) {
		free(r);
		return error;
	}
	*ret = r;
	return 0;
}

struct reporter *reporter_free(struct reporter *r)
{
	if (!r)
		return NULL;
	for (size_t i = 0; i < r->runs.n; i++)
		run_deinit(&r->runs.at[i]);
	vec_free(&r->runs);
	vec_free(&r->batch.items);
	notice_deinit(&r->notice);
	spool_free(r->spool);
	free(r);
	return NULL;
}
