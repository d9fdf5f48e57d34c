/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.c: a profile for people: what someone reads at a glance.
 *
 * Per endpoint: the calls and their latency, the slowest spans with the split of their wall time,
 * the names, the merged tree; at the end what is missing from all this and why. Times in tables are
 * in milliseconds, so that they compare by eye.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "export/escape.h"
#include "export/formats.h"
#include "export/line.h"
#include "export/summary.h"
#include "export/text_tree.h"

enum {
	SLOWEST_DEFAULT = 5,
	NAMES_MAX = 10,
	NAME_WIDTH_MAX = 60,
	INDENT = 2,
	NAME_WIDTH_MIN = 24, /* columns below which a name that needs more has a line of its own */
	SPAN_NAME_AT = 51,
	NARROW_NAME_AT = 12,
	NS_PER_SECOND = 1000000000
};

struct text {
	const struct profile *p;
	const struct export_options *o;
	struct line line;
};

static const char *string(const struct text *t, uint32_t id)
{
	return strpool_get(t->p->strings, id);
}

/* 1204 -> "1 204" */
static const char *grouped(char buf[32], uint64_t v)
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%" PRIu64, v), j = 0;

	for (int i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			buf[j++] = ' ';
		buf[j++] = digits[i];
	}
	buf[j] = 0;
	return buf;
}

/* "100 ms", not "100.0 ms" */
static const char *duration(char buf[32], uint64_t ns)
{
	char *dot;

	format_duration(buf, 32, ns);
	dot = strstr(buf, ".0 ");
	if (dot)
		memmove(dot, dot + 2, strlen(dot + 2) + 1);
	return buf;
}

/* "98.7 %"; never rounded up to 100 when something is missing. */
static const char *percent(char buf[32], double share)
{
	double v = share * 100;

	if (share >= 1)
		snprintf(buf, 32, "100 %%");
	else
		snprintf(buf, 32, "%.1f %%", v > 99.9 ? 99.9 : v);
	return buf;
}

/* Behind "complete": what was not looked at is not in the share. */
static const char *of_what(const struct text *t)
{
	return profile_rested(t->p) ? " of what was probed" : "";
}

/* One fact of a header; it goes to a new line when this one is full. */
static void fact(struct line *l, enum line_style style, const char *text)
{
	bool first = l->used == l->pending;

	if (!first && escape_width(text, l->limit) + 3 > line_room(l)) {
		line_end(l);
		line_pad(l, INDENT);
	} else if (!first) {
		line_pad(l, 3);
	}
	line_text(l, style, text);
}

static void print_run(struct text *t)
{
	struct line *l = &t->line;
	time_t start = t->p->start_real_ns / NS_PER_SECOND;
	struct tm tm = {};
	char when[64] = "", buf[32];

	gmtime_r(&start, &tm);
	strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &tm);
	if (t->p->duration_ns < NS_PER_SECOND)
		duration(buf, t->p->duration_ns);
	else
		snprintf(buf, sizeof(buf), "%.1f s", (double)t->p->duration_ns / NS_PER_SECOND);
	line_printf(l, LINE_DIM, "%s from %s on ", buf, when);
	line_text(l, LINE_DIM, string(t, t->p->hostname));
	line_text(l, LINE_DIM, ", kernel ");
	line_text(l, LINE_DIM, string(t, t->p->kernel_release));
	line_end(l);
}

/* Figures of calls are those of the time in which they were looked at. */
static void print_turns(struct text *t)
{
	const struct profile_turns *turns = &t->p->turns;
	double probed_s = (double)turns->probed_ns / NS_PER_SECOND;
	double run_s = (double)t->p->duration_ns / NS_PER_SECOND;
	bool always = !profile_rested(t->p);
	char buf[96];

	if (!turns->share_ppm)
		return;
	if (always)
		snprintf(buf, sizeof(buf), "probed all the time");
	else
		snprintf(buf, sizeof(buf),
			 "probed %.3g %% of the time, in %" PRIu64 " turn%s of %.2g s",
			 run_s > 0 ? 100 * probed_s / run_s : 0, turns->n_turns,
			 turns->n_turns == 1 ? "" : "s",
			 turns->n_turns ? probed_s / (double)turns->n_turns : 0);
	line_text(&t->line, LINE_PLAIN, buf);
	snprintf(buf, sizeof(buf), "cost about %.3g %% of the CPU time (--max-overhead %g%%)",
		 turns->cpu_ns ? 100 * (double)turns->cost_ns / (double)turns->cpu_ns : 0,
		 turns->share_ppm / 1e4);
	fact(&t->line, LINE_PLAIN, buf);
	if (!always)
		fact(&t->line, LINE_YELLOW, "calls of the other time were not seen");
	line_end(&t->line);
}

static void print_calls(struct text *t, const struct profile_endpoint *e, const struct summary *s)
{
	const struct latency *lat = &e->latency;
	struct line *l = &t->line;
	double seconds = profile_probed_ns(t->p) / 1e9;
	char buf[64], n[32];

	line_text(l, LINE_BOLD, string(t, e->name));
	if (!lat->n_enter) {
		fact(l, LINE_YELLOW,
		     e->unprobed ? "not probed: no process was seen that has it" : "no calls seen");
		line_end(l);
		return;
	}
	snprintf(buf, sizeof(buf), "%s %s%s", grouped(n, lat->n_enter),
		 t->p->only_kept ? "kept span" : "call", lat->n_enter == 1 ? "" : "s");
	fact(l, LINE_PLAIN, buf);
	if (seconds > 0 && !t->p->only_kept) {
		double rate = lat->n_enter / seconds;

		snprintf(buf, sizeof(buf), rate < 10 ? "%.2g/s" : "%.0f/s", rate);
		fact(l, LINE_PLAIN, buf);
	}
	if (lat->n_leave) {
		snprintf(buf, sizeof(buf), "p50 %s",
			 duration(n, summary_quantile(s, t->p, lat, 0.50)));
		fact(l, LINE_PLAIN, buf);
		snprintf(buf, sizeof(buf), "p99 %s",
			 duration(n, summary_quantile(s, t->p, lat, 0.99)));
		fact(l, LINE_PLAIN, buf);
	}
	if (s->max_ns) {
		snprintf(buf, sizeof(buf), "max %s%s", duration(n, s->max_ns),
			 s->max_reason == WIRE_END_TASK_END ? " (unfinished)"
			 : s->max_reason == WIRE_END_CUT    ? " (seen in part)"
							    : "");
		fact(l, LINE_BOLD, buf);
	}
	line_end(l);
}

static void append(char *buf, size_t n, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Appends an item to a list separated by commas. */
static void append(char *buf, size_t n, const char *format, ...)
{
	size_t used = strlen(buf);
	char item[128];
	va_list ap;

	va_start(ap, format);
	vsnprintf(item, sizeof(item), format, ap);
	va_end(ap);
	snprintf(buf + used, n - used, "%s%s", used ? ", " : "", item);
}

/* Slow calls that no span stands for: they are in the histogram only. */
static uint64_t n_left_out(const struct summary *s)
{
	uint64_t n = 0;

	for (size_t i = 0; i < s->names.n; i++)
		n += s->names.at[i].n_slow;
	return s->n_slow > n ? s->n_slow - n : 0;
}

/* "18 not profiled (--max-parallel)"; the reasons are those of all endpoints. */
static void print_left_out(struct text *t, uint64_t n)
{
	static const struct {
		unsigned int counter;
		const char *reason;
	} table[] = {
		{WIRE_C_PARALLEL_LIMIT, "--max-parallel"},
		{WIRE_C_SPAN_LIMIT, "--max-samples"},
		{COUNTER_NAME_MISMATCH, "match="},
		{WIRE_C_NAMED_LIMIT, "too many open spans"},
		{WIRE_C_RING_FULL_PROMOTED, "--ring"},
		{COUNTER_SPAN_TABLE_FULL, "too many profiled at a time"},
		{WIRE_C_SLOW_UNSEEN, "over before a snapshot was due"},
	};
	char reasons[192] = "", buf[256];

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (t->p->counters.v[table[i].counter])
			append(reasons, sizeof(reasons), "%s", table[i].reason);
	snprintf(buf, sizeof(buf), "%" PRIu64 " not profiled (%s)", n,
		 *reasons ? reasons : "over before a snapshot was taken");
	fact(&t->line, LINE_YELLOW, buf);
}

static void print_profiled(struct text *t, const struct profile_endpoint *e,
			   const struct summary *s)
{
	struct line *l = &t->line;
	char buf[96], n[32];

	line_pad(l, INDENT);
	snprintf(buf, sizeof(buf), "%" PRIu64 " slower than %s", s->n_slow,
		 duration(n, e->threshold_ns));
	fact(l, LINE_PLAIN, buf);
	snprintf(buf, sizeof(buf), "%" PRIu64 " profiled", s->n_profiled);
	fact(l, LINE_PLAIN, buf);
	if (n_left_out(s))
		print_left_out(t, n_left_out(s));
	if (s->n_unfinished) {
		snprintf(buf, sizeof(buf), "%" PRIu64 " unfinished", s->n_unfinished);
		fact(l, LINE_RED, buf);
	}
	if (s->n_profiled) {
		snprintf(buf, sizeof(buf), "complete %s%s", percent(n, summary_completeness(s)),
			 of_what(t));
		fact(l, s->n_kept < s->n_due ? LINE_YELLOW : LINE_PLAIN, buf);
	}
	if (e->latency.n_unwound) {
		snprintf(buf, sizeof(buf), "%" PRIu64 " left by exception or longjmp",
			 e->latency.n_unwound);
		fact(l, LINE_PLAIN, buf);
	}
	if (s->n_unseen) {
		snprintf(buf, sizeof(buf), "%" PRIu64 " end%s not seen", s->n_unseen,
			 s->n_unseen == 1 ? "" : "s");
		fact(l, LINE_YELLOW, buf);
	}
	line_end(l);
}

/* The causes, and waits of unknown ones that were over before a snapshot could be due. */
enum { CAUSE_BEFORE = BLOCK_CAUSE_MAX, CAUSES };

static unsigned int cause_of(const struct profile *p, const struct profile_sample *x)
{
	const struct profile_stack *s = &p->stacks.at[x->stack];
	uint32_t leaf;

	if (x->cause != BLOCK_NONE || !s->n)
		return x->cause;
	leaf = p->locations.at[p->stack_runs.at[s->first]].first_frame;
	return profile_frame_is_gap(p, p->frame_runs.at[leaf], PROFILE_GAP_BEFORE) ? CAUSE_BEFORE
										   : x->cause;
}

static const char *cause_name(unsigned int cause)
{
	if (cause == CAUSE_BEFORE)
		return "before threshold";
	return cause == BLOCK_NONE ? "cause unknown" : block_cause_name(cause);
}

/* What the span waited for, largest first: "lock 400.1, net 122.2"; at most three, from 1 % on. */
static void append_causes(const struct text *t, const struct profile_span *s, char *buf, size_t n)
{
	uint64_t by_cause[CAUSES] = {};

	for (uint32_t i = 0; i < s->n_samples; i++) {
		const struct profile_sample *x = &t->p->samples.at[s->first_sample + i];

		if (x->kind == SAMPLE_BLOCKED)
			by_cause[cause_of(t->p, x)] += x->wall_ns;
	}
	for (int k = 0; k < 3; k++) {
		unsigned int top = 0;

		for (unsigned int c = 1; c < CAUSES; c++)
			if (by_cause[c] > by_cause[top])
				top = c;
		if (!by_cause[top] || by_cause[top] < summary_span_ns(s) / 100)
			return;
		append(buf, n, "%s %.1f", cause_name(top), by_cause[top] / 1e6);
		by_cause[top] = 0;
	}
}

/* How a span ended, when that is worth a word. */
static const char *end_text(unsigned int reason)
{
	switch (reason) {
	case WIRE_END_RETURN:
	case WIRE_END_END_PROBE:
		return NULL;
	case WIRE_END_UNWOUND:
		return "left by longjmp or exception";
	case WIRE_END_LEAVE_UNSEEN:
		return "end not seen";
	case WIRE_END_THREAD_EXIT:
		return "thread exited";
	case WIRE_END_PROCESS_EXIT:
		return "process exited";
	case WIRE_END_EXEC:
		return "process called exec";
	case WIRE_END_TASK_END:
		return "UNFINISHED";
	case WIRE_END_CUT:
		return "seen in part: the probes rested";
	default:
		return "end unknown";
	}
}

/* name_width 0: the name does not fit beside the numbers and has a line of its own. */
static void print_span(struct text *t, const struct profile_span *s, unsigned int name_width)
{
	const uint64_t numbers[] = {summary_span_ns(s), s->oncpu_ns, s->runq_ns, s->blocked_ns};
	const unsigned int widths[] = {12, 9, 11, 9};
	struct line *l = &t->line;
	const char *end = end_text(s->end_reason);
	char buf[256];

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		snprintf(buf, sizeof(buf), "%.1f", numbers[i] / 1e6);
		line_right(l, i ? LINE_PLAIN : LINE_BOLD, buf, widths[i]);
	}
	snprintf(buf, sizeof(buf), "%" PRIu32, s->tid);
	line_right(l, LINE_DIM, buf, 8);
	if (!name_width) {
		line_end(l);
		line_pad(l, NARROW_NAME_AT - 2);
	}
	line_pad(l, 2);
	line_cell(l, LINE_PLAIN, string(t, s->name), name_width);
	if (!name_width)
		line_text(l, LINE_PLAIN, string(t, s->name));
	buf[0] = 0;
	if (end)
		append(buf, sizeof(buf), "%s", end);
	append_causes(t, s, buf, sizeof(buf));
	if (s->n_kept < s->n_due)
		append(buf, sizeof(buf), "%" PRIu32 " of %" PRIu32 " snapshots", s->n_kept,
		       s->n_due);
	if (*buf && escape_width(buf, l->limit) + 2 > line_room(l)) {
		line_end(l);
		line_pad(l, name_width && SPAN_NAME_AT + 2 + escape_width(buf, l->limit) <= l->limit
				    ? SPAN_NAME_AT
				    : NARROW_NAME_AT);
	}
	line_pad(l, 2);
	line_text(l, end || s->n_kept < s->n_due ? LINE_YELLOW : LINE_PLAIN, buf);
	line_end(l);
}

static void print_slowest(struct text *t, const struct summary *s)
{
	size_t n = t->o->n_slowest ? t->o->n_slowest : SLOWEST_DEFAULT;
	struct line *l = &t->line;
	unsigned int width = 4, room = l->limit > SPAN_NAME_AT ? l->limit - SPAN_NAME_AT : 0;

	if (n > s->spans.n)
		n = s->spans.n;
	for (size_t i = 0; i < n; i++) {
		uint32_t name = t->p->spans.at[s->spans.at[i]].name;
		unsigned int w = escape_width(string(t, name), NAME_WIDTH_MAX);

		width = w > width ? w : width;
	}
	if (width > NAME_WIDTH_MAX)
		width = NAME_WIDTH_MAX;
	if (width > room)
		width = room >= NAME_WIDTH_MIN ? room : 0;
	line_text(l, LINE_DIM, "  slowest ms   on-CPU  run queue  blocked     tid  span");
	line_end(l);
	for (size_t i = 0; i < n; i++)
		print_span(t, &t->p->spans.at[s->spans.at[i]], width);
}

static void print_name(struct text *t, const char *max, uint64_t n_slow, uint64_t n_profiled,
		       const char *name)
{
	struct line *l = &t->line;
	char buf[32];

	line_right(l, LINE_BOLD, max, 12);
	snprintf(buf, sizeof(buf), "%" PRIu64, n_slow);
	line_right(l, LINE_PLAIN, buf, 9);
	snprintf(buf, sizeof(buf), "%" PRIu64, n_profiled);
	line_right(l, LINE_PLAIN, buf, 11);
	line_pad(l, 2);
	line_text(l, LINE_PLAIN, name);
	line_end(l);
}

static void print_names(struct text *t, const struct profile_endpoint *e, const struct summary *s)
{
	struct line *l = &t->line;
	char max[32];

	if (!s->names.n || (s->names.n == 1 && s->names.at[0].name == e->name))
		return;
	line_end(l);
	line_text(l, LINE_DIM, "      max ms     slow   profiled  name");
	line_end(l);
	for (size_t i = 0; i < s->names.n && i < NAMES_MAX; i++) {
		const struct summary_name *n = &s->names.at[i];

		snprintf(max, sizeof(max), "%.1f", n->max_ns / 1e6);
		print_name(t, max, n->n_slow, n->n_profiled, string(t, n->name));
	}
	if (s->names.n > NAMES_MAX) {
		line_printf(l, LINE_DIM, "  and %zu more names", s->names.n - NAMES_MAX);
		line_end(l);
	}
	if (n_left_out(s))
		print_name(t, "-", n_left_out(s), 0, "(not profiled)");
}

static bool of_endpoint(const struct profile_span *span, void *ctx)
{
	return span->endpoint == *(const uint32_t *)ctx;
}

/* What to do when much of the time is from before the snapshots. */
static void print_hint(struct text *t, const struct tree *tree)
{
	uint64_t total = tree->nodes.at[0].total_ns, before = 0;

	for (size_t i = 1; i < tree->nodes.n; i++) {
		if (profile_frame_is_gap(t->p, tree->nodes.at[i].frame, PROFILE_GAP_BEFORE))
			before += tree->nodes.at[i].self_ns;
	}
	if (before <= total / 4)
		return;
	line_pad(&t->line, INDENT);
	line_printf(&t->line, LINE_DIM,
		    "%s is %.0f %% of the time: --from-start shows what is in it",
		    profile_gap_text(PROFILE_GAP_BEFORE), 100.0 * before / total);
	line_end(&t->line);
}

static int print_endpoint(struct text *t, uint32_t endpoint)
{
	const struct profile_endpoint *e = &t->p->endpoints.at[endpoint];
	CLEANUP(summary_deinit) struct summary s = {};
	CLEANUP(tree_deinit) struct tree tree = {};
	int r;

	line_end(&t->line);
	r = summary_init(&s, t->p, endpoint);
	if (r)
		return r;
	print_calls(t, e, &s);
	if (e->latency.n_enter || s.spans.n)
		print_profiled(t, e, &s);
	if (!s.spans.n)
		return 0;
	line_end(&t->line);
	print_slowest(t, &s);
	print_names(t, e, &s);
	if (!s.n_profiled)
		return 0;
	r = tree_build(t->p, TREE_BY_FUNCTION, of_endpoint, &endpoint, &tree);
	if (r)
		return r;
	line_end(&t->line);
	r = text_tree_print(t->p, &tree, string(t, e->name), t->o->rows, &t->line);
	if (!r && !t->p->only_kept)
		print_hint(t, &tree);
	return r;
}

/* "2 stacks incomplete (no_cfi 1, truncated 1)" */
static void append_stops(const struct text *t, char *buf, size_t n)
{
	uint64_t by_stop[STACK_STOP_MAX] = {}, total = 0;
	char list[512] = "";

	for (size_t i = 1; i < t->p->samples.n; i++) {
		const struct profile_sample *s = &t->p->samples.at[i];
		uint8_t stop = t->p->stacks.at[s->stack].stop;

		if (stop == STACK_STOP_ENDPOINT || stop == STACK_STOP_NONE)
			continue;
		by_stop[stop] += s->count;
		total += s->count;
	}
	if (!total)
		return;
	for (unsigned int i = 0; i < STACK_STOP_MAX; i++)
		if (by_stop[i])
			append(list, sizeof(list), "%s %" PRIu64, stack_stop_name(i), by_stop[i]);
	snprintf(buf, n, "; %" PRIu64 " stack%s incomplete (%s)", total, total == 1 ? "" : "s",
		 list);
}

static void print_completeness(struct text *t)
{
	struct line *l = &t->line;
	struct summary s;
	char buf[32], stops[640] = "", text[768];

	summary_totals(&s, t->p);
	append_stops(t, stops, sizeof(stops));
	line_printf(l, LINE_BOLD, "complete %s%s", percent(buf, summary_completeness(&s)),
		    of_what(t));
	if (s.n_due)
		snprintf(text, sizeof(text), ": %" PRIu64 " of %" PRIu64 " snapshots kept%s",
			 s.n_kept, s.n_due, stops);
	else
		snprintf(text, sizeof(text), ": no snapshots were due%s", stops);
	line_wrap(l, LINE_PLAIN, text, INDENT);
}

static void print_counters(struct text *t)
{
	struct line *l = &t->line;
	char buf[32];

	for (unsigned int i = 0; i < COUNTER_MAX; i++) {
		if (!t->p->counters.v[i] || !(t->o->verbose || counter_is_loss(i)))
			continue;
		line_right(l, counter_is_loss(i) ? LINE_YELLOW : LINE_PLAIN,
			   grouped(buf, t->p->counters.v[i]), 10);
		line_printf(l, LINE_PLAIN, "  %s", counter_name(i));
		line_text(l, LINE_PLAIN, ": ");
		line_wrap(l, LINE_DIM, counter_help(i), 14);
	}
}

int text_write(const struct profile *p, const struct export_options *o, FILE *out, struct errmsg *e)
{
	struct text t = {.p = p, .o = o};
	int r;

	line_init(&t.line, out, o->columns, o->color);
	print_run(&t);
	print_turns(&t);
	for (uint32_t i = 1; i < p->endpoints.n; i++) {
		if (p->endpoints.at[i].absent)
			continue;
		r = print_endpoint(&t, i);
		if (r)
			return errmsg_set(e, r, "cannot write the report: out of memory");
	}
	line_end(&t.line);
	print_completeness(&t);
	print_counters(&t);
	return 0;
}
