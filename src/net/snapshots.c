/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshots.c: a finished span as thread dumps.
 *
 * The samples' wall times, laid end to end in time order, fill the span exactly. That line is cut
 * into cells of a whole number of milliseconds. A cell that several stacks share goes to one of
 * them: from the root down, to the frame that has so far got least of what it is due. So no frame's
 * error grows with the number of its runs. Cells of one stack in a row make a run.
 */
#include "net/snapshots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "net/textpaths.h"

#define MS_NS 1000000ULL

enum { MAX_SNAPSHOTS = 12000, MIN_SNAPSHOTS = 16, MAX_DEPTH = 500, PERIOD_MS = 10 };

/* Stretch of the span's line. */
struct slice {
	uint64_t start_ns; /* relative to the span's start */
	uint64_t end_ns;
	uint32_t path;
};

struct layout {
	struct textpaths paths;
	VEC(struct slice) slices;
	VEC(uint32_t) candidates; /* slices of the cell at hand */
	uint64_t duration_ns;
	int64_t duration_ms; /* of the segment */
	uint64_t cell_ms;
	uint64_t period_ms;
	size_t max_snapshots; /* of this try */
	struct snapshots *out;
	/* The run under construction */
	uint32_t run_path;
	int64_t run_start_ms;
	bool has_run;
};

static void layout_deinit(struct layout *l)
{
	textpaths_deinit(&l->paths);
	vec_free(&l->slices);
	vec_free(&l->candidates);
}

static int compare_samples(const void *a, const void *b, void *ctx)
{
	const struct profile_sample *samples = ctx;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	if (samples[x].start_ns != samples[y].start_ns)
		return samples[x].start_ns < samples[y].start_ns ? -1 : 1;
	return x < y ? -1 : x > y;
}

static int add_slice(struct layout *l, const struct profile_sample *s)
{
	uint64_t start_ns = l->slices.n ? l->slices.at[l->slices.n - 1].end_ns : 0, end_ns;
	uint32_t path;
	int r;

	if (!s->wall_ns || start_ns >= l->duration_ns)
		return 0;
	end_ns = s->wall_ns > l->duration_ns - start_ns ? l->duration_ns : start_ns + s->wall_ns;
	r = textpaths_of_stack(&l->paths, s->stack, &path);
	if (r)
		return r;
	if (l->slices.n && l->slices.at[l->slices.n - 1].path == path) {
		l->slices.at[l->slices.n - 1].end_ns = end_ns;
		return 0;
	}
	return vec_push(&l->slices, (struct slice){start_ns, end_ns, path});
}

static int fill_slices(struct layout *l, const struct profile *p, const struct profile_span *span)
{
	struct profile_sample *samples = p->samples.at + span->first_sample;
	AUTO_FREE uint32_t *order = NULL;
	int r = 0;

	if (!span->n_samples)
		return 0;
	order = calloc(span->n_samples, sizeof(*order));
	if (!order)
		return -ENOMEM;
	for (uint32_t i = 0; i < span->n_samples; i++)
		order[i] = i;
	qsort_r(order, span->n_samples, sizeof(*order), compare_samples, samples);
	for (uint32_t i = 0; i < span->n_samples && !r; i++)
		r = add_slice(l, &samples[order[i]]);
	return r;
}

static int push_snapshot(struct layout *l, int64_t ms)
{
	struct snapshots *out = l->out;

	if (out->list.n >= l->max_snapshots)
		return -E2BIG;
	return vec_push(&out->list, (struct snapshot){out->start_ms + ms, l->run_path});
}

/* Opens, periods in between, closes. Nothing of a run was dumped when we made it up: no periods. */
static int end_run(struct layout *l, int64_t end_ms)
{
	int64_t length, steps;
	int r = 0;

	if (end_ms > l->duration_ms)
		end_ms = l->duration_ms;
	length = end_ms - l->run_start_ms;
	if (!l->has_run || length <= 0)
		return 0;
	steps = (length + (int64_t)l->period_ms / 2) / (int64_t)l->period_ms;
	if (steps < 1 || l->paths.list.at[l->run_path].synthetic)
		steps = 1;
	for (int64_t i = 0; i <= steps && !r; i++)
		r = push_snapshot(l, l->run_start_ms + length * i / steps);
	return r;
}

/* From at_ms on, the time belongs to the path. */
static int go_on_with(struct layout *l, uint32_t path, int64_t at_ms)
{
	int r;

	if (l->has_run && l->run_path == path)
		return 0;
	r = end_run(l, at_ms);
	l->has_run = true;
	l->run_path = path;
	l->run_start_ms = at_ms;
	return r;
}

static void add_deficit(struct textpaths *ps, uint32_t path, int64_t ns)
{
	struct textpath *p = &ps->list.at[path];

	p->deficit_ns += ns;
	for (uint32_t i = 0; i < p->n; i++)
		ps->nodes.at[ps->node_runs.at[p->first + i]].deficit_ns += ns;
}

/* Two candidates go together at this depth when they share a node, or are the same and end above. */
static uint64_t branch(const struct textpaths *ps, uint32_t path, uint32_t depth,
		       int64_t *ret_deficit)
{
	const struct textpath *p = &ps->list.at[path];
	uint32_t node;

	if (depth >= p->n) {
		*ret_deficit = p->deficit_ns;
		return (uint64_t)path << 32 | 1;
	}
	node = ps->node_runs.at[p->first + depth];
	*ret_deficit = ps->nodes.at[node].deficit_ns;
	return (uint64_t)node << 32;
}

/* Leaves the candidates of the neediest branch; the last one standing gets the cell. */
static uint32_t choose(struct layout *l)
{
	const struct textpaths *ps = &l->paths;
	uint32_t *at = l->candidates.at;
	size_t n = l->candidates.n;

	for (uint32_t depth = 1; n > 1; depth++) {
		int64_t deficit, best_deficit = INT64_MIN;
		uint64_t best = 0;
		size_t kept = 0;
		bool all_end = true;

		for (size_t i = 0; i < n; i++) {
			uint64_t b = branch(ps, at[i], depth, &deficit);

			all_end = all_end && (b & 1);
			if (deficit > best_deficit) {
				best_deficit = deficit;
				best = b;
			}
		}
		for (size_t i = 0; i < n; i++)
			if (branch(ps, at[i], depth, &deficit) == best)
				at[kept++] = at[i];
		n = kept;
		if (all_end)
			break;
	}
	return at[0];
}

/* A cell that several slices share; *idx is the first of them and becomes the first of the next. */
static int fill_shared_cell(struct layout *l, size_t *idx, uint64_t start_ns, uint64_t end_ns)
{
	uint32_t chosen;
	int r = 0;

	l->candidates.n = 0;
	for (; *idx < l->slices.n && !r; (*idx)++) {
		const struct slice *s = &l->slices.at[*idx];
		uint64_t from = s->start_ns > start_ns ? s->start_ns : start_ns;
		uint64_t to = s->end_ns < end_ns ? s->end_ns : end_ns;

		if (s->start_ns >= end_ns)
			break;
		add_deficit(&l->paths, s->path, (int64_t)(to - from));
		r = vec_push(&l->candidates, s->path);
		if (s->end_ns > end_ns)
			break;
	}
	if (r)
		return r;
	chosen = choose(l);
	add_deficit(&l->paths, chosen, -(int64_t)(end_ns - start_ns));
	return go_on_with(l, chosen, (int64_t)(start_ns / MS_NS));
}

static int fill_cells(struct layout *l)
{
	uint64_t cell_ns = l->cell_ms * MS_NS, start_ns = 0, last_ns;
	size_t idx = 0;
	int r = 0;

	while (idx < l->slices.n && !r) {
		const struct slice *s = &l->slices.at[idx];
		uint64_t end_ns = start_ns + cell_ns;

		last_ns = l->slices.at[l->slices.n - 1].end_ns;
		if (end_ns > last_ns)
			end_ns = last_ns;
		if (s->end_ns >= end_ns && s->start_ns <= start_ns) {
			/* This cell and all further ones that the slice fills. */
			r = go_on_with(l, s->path, (int64_t)(start_ns / MS_NS));
			start_ns = s->end_ns / cell_ns * cell_ns;
			idx += s->end_ns == start_ns || s->end_ns == last_ns;
		} else {
			r = fill_shared_cell(l, &idx, start_ns, end_ns);
			start_ns = end_ns;
		}
	}
	return r ? r : end_run(l, l->duration_ms);
}

static void forget_deficits(struct textpaths *ps)
{
	for (size_t i = 0; i < ps->nodes.n; i++)
		ps->nodes.at[i].deficit_ns = 0;
	for (size_t i = 0; i < ps->list.n; i++)
		ps->list.at[i].deficit_ns = 0;
}

static int try_layout(struct layout *l, uint64_t cell_ms, uint64_t period_ms, size_t max_snapshots)
{
	l->cell_ms = cell_ms ? cell_ms : 1;
	l->period_ms = period_ms;
	l->max_snapshots = max_snapshots;
	l->has_run = false;
	l->out->list.n = 0;
	forget_deficits(&l->paths);
	return fill_cells(l);
}

/* Exact cells when that does not take many more dumps than periods, else coarser and coarser ones. */
static int find_layout(struct layout *l, uint64_t period_ms, size_t max_snapshots)
{
	size_t few = l->duration_ns / (period_ms * MS_NS) * 4 + 64;
	int r = try_layout(l, 1, period_ms, few < max_snapshots ? few : max_snapshots);

	if (r == -E2BIG)
		r = try_layout(l, period_ms / 4, period_ms, max_snapshots);
	while (r == -E2BIG) {
		period_ms *= 2;
		r = try_layout(l, period_ms / 2, period_ms, max_snapshots);
	}
	if (!r && !l->out->list.n)
		r = vec_push(&l->out->list,
			     (struct snapshot){l->out->start_ms,
					       l->slices.n ? l->slices.at[0].path : 0});
	l->out->period_ns = period_ms * MS_NS;
	return r;
}

/* Hands the texts of the paths over. */
static int fill_texts(struct layout *l)
{
	struct snapshots *out = l->out;
	int r = 0;

	for (size_t i = 0; i < l->paths.list.n && !r; i++) {
		const struct textpath *p = &l->paths.list.at[i];

		r = vec_push(&out->paths, (struct snapshot_path){out->texts.n, p->n});
		for (uint32_t j = 0; j < p->n && !r; j++) {
			uint32_t node = l->paths.node_runs.at[p->first + j];

			r = vec_push(&out->texts, l->paths.nodes.at[node].text);
		}
	}
	if (r)
		return r;
	out->n_deep = l->paths.n_deep;
	out->strings = TAKE_PTR(l->paths.strings);
	return 0;
}

/* A span without samples: one dump of its root. */
static int fill_empty(struct layout *l)
{
	int r = vec_push(&l->paths.node_runs, 0);

	return r ? r : vec_push(&l->paths.list, (struct textpath){.first = 0, .n = 1});
}

static int64_t epoch_ms(const struct profile *p, uint64_t mono_ns)
{
	return (int64_t)((p->start_real_ns + (mono_ns - p->start_mono_ns)) / MS_NS);
}

int snapshots_of_span(const struct profile *p, uint32_t span_idx, const struct snapshots_options *o,
		      struct snapshots *ret)
{
	const struct profile_span *span = &p->spans.at[span_idx];
	CLEANUP(snapshots_deinit) struct snapshots out = {};
	CLEANUP(layout_deinit) struct layout l = {.out = &out};
	uint64_t period_ms = o->period_ns / MS_NS;
	size_t max = o->max_snapshots ? o->max_snapshots : MAX_SNAPSHOTS;
	int r;

	if (!o->period_ns)
		period_ms = PERIOD_MS;
	r = textpaths_init(&l.paths, p, span_idx, o->max_depth ? o->max_depth : MAX_DEPTH,
			   o->no_lines);
	if (r)
		return r;
	out.start_ms = epoch_ms(p, span->start_ns);
	out.end_ms = span->end_ns > span->start_ns ? epoch_ms(p, span->end_ns) : out.start_ms;
	l.duration_ns = span->end_ns > span->start_ns ? span->end_ns - span->start_ns : 0;
	l.duration_ms = out.end_ms - out.start_ms;
	r = fill_slices(&l, p, span);
	if (!r && !l.paths.list.n)
		r = fill_empty(&l);
	if (!r)
		r = find_layout(&l, period_ms ? period_ms : 1,
				max < MIN_SNAPSHOTS ? MIN_SNAPSHOTS : max);
	if (!r)
		r = fill_texts(&l);
	if (r)
		return r;
	*ret = out;
	out = (struct snapshots){};
	return 0;
}

void snapshots_deinit(struct snapshots *s)
{
	strpool_free(s->strings);
	vec_free(&s->texts);
	vec_free(&s->paths);
	vec_free(&s->list);
	*s = (struct snapshots){};
}
