/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof.c: a profile as gzipped pprof protobuf.
 *
 * Values of a sample: snapshots, wall nanoseconds (the default). Samples of one span with the same
 * stack and state are one. Labels: endpoint, span, thread, process, state. Everything of the
 * message lives in one arena.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>

#include "base/cleanup.h"
#include "export/arena.h"
#include "export/dict.h"
#include "export/formats.h"
#include "export/group.h"
#include "export/gzip.h"
#include "export/summary.h"
#include "pprof.pb-c.h"

enum label { LABEL_ENDPOINT, LABEL_SPAN, LABEL_THREAD, LABEL_PROCESS, LABEL_STATE, LABELS };

enum { VALUES = 2 };

struct pprof {
	const struct profile *p;
	struct arena arena;
	struct dict dict;
	struct groups groups;
	uint64_t **stacks;    /* owned; stack -> location ids in the arena, shared by its samples */
	int64_t keys[LABELS]; /* strings of the labels' keys */
	int64_t states[SAMPLE_KIND_MAX][BLOCK_CAUSE_MAX];
	Pprof__Profile message; /* its parts are in the arena */
	VEC(int64_t) comments;
};

static void pprof_deinit(struct pprof *b)
{
	arena_deinit(&b->arena);
	dict_deinit(&b->dict);
	groups_deinit(&b->groups);
	vec_free(&b->comments);
	free(b->stacks);
}

static int text_index(struct pprof *b, const char *text, int64_t *ret)
{
	uint32_t idx;
	int r = dict_text(&b->dict, text, &idx);

	if (!r)
		*ret = idx;
	return r;
}

static int fill_mappings(struct pprof *b, Pprof__Profile *m)
{
	const struct dict *d = &b->dict;

	m->mapping = arena_rows(&b->arena, d->mappings.n - 1, sizeof(Pprof__Mapping));
	if (!m->mapping)
		return -ENOMEM;
	for (; m->n_mapping < d->mappings.n - 1; m->n_mapping++) {
		const struct dict_mapping *row = &d->mappings.at[m->n_mapping + 1];
		const struct profile_module *module = &b->p->modules.at[row->module];
		Pprof__Mapping *out = m->mapping[m->n_mapping];

		pprof__mapping__init(out);
		out->id = m->n_mapping + 1;
		out->memory_start = module->start;
		out->memory_limit = module->limit;
		out->file_offset = module->offset;
		out->filename_str = row->filename;
		out->build_id_str = row->build_id;
		out->has_functions = row->has_functions;
		out->has_filenames = row->has_filenames;
		out->has_line_numbers = row->has_line_numbers;
		out->has_inline_frames = row->has_inline_frames;
	}
	return 0;
}

static int fill_functions(struct pprof *b, Pprof__Profile *m)
{
	const struct dict *d = &b->dict;

	m->function = arena_rows(&b->arena, d->functions.n - 1, sizeof(Pprof__Function));
	if (!m->function)
		return -ENOMEM;
	for (; m->n_function < d->functions.n - 1; m->n_function++) {
		const struct dict_function *row = &d->functions.at[m->n_function + 1];
		Pprof__Function *out = m->function[m->n_function];

		pprof__function__init(out);
		out->id = m->n_function + 1;
		out->name_str = row->name;
		out->system_name_str = row->system_name;
		out->filename_str = row->file;
		out->start_line = row->start_line;
	}
	return 0;
}

static int fill_lines(struct pprof *b, const struct dict_location *row, Pprof__Location *out)
{
	out->line = arena_rows(&b->arena, row->n_lines, sizeof(Pprof__Line));
	if (!out->line)
		return -ENOMEM;
	for (; out->n_line < row->n_lines; out->n_line++) {
		const struct dict_line *line = &b->dict.lines.at[row->first_line + out->n_line];

		pprof__line__init(out->line[out->n_line]);
		out->line[out->n_line]->function_id = line->function;
		out->line[out->n_line]->line = line->line;
	}
	return 0;
}

static int fill_locations(struct pprof *b, Pprof__Profile *m)
{
	const struct dict *d = &b->dict;
	int r = 0;

	m->location = arena_rows(&b->arena, d->locations.n - 1, sizeof(Pprof__Location));
	if (!m->location)
		return -ENOMEM;
	for (; m->n_location < d->locations.n - 1 && !r; m->n_location++) {
		const struct dict_location *row = &d->locations.at[m->n_location + 1];
		Pprof__Location *out = m->location[m->n_location];

		pprof__location__init(out);
		out->id = m->n_location + 1;
		out->mapping_id = row->mapping;
		out->address = row->address;
		r = fill_lines(b, row, out);
	}
	return r;
}

static int fill_stack(struct pprof *b, uint32_t stack, Pprof__Sample *out)
{
	const struct profile_stack *s = &b->p->stacks.at[stack];
	uint32_t idx = 0;
	int r = 0;

	if (!b->stacks[stack]) {
		b->stacks[stack] = arena_alloc(&b->arena, s->n, sizeof(uint64_t));
		if (!b->stacks[stack])
			return -ENOMEM;
		for (uint32_t i = 0; i < s->n && !r; i++) {
			r = dict_location(&b->dict, b->p->stack_runs.at[s->first + i], &idx);
			b->stacks[stack][i] = idx;
		}
	}
	out->location_id = b->stacks[stack];
	out->n_location_id = s->n;
	return r;
}

/* "on-cpu", "blocked:lock" ... */
static int state_index(struct pprof *b, const struct group *g, int64_t *ret)
{
	int64_t *cached = &b->states[g->kind][g->cause];
	char text[64];
	int r = 0;

	if (!*cached) {
		snprintf(text, sizeof(text), "%s%s%s", sample_kind_name(g->kind),
			 g->cause != BLOCK_NONE ? ":" : "", block_cause_name(g->cause));
		r = text_index(b, text, cached);
	}
	*ret = *cached;
	return r;
}

static int name_index(struct pprof *b, uint32_t name, int64_t *ret)
{
	uint32_t idx = 0;
	int r = dict_string(&b->dict, name, &idx);

	*ret = idx;
	return r || idx ? r : text_index(b, "[unnamed]", ret);
}

static int fill_labels(struct pprof *b, const struct group *g, Pprof__Sample *out)
{
	const struct profile_span *span = &b->p->spans.at[g->span];
	int r;

	out->label = arena_rows(&b->arena, LABELS, sizeof(Pprof__Label));
	if (!out->label)
		return -ENOMEM;
	for (; out->n_label < LABELS; out->n_label++) {
		pprof__label__init(out->label[out->n_label]);
		out->label[out->n_label]->key_str = b->keys[out->n_label];
	}
	out->label[LABEL_SPAN]->num = span->span_id;
	out->label[LABEL_THREAD]->num = span->tid;
	out->label[LABEL_PROCESS]->num = span->tgid;
	r = name_index(b, span->name, &out->label[LABEL_ENDPOINT]->str_str);
	return r ? r : state_index(b, g, &out->label[LABEL_STATE]->str_str);
}

static int init_labels(struct pprof *b)
{
	static const char *const keys[] = {
		[LABEL_ENDPOINT] = "endpoint", [LABEL_SPAN] = "span",   [LABEL_THREAD] = "thread",
		[LABEL_PROCESS] = "process",   [LABEL_STATE] = "state",
	};
	int r = 0;

	_Static_assert(ARRAY_SIZE(keys) == LABELS, "keys");
	b->stacks = calloc(b->p->stacks.n, sizeof(*b->stacks));
	if (!b->stacks)
		return -ENOMEM;
	for (size_t i = 0; i < LABELS && !r; i++)
		r = text_index(b, keys[i], &b->keys[i]);
	return r;
}

/* Of the outermost frame that is in a file; 0: none is. The endpoint's own may be made up. */
static uint32_t main_module(const struct profile *p, const struct profile_stack *s)
{
	for (uint32_t i = s->n; i-- > 0;) {
		uint32_t m = p->locations.at[p->stack_runs.at[s->first + i]].module;
		const char *path = strpool_get(p->strings, p->modules.at[m].path);

		if (m && path[0] != '[')
			return m;
	}
	return 0;
}

/* The first mapping is to be the program. */
static int add_main_mapping(struct pprof *b)
{
	const struct profile *p = b->p;
	uint32_t idx, module = 0;

	for (size_t i = 1; i < p->samples.n && !module; i++)
		module = main_module(p, &p->stacks.at[p->samples.at[i].stack]);
	return module ? dict_mapping(&b->dict, module, &idx) : 0;
}

static int fill_samples(struct pprof *b, Pprof__Profile *m)
{
	int r = init_labels(b);

	if (!r)
		r = add_main_mapping(b);
	if (!r)
		r = groups_init(&b->groups, b->p);
	if (r)
		return r;
	m->sample = arena_rows(&b->arena, b->groups.at.n, sizeof(Pprof__Sample));
	if (!m->sample)
		return -ENOMEM;
	for (; m->n_sample < b->groups.at.n && !r; m->n_sample++) {
		const struct group *g = &b->groups.at.at[m->n_sample];
		Pprof__Sample *out = m->sample[m->n_sample];

		pprof__sample__init(out);
		out->value = arena_alloc(&b->arena, VALUES, sizeof(*out->value));
		if (!out->value)
			return -ENOMEM;
		out->n_value = VALUES;
		out->value[0] = g->count;
		out->value[1] = g->wall_ns;
		r = fill_stack(b, g->stack, out);
		if (!r)
			r = fill_labels(b, g, out);
	}
	return r;
}

static int add_comment(struct pprof *b, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int add_comment(struct pprof *b, const char *format, ...)
{
	char text[512];
	int64_t idx;
	va_list ap;
	int r;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	r = text_index(b, text, &idx);
	return r ? r : vec_push(&b->comments, idx);
}

static int fill_comments(struct pprof *b, Pprof__Profile *m)
{
	const struct profile *p = b->p;
	struct summary s;
	int r;

	summary_totals(&s, p);
	r = add_comment(b, "spanprof: host %.200s, kernel %.200s",
			strpool_get(p->strings, p->hostname),
			strpool_get(p->strings, p->kernel_release));
	if (!r && p->turns.share_ppm)
		r = add_comment(b,
				"probed for %" PRIu64 " of %" PRIu64 " ns, in %" PRIu64
				" turns, to stay below %.4g %% of the CPU time; cost %" PRIu64
				" of %" PRIu64 " ns",
				p->turns.probed_ns, p->duration_ns, p->turns.n_turns,
				p->turns.share_ppm / 1e4, p->turns.cost_ns, p->turns.cpu_ns);
	if (!r)
		r = add_comment(b,
				"completeness: %.4f (%" PRIu64 " of %" PRIu64
				" snapshots kept, %" PRIu64 " with incomplete stacks)",
				summary_completeness(&s), s.n_kept, s.n_due, s.n_incomplete);
	for (uint32_t i = 1; i < p->endpoints.n && !r; i++) {
		const struct profile_endpoint *e = &p->endpoints.at[i];

		summary_counts(&s, p, i);
		r = add_comment(b,
				"endpoint %.200s: %" PRIu64 " calls, %" PRIu64
				" slower than %" PRIu64 " ns, max %" PRIu64 " ns",
				strpool_get(p->strings, e->name), e->latency.n_enter, s.n_slow,
				e->threshold_ns, s.max_ns);
	}
	for (unsigned int i = 0; i < COUNTER_MAX && !r; i++)
		if (p->counters.v[i] && counter_is_loss(i))
			r = add_comment(b, "lost: %" PRIu64 " %s", p->counters.v[i],
					counter_name(i));
	m->n_comment_str = b->comments.n;
	m->comment_str = b->comments.at;
	return r;
}

static int fill_types(struct pprof *b, Pprof__Profile *m)
{
	static const char *const names[VALUES][2] = {{"samples", "count"}, {"wall", "nanoseconds"}};
	int r = 0;

	m->sample_type = arena_rows(&b->arena, VALUES, sizeof(Pprof__ValueType));
	if (!m->sample_type)
		return -ENOMEM;
	for (; m->n_sample_type < VALUES && !r; m->n_sample_type++) {
		Pprof__ValueType *out = m->sample_type[m->n_sample_type];

		pprof__value_type__init(out);
		r = text_index(b, names[m->n_sample_type][0], &out->type_str);
		if (!r)
			r = text_index(b, names[m->n_sample_type][1], &out->unit_str);
	}
	m->default_sample_type_str = m->sample_type[1]->type_str;
	m->period_type = m->sample_type[1];
	return r;
}

static int pack(struct pprof *b, Pprof__Profile *m, FILE *out)
{
	AUTO_FREE uint8_t *data = NULL;
	size_t bytes;

	m->n_string_table = strpool_count(b->dict.strings);
	m->string_table = arena_alloc(&b->arena, m->n_string_table, sizeof(char *));
	if (!m->string_table)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->n_string_table; i++)
		m->string_table[i] = (char *)strpool_get(b->dict.strings, i);
	bytes = pprof__profile__get_packed_size(m);
	data = malloc(bytes);
	if (!data)
		return -ENOMEM;
	pprof__profile__pack(m, data);
	return gzip_write(out, data, bytes);
}

static int write_message(struct pprof *b, FILE *out)
{
	const struct profile *p = b->p;
	Pprof__Profile *m = &b->message;
	int r;

	pprof__profile__init(m);
	r = fill_types(b, m);
	if (!r)
		r = fill_samples(b, m);
	if (!r)
		r = fill_comments(b, m);
	if (!r)
		r = fill_mappings(b, m);
	if (!r)
		r = fill_functions(b, m);
	if (!r)
		r = fill_locations(b, m);
	if (r)
		return r;
	for (uint32_t i = 1; i < p->endpoints.n; i++)
		if (!m->period || p->endpoints.at[i].period_ns < (uint64_t)m->period)
			m->period = p->endpoints.at[i].period_ns;
	m->time_nanos = p->start_real_ns;
	m->duration_nanos = p->duration_ns;
	return pack(b, m, out);
}

int pprof_write(const struct profile *p, const struct export_options *o, FILE *out,
		struct errmsg *e)
{
	CLEANUP(pprof_deinit) struct pprof b = {.p = p};
	int r = dict_init(&b.dict, p);

	if (!r)
		r = write_message(&b, out);
	if (r == -EIO)
		return errmsg_set(e, r, "cannot write the pprof profile: write error");
	if (r)
		return errmsg_set(e, r, "cannot build the pprof profile: %s",
				  r == -ENOSPC ? "its names take more than 256 MiB"
					       : "out of memory");
	return 0;
}
