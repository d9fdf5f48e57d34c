/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.c: the whole profile as one JSON document; docs/json.md says what each member means.
 *
 * The document is written piece by piece, one table row a line, so that its size in memory is that
 * of one span. Order of members and rows is fixed: the same profile gives the same bytes.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "export/escape.h"
#include "export/formats.h"
#include "export/summary.h"
#include "model/tree.h"

struct writer {
	const struct profile *p;
	FILE *out;
	bool in_html;
};

/* "<" and ">" and "&" occur in strings only, where an escape means the same. */
static int put_bytes(const char *s, size_t n, void *ctx)
{
	struct writer *w = ctx;

	if (!w->in_html)
		return fwrite(s, 1, n, w->out) == n ? 0 : -1;
	for (size_t i = 0; i < n; i++) {
		if (s[i] == '<' || s[i] == '>' || s[i] == '&')
			fprintf(w->out, "\\u%04x", s[i]);
		else
			fputc(s[i], w->out);
	}
	return ferror(w->out) ? -1 : 0;
}

/* Writes and frees the value; NULL means that there was no memory for it. flags: JSON_EMBED or 0. */
static int put_value(struct writer *w, json_t *take_value, size_t flags)
{
	json_auto_t *value = take_value;

	if (!value)
		return -ENOMEM;
	flags |= JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6);
	return json_dump_callback(value, put_bytes, w, flags) ? -EIO : 0;
}

static json_t *clean_string(const char *s)
{
	AUTO_FREE char *clean = escape_dup(s);

	return clean ? json_string(clean) : NULL;
}

static json_t *string(const struct writer *w, uint32_t id)
{
	return clean_string(strpool_get(w->p->strings, id));
}

static json_t *hex(uint64_t v)
{
	return json_sprintf("0x%" PRIx64, v);
}

static int put_member(struct writer *w, const char *name, json_t *take_value)
{
	fprintf(w->out, ",\n\"%s\":", name);
	return put_value(w, take_value, 0);
}

/* A table: a row a line; row 0 is reserved and null, so that indexes count from 0. */
static int put_table(struct writer *w, const char *name, size_t n,
		     json_t *(*row)(struct writer *w, uint32_t i))
{
	int r = 0;

	fprintf(w->out, ",\n\"%s\":[\nnull", name);
	for (uint32_t i = 1; i < n && !r; i++) {
		fputs(",\n", w->out);
		r = put_value(w, row(w, i), 0);
	}
	fputs("\n]", w->out);
	return r;
}

static json_t *row_module(struct writer *w, uint32_t i)
{
	const struct profile_module *m = &w->p->modules.at[i];
	char id[2 * BUILD_ID_MAX + 1] = "";

	for (size_t k = 0; k < m->build_id_bytes && k < BUILD_ID_MAX; k++)
		snprintf(id + 2 * k, 3, "%02x", m->build_id[k]);
	return json_pack("{s:o, s:s, s:o, s:o, s:o}", "path", string(w, m->path), "build_id", id,
			 "start", hex(m->start), "limit", hex(m->limit), "offset", hex(m->offset));
}

static json_t *row_frame(struct writer *w, uint32_t i)
{
	const struct profile_frame *f = &w->p->frames.at[i];
	json_auto_t *o = json_pack("{s:o, s:o, s:I}", "function", string(w, f->function), "file",
				   string(w, f->file), "line", (json_int_t)f->line);

	if (!o)
		return NULL;
	if (f->system_name != f->function &&
	    json_object_set_new(o, "system_name", string(w, f->system_name)))
		return NULL;
	if (f->start_line && json_object_set_new(o, "start_line", json_integer(f->start_line)))
		return NULL;
	if ((f->flags & PROFILE_FRAME_INLINED) && json_object_set_new(o, "inlined", json_true()))
		return NULL;
	if ((f->flags & PROFILE_FRAME_KERNEL) && json_object_set_new(o, "kernel", json_true()))
		return NULL;
	if ((f->flags & PROFILE_FRAME_SYNTHETIC) &&
	    json_object_set_new(o, "synthetic", json_true()))
		return NULL;
	if ((f->flags & PROFILE_FRAME_UNKNOWN) && json_object_set_new(o, "unknown", json_true()))
		return NULL;
	return TAKE_PTR(o);
}

static json_t *index_array(const uint32_t *at, uint32_t n)
{
	json_auto_t *a = json_array();

	for (uint32_t i = 0; i < n; i++)
		if (json_array_append_new(a, json_integer(at[i])))
			return NULL;
	return TAKE_PTR(a);
}

static json_t *row_location(struct writer *w, uint32_t i)
{
	const struct profile_location *l = &w->p->locations.at[i];
	json_auto_t *o =
		json_pack("{s:I, s:o, s:o, s:o}", "module", (json_int_t)l->module, "address",
			  hex(l->address), "module_offset", hex(l->module_off), "frames",
			  index_array(w->p->frame_runs.at + l->first_frame, l->n_frames));

	if (!o)
		return NULL;
	if ((l->flags & PROFILE_LOCATION_FP) &&
	    json_object_set_new(o, "by_frame_pointer", json_true()))
		return NULL;
	if ((l->flags & PROFILE_LOCATION_SIGNAL) &&
	    json_object_set_new(o, "signal_frame", json_true()))
		return NULL;
	return TAKE_PTR(o);
}

static json_t *row_stack(struct writer *w, uint32_t i)
{
	const struct profile_stack *s = &w->p->stacks.at[i];

	return json_pack("{s:s, s:o}", "stop", stack_stop_name(s->stop), "locations",
			 index_array(w->p->stack_runs.at + s->first, s->n));
}

/* Without jansson: samples are most of a document, and nothing in them needs an escape. */
static void put_sample(FILE *out, const struct profile_sample *s, uint64_t span_start_ns)
{
	const char *syscall = syscall_name(s->syscall_nr);

	fprintf(out, "{\"stack\":%" PRIu32 ",\"kind\":\"%s\",\"wall_ns\":%" PRIu64 ",\"count\":%u",
		s->stack, sample_kind_name(s->kind), s->wall_ns, s->count);
	fprintf(out, ",\"start_ns\":%" PRId64 ",\"end_ns\":%" PRId64,
		(int64_t)(s->start_ns - span_start_ns), (int64_t)(s->end_ns - span_start_ns));
	if (s->cause != BLOCK_NONE)
		fprintf(out, ",\"cause\":\"%s\"", block_cause_name(s->cause));
	if (s->syscall_nr >= 0 && syscall)
		fprintf(out, ",\"syscall\":\"%s\"", syscall);
	else if (s->syscall_nr >= 0)
		fprintf(out, ",\"syscall\":\"%" PRId32 "\"", s->syscall_nr);
	if (s->seq != UINT32_MAX)
		fprintf(out, ",\"seq\":%" PRIu32, s->seq);
	if (s->waker_tid)
		fprintf(out, ",\"waker\":{\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 "}", s->waker_tgid,
			s->waker_tid);
	fputc('}', out);
}

/* All of a span but its samples. */
static json_t *span_object(struct writer *w, const struct profile_span *s)
{
	json_int_t start_ns = (json_int_t)(s->start_ns - w->p->start_mono_ns);

	return json_pack(
		"{s:o, s:I, s:o, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:I}",
		"id", json_sprintf("%" PRIu64, s->span_id), "endpoint", (json_int_t)s->endpoint,
		"name", string(w, s->name), "pid", (json_int_t)s->tgid, "tid", (json_int_t)s->tid,
		"thread", string(w, s->comm), "instance", (json_int_t)s->instance_id, "start_ns",
		start_ns, "duration_ns", (json_int_t)summary_span_ns(s), "on_cpu_ns",
		(json_int_t)s->oncpu_ns, "run_queue_ns", (json_int_t)s->runq_ns, "blocked_ns",
		(json_int_t)s->blocked_ns, "end", end_reason_name(s->end_reason), "snapshots_due",
		(json_int_t)s->n_due, "snapshots_kept", (json_int_t)s->n_kept, "stacks_incomplete",
		(json_int_t)s->n_incomplete);
}

static int put_spans(struct writer *w)
{
	int r = 0;

	fputs(",\n\"spans\":[\nnull", w->out);
	for (size_t i = 1; i < w->p->spans.n && !r; i++) {
		const struct profile_span *s = &w->p->spans.at[i];

		fputs(",\n{", w->out);
		r = put_value(w, span_object(w, s), JSON_EMBED);
		fputs(",\"samples\":[", w->out);
		for (uint32_t k = 0; k < s->n_samples; k++) {
			if (k)
				fputc(',', w->out);
			put_sample(w->out, &w->p->samples.at[s->first_sample + k], s->start_ns);
		}
		fputs("]}", w->out);
	}
	fputs("\n]", w->out);
	return r;
}

/* The node's own time by state and cause, without the zeros. */
static json_t *self_object(const struct tree_node *n)
{
	uint64_t unnamed = n->self_by_kind[SAMPLE_BLOCKED];
	json_auto_t *o = json_object();
	int r = 0;

	for (unsigned int c = BLOCK_NONE + 1; c < BLOCK_CAUSE_MAX && !r; c++) {
		unnamed -= n->self_by_cause[c];
		if (n->self_by_cause[c])
			r = json_object_set_new(o, block_cause_name(c),
						json_integer(n->self_by_cause[c]));
	}
	if (unnamed && !r)
		r = json_object_set_new(o, "blocked", json_integer(unnamed));
	for (unsigned int k = SAMPLE_ONCPU; k <= SAMPLE_RUNQ && !r; k++)
		if (n->self_by_kind[k])
			r = json_object_set_new(o, sample_kind_name(k),
						json_integer(n->self_by_kind[k]));
	return r ? NULL : TAKE_PTR(o);
}

static json_t *node_object(const struct tree *t, uint32_t node, json_int_t parent)
{
	const struct tree_node *n = &t->nodes.at[node];

	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "frame",
			 (json_int_t)t->hot_line.at[node], "parent", parent, "total_ns",
			 (json_int_t)n->total_ns, "self_ns", (json_int_t)n->self_ns, "count",
			 (json_int_t)n->count, "on_cpu_ns",
			 (json_int_t)n->total_by_kind[SAMPLE_ONCPU], "run_queue_ns",
			 (json_int_t)n->total_by_kind[SAMPLE_RUNQ], "blocked_ns",
			 (json_int_t)n->total_by_kind[SAMPLE_BLOCKED], "incomplete_ns",
			 (json_int_t)n->incomplete_ns, "self", self_object(n));
}

/* The nodes depth first, parents by their place in the array; the root's parent is -1. */
static json_t *tree_array(const struct tree *t)
{
	AUTO_FREE uint32_t *place = calloc(t->nodes.n, sizeof(*place));
	json_auto_t *a = json_array();
	uint32_t node = 0, n = 0;

	if (!place)
		return NULL;
	for (;;) {
		const struct tree_node *t_node = &t->nodes.at[node];

		place[node] = n++;
		if (json_array_append_new(
			    a, node_object(t, node, node ? (json_int_t)place[t_node->parent] : -1)))
			return NULL;
		if (t_node->first_child) {
			node = t_node->first_child;
			continue;
		}
		while (node && !t->nodes.at[node].next_sibling)
			node = t->nodes.at[node].parent;
		if (!node)
			return TAKE_PTR(a);
		node = t->nodes.at[node].next_sibling;
	}
}

static json_t *histogram_array(const struct latency *l)
{
	json_auto_t *a = json_array();

	for (unsigned int i = 0; i < WIRE_HIST_BUCKETS; i++)
		if (l->bucket[i] &&
		    json_array_append_new(a, json_pack("[I, I]", (json_int_t)latency_bucket_low(i),
						       (json_int_t)l->bucket[i])))
			return NULL;
	return TAKE_PTR(a);
}

static json_t *names_array(struct writer *w, const struct summary *s)
{
	json_auto_t *a = json_array();

	for (size_t i = 0; i < s->names.n; i++) {
		const struct summary_name *n = &s->names.at[i];

		if (json_array_append_new(a, json_pack("{s:o, s:I, s:I, s:I}", "name",
						       string(w, n->name), "slow",
						       (json_int_t)n->n_slow, "profiled",
						       (json_int_t)n->n_profiled, "max_ns",
						       (json_int_t)n->max_ns)))
			return NULL;
	}
	return TAKE_PTR(a);
}

static bool of_endpoint(const struct profile_span *span, void *ctx)
{
	return span->endpoint == *(const uint32_t *)ctx;
}

static json_t *row_endpoint(struct writer *w, uint32_t i)
{
	const struct profile_endpoint *e = &w->p->endpoints.at[i];
	const struct latency *l = &e->latency;
	CLEANUP(summary_deinit) struct summary s = {};
	CLEANUP(tree_deinit) struct tree tree = {};

	if (summary_init(&s, w->p, i) || tree_build(w->p, TREE_BY_FUNCTION, of_endpoint, &i, &tree))
		return NULL;
	return json_pack(
		"{s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:f, s:o, s:o}",
		"name", string(w, e->name), "spec", string(w, e->spec), "threshold_ns",
		(json_int_t)e->threshold_ns, "period_ns", (json_int_t)e->period_ns, "calls",
		(json_int_t)l->n_enter, "ended", (json_int_t)l->n_leave, "slow",
		(json_int_t)s.n_slow, "end_unknown", (json_int_t)s.n_unseen, "unwound",
		(json_int_t)l->n_unwound, "sum_ns", (json_int_t)l->sum_ns, "p50_ns",
		(json_int_t)summary_quantile(&s, w->p, l, 0.50), "p90_ns",
		(json_int_t)summary_quantile(&s, w->p, l, 0.90), "p99_ns",
		(json_int_t)summary_quantile(&s, w->p, l, 0.99), "max_ns", (json_int_t)s.max_ns,
		"histogram", histogram_array(l), "profiled", (json_int_t)s.n_profiled, "unfinished",
		(json_int_t)s.n_unfinished, "completeness", summary_completeness(&s), "names",
		names_array(w, &s), "tree", tree_array(&tree));
}

static json_t *probed_object(const struct writer *w)
{
	const struct profile_turns *t = &w->p->turns;

	return json_pack("{s:f, s:I, s:I, s:I, s:I}", "max_overhead", t->share_ppm / 1e6,
			 "duration_ns", (json_int_t)t->probed_ns, "turns", (json_int_t)t->n_turns,
			 "cost_ns", (json_int_t)t->cost_ns, "cpu_ns", (json_int_t)t->cpu_ns);
}

static json_t *run_object(const struct writer *w)
{
	time_t seconds = w->p->start_real_ns / 1000000000;
	char text[64] = "";
	struct tm tm = {};
	json_t *o;

	gmtime_r(&seconds, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	o = json_pack("{s:o, s:o, s:o, s:I, s:I}", "host", string(w, w->p->hostname), "kernel",
		      string(w, w->p->kernel_release), "start",
		      json_sprintf("%s.%09" PRIu64 "Z", text, w->p->start_real_ns % 1000000000),
		      "start_mono_ns", (json_int_t)w->p->start_mono_ns, "duration_ns",
		      (json_int_t)w->p->duration_ns);
	if (o && w->p->turns.share_ppm && json_object_set_new(o, "probed", probed_object(w)))
		return NULL;
	if (o && w->p->only_kept)
		json_object_set_new(o, "population", json_string("kept spans"));
	return o;
}

static json_t *completeness_object(const struct writer *w)
{
	struct summary s;

	summary_totals(&s, w->p);
	return json_pack("{s:f, s:I, s:I, s:I}", "ratio", summary_completeness(&s), "snapshots_due",
			 (json_int_t)s.n_due, "snapshots_kept", (json_int_t)s.n_kept,
			 "stacks_incomplete", (json_int_t)s.n_incomplete);
}

/* Counters that are not zero: losses, or plain statistics. */
static json_t *counters_object(const struct writer *w, bool losses)
{
	json_auto_t *o = json_object();

	for (unsigned int i = 0; i < COUNTER_MAX; i++)
		if (w->p->counters.v[i] && counter_is_loss(i) == losses &&
		    json_object_set_new(o, counter_name(i), json_integer(w->p->counters.v[i])))
			return NULL;
	return TAKE_PTR(o);
}

static int put_document(struct writer *w)
{
	const struct profile *p = w->p;
	int r;

	fputs("{\"format\":\"spanprof-profile\",\n\"version\":1", w->out);
	r = put_member(w, "run", run_object(w));
	if (!r)
		r = put_member(w, "completeness", completeness_object(w));
	if (!r)
		r = put_member(w, "losses", counters_object(w, true));
	if (!r)
		r = put_member(w, "statistics", counters_object(w, false));
	if (!r)
		r = put_table(w, "endpoints", p->endpoints.n, row_endpoint);
	if (!r)
		r = put_table(w, "modules", p->modules.n, row_module);
	if (!r)
		r = put_table(w, "frames", p->frames.n, row_frame);
	if (!r)
		r = put_table(w, "locations", p->locations.n, row_location);
	if (!r)
		r = put_table(w, "stacks", p->stacks.n, row_stack);
	if (!r)
		r = put_spans(w);
	fputs("}\n", w->out);
	return r;
}

int json_put(const struct profile *p, FILE *out, bool in_html, struct errmsg *e)
{
	struct writer w = {.p = p, .out = out, .in_html = in_html};
	int r = put_document(&w);

	if (r == -EIO)
		return errmsg_set(e, r, "cannot write the JSON document: write error");
	if (r)
		return errmsg_set(e, r, "cannot build the JSON document: out of memory");
	return 0;
}

int json_write(const struct profile *p, const struct export_options *o, FILE *out, struct errmsg *e)
{
	return json_put(p, out, false, e);
}
