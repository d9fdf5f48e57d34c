/* SPDX-License-Identifier: Apache-2.0 */
/*
 * summary.c: the spans of an endpoint ordered, counted and grouped by name.
 */
#include "export/summary.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/hash.h"

uint64_t summary_span_ns(const struct profile_span *s)
{
	return s->end_ns - s->start_ns;
}

double summary_completeness(const struct summary *s)
{
	return s->n_due ? (double)s->n_kept / s->n_due : 1.0;
}

uint64_t summary_quantile(const struct summary *s, const struct profile *p, const struct latency *l,
			  double q)
{
	uint64_t rank = (uint64_t)(q * s->n_returned);

	if (s->n_returned != l->n_leave)
		return latency_quantile(l, q);
	rank += rank < q * s->n_returned;
	for (size_t i = s->spans.n; i-- > 0;) {
		const struct profile_span *span = &p->spans.at[s->spans.at[i]];

		if (profile_span_returned(span) && --rank == 0)
			return summary_span_ns(span);
	}
	return 0;
}

void summary_deinit(struct summary *s)
{
	vec_free(&s->spans);
	vec_free(&s->names);
}

static int compare_spans(const void *a, const void *b, void *ctx)
{
	const struct profile *p = ctx;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint64_t dx = summary_span_ns(&p->spans.at[x]), dy = summary_span_ns(&p->spans.at[y]);

	if (dx != dy)
		return dx > dy ? -1 : 1;
	return x < y ? -1 : x > y;
}

static int compare_names(const void *a, const void *b)
{
	const struct summary_name *x = a, *y = b;

	if (x->max_ns != y->max_ns)
		return x->max_ns > y->max_ns ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

static int add_name(struct summary *s, struct hash *index, const struct profile_span *span,
		    uint64_t threshold_ns)
{
	uint64_t *found = hash_get(index, span->name), i = s->names.n;
	struct summary_name *n;
	int r;

	if (found) {
		i = *found;
	} else {
		r = vec_push(&s->names, (struct summary_name){.name = span->name});
		if (!r)
			r = hash_set(index, span->name, i);
		if (r)
			return r;
	}
	n = &s->names.at[i];
	n->n_slow += summary_span_ns(span) > threshold_ns;
	n->n_profiled += span->n_samples > 0;
	if (n->max_ns < summary_span_ns(span))
		n->max_ns = summary_span_ns(span);
	return 0;
}

static void add_counts(struct summary *s, const struct profile_span *span)
{
	s->n_profiled += span->n_samples > 0;
	s->n_returned += profile_span_returned(span);
	s->n_unfinished += span->end_reason == WIRE_END_TASK_END;
	s->n_due += span->n_due;
	s->n_kept += span->n_kept;
	s->n_incomplete += span->n_incomplete;
}

/*
 * The histogram has the calls that returned. The slow ones of the others are known by their spans,
 * which are in the tables too: the figures above a table must not be smaller than what is in it.
 */
static void add_unreturned(struct summary *s, const struct profile_span *span,
			   uint64_t threshold_ns)
{
	uint64_t ns = summary_span_ns(span);

	if (!profile_span_returned(span))
		s->n_slow_left += ns > threshold_ns;
	if (ns <= s->max_ns)
		return;
	s->max_ns = ns;
	s->max_reason = span->end_reason;
}

/*
 * A span whose end was lost may have returned, and is in the histogram then: those that were left
 * otherwise are no more than the calls that it lacks.
 */
static void add_slow_left(struct summary *s, const struct latency *l)
{
	uint64_t n = l->n_enter > l->n_leave ? l->n_enter - l->n_leave : 0;

	s->n_slow += l->n_enter && s->n_slow_left > n ? n : s->n_slow_left;
}

/* What the histogram knows; the spans are still to be added. */
static struct summary of_latency(const struct latency *l)
{
	return (struct summary){
		.n_slow = l->n_slow,
		.max_ns = l->max_ns,
		.n_unseen = l->n_unknown > l->n_unwound ? l->n_unknown - l->n_unwound : 0,
	};
}

void summary_counts(struct summary *ret, const struct profile *p, uint32_t endpoint)
{
	const struct profile_endpoint *e = &p->endpoints.at[endpoint];

	*ret = of_latency(&e->latency);
	for (size_t i = 1; i < p->spans.n; i++) {
		if (p->spans.at[i].endpoint != endpoint)
			continue;
		add_counts(ret, &p->spans.at[i]);
		add_unreturned(ret, &p->spans.at[i], e->threshold_ns);
	}
	add_slow_left(ret, &e->latency);
}

int summary_init(struct summary *ret, const struct profile *p, uint32_t endpoint)
{
	const struct profile_endpoint *e = &p->endpoints.at[endpoint];
	CLEANUP(summary_deinit) struct summary s = of_latency(&e->latency);
	CLEANUP(hash_deinit) struct hash index;
	int r = 0;

	hash_init(&index);
	for (uint32_t i = 1; i < p->spans.n && !r; i++) {
		const struct profile_span *span = &p->spans.at[i];

		if (span->endpoint != endpoint)
			continue;
		add_counts(&s, span);
		add_unreturned(&s, span, e->threshold_ns);
		r = vec_push(&s.spans, i);
		if (!r)
			r = add_name(&s, &index, span, e->threshold_ns);
	}
	if (r)
		return r;
	add_slow_left(&s, &e->latency);
	if (s.spans.n)
		qsort_r(s.spans.at, s.spans.n, sizeof(*s.spans.at), compare_spans, (void *)p);
	if (s.names.n)
		qsort(s.names.at, s.names.n, sizeof(*s.names.at), compare_names);
	*ret = s;
	s = (struct summary){};
	return 0;
}

void summary_totals(struct summary *ret, const struct profile *p)
{
	*ret = (struct summary){};
	for (size_t i = 1; i < p->spans.n; i++)
		add_counts(ret, &p->spans.at[i]);
}
