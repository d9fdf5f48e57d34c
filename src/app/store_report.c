/* SPDX-License-Identifier: Apache-2.0 */
#include "app/store_report.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/vec.h"
#include "task/store.h"

DEFINE_CLEANUP(struct store *, store_close)
DEFINE_CLEANUP(struct profile *, profile_free)

struct serials {
	VEC(uint64_t) list;
	int error;
};

static void add_serial(void *ctx, const struct store_span *s)
{
	struct serials *to = ctx;

	if (!to->error)
		to->error = vec_push(&to->list, s->serial);
}

static int list_serials(struct store *store, const struct store_report *o, struct serials *ret,
			struct errmsg *e)
{
	const struct store_filter f = {
		.task_id = o->task_id,
		.service = o->service,
		.limit = STORE_REPORT_SPANS_MAX,
	};
	int r;

	for (size_t i = 0; i < o->n_spans && !ret->error; i++)
		ret->error = vec_push(&ret->list, o->spans[i]);
	r = o->n_spans ? 0 : store_list_spans(store, &f, add_serial, ret);
	if (!r)
		r = ret->error;
	if (r)
		return errmsg_set(e, r, "cannot read the store '%s' to its end", o->store);
	if (!ret->list.n)
		return errmsg_set(
			e, -ENOENT,
			"the store '%s' has no such span; `spanprof spans --store` lists them",
			o->store);
	return 0;
}

/* The run that is shown lasts from the first span's begin to the last one's end. */
static void set_duration(struct profile *p)
{
	uint64_t first = UINT64_MAX, last = 0;

	for (size_t i = 1; i < p->spans.n; i++) {
		first = p->spans.at[i].start_ns < first ? p->spans.at[i].start_ns : first;
		last = p->spans.at[i].end_ns > last ? p->spans.at[i].end_ns : last;
	}
	if (last <= first)
		return;
	p->start_real_ns += first - p->start_mono_ns;
	p->start_mono_ns = first;
	p->duration_ns = last - first;
}

/* Only stored spans are known of their endpoint's calls. */
static void set_latencies(struct profile *p)
{
	p->only_kept = true;
	for (size_t i = 1; i < p->spans.n; i++) {
		const struct profile_span *s = &p->spans.at[i];
		struct latency *l = &p->endpoints.at[s->endpoint].latency;
		uint64_t ns = s->end_ns - s->start_ns;

		l->n_enter++;
		if (!profile_span_returned(s)) {
			l->n_unknown += s->end_reason != WIRE_END_TASK_END;
			l->n_unwound += s->end_reason == WIRE_END_UNWOUND;
			continue;
		}
		l->n_leave++;
		l->n_slow++;
		l->sum_ns += ns;
		l->max_ns = ns > l->max_ns ? ns : l->max_ns;
		l->bucket[latency_bucket(ns)]++;
	}
}

/* A call that several tasks have taken is in the store once for each: here it counts once. */
static bool is_here(const struct profile *p, uint32_t span)
{
	const struct profile_span *s = &p->spans.at[span];

	for (uint32_t i = span; --i > 0;) {
		const struct profile_span *other = &p->spans.at[i];

		if (other->tid == s->tid && other->tgid == s->tgid &&
		    other->start_ns == s->start_ns && other->end_ns == s->end_ns &&
		    other->endpoint == s->endpoint)
			return true;
	}
	return false;
}

static int add_span(struct store *store, uint64_t serial, struct profile *p, struct errmsg *e)
{
	uint32_t span;
	int r = store_read_span(store, serial, p, &span, e);

	if (r)
		return r;
	if (is_here(p, span)) {
		p->samples.n = p->spans.at[span].first_sample;
		p->spans.n--;
	} else {
		/* the number that `spanprof spans` shows, not the one of the agent's run */
		p->spans.at[span].span_id = serial;
	}
	return 0;
}

int store_report_load(const struct store_report *o, struct profile **ret, struct errmsg *e)
{
	CLEANUP(store_closep) struct store *store = NULL;
	CLEANUP(profile_freep) struct profile *p = NULL;
	struct serials serials = {};
	int r = store_open_read(&store, o->store, e);

	if (!r)
		r = profile_new(&p) ? errmsg_set(e, -ENOMEM, "out of memory") : 0;
	if (!r)
		r = list_serials(store, o, &serials, e);
	for (size_t i = serials.list.n; !r && i-- > 0;)
		r = add_span(store, serials.list.at[i], p, e);
	vec_free(&serials.list);
	if (r)
		return r;
	set_duration(p);
	set_latencies(p);
	*ret = TAKE_PTR(p);
	return 0;
}
