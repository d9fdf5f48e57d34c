/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof.c: a profile as gzipped pprof protobuf.
 *
 * Values of a sample: snapshots, wall nanoseconds (the default). Samples of one span with the same
 * stack and state are one. Labels: endpoint, span, thread, process, state.
 *
 * Addresses: the same module may be mapped elsewhere in each process; all of its locations are put
 * where its first mapping was seen. Everything of the message lives in one arena.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "export/arena.h"
#include "export/escape.h"
#include "export/formats.h"
#include "export/gzip.h"
#include "export/summary.h"
#include "pprof.pb-c.h"

enum { STRINGS_MAX_BYTES = 256 << 20, LABELS = 5, VALUES = 2 };

/* Samples of one span that differ in time only. */
struct group {
	uint32_t span;
	uint32_t stack;
	uint8_t kind;
	uint8_t cause;
	uint64_t wall_ns;
	uint64_t count;
};

struct pprof {
	const struct profile *p;
	struct arena arena;
	struct strpool *strings; /* owned: the string table, ids are its indexes */
	uint32_t *string_ids;    /* string of the profile -> index, 0: not yet */
	uint32_t *module_ids;    /* module -> mapping id, 0: not yet */
	uint32_t *location_ids;  /* location -> location id, 0: not yet */
	struct hash text_ids;    /* made-up frame (string index) -> location id */
	struct hash function_ids;
	struct hash group_ids;
	VEC(struct group) groups;
	VEC(Pprof__Mapping *) mappings;
	VEC(Pprof__Location *) locations;
	VEC(Pprof__Function *) functions;
	VEC(int64_t) comments;
};

static void pprof_deinit(struct pprof *b)
{
	arena_deinit(&b->arena);
	strpool_free(b->strings);
	free(b->string_ids);
	free(b->module_ids);
	free(b->location_ids);
	hash_deinit(&b->function_ids);
	hash_deinit(&b->group_ids);
	vec_free(&b->groups);
	vec_free(&b->mappings);
	vec_free(&b->locations);
	vec_free(&b->functions);
	vec_free(&b->comments);
}

static int pprof_init(struct pprof *b, const struct profile *p)
{
	b->p = p;
	hash_init(&b->function_ids);
	hash_init(&b->group_ids);
	b->string_ids = calloc(strpool_count(p->strings), sizeof(uint32_t));
	b->module_ids = calloc(p->modules.n, sizeof(uint32_t));
	b->location_ids = calloc(p->locations.n, sizeof(uint32_t));
	if (!b->string_ids || !b->module_ids || !b->location_ids)
		return -ENOMEM;
	return strpool_new(&b->strings, STRINGS_MAX_BYTES);
}

static int add_text(struct pprof *b, const char *text, int64_t *ret_idx)
{
	AUTO_FREE char *clean = escape_dup(text);
	uint32_t id;
	int r;

	if (!clean)
		return -ENOMEM;
	r = strpool_add(b->strings, clean, &id);
	if (!r)
		*ret_idx = id;
	return r;
}

/* A string of the profile, by its id there. */
static int add_string(struct pprof *b, uint32_t string, int64_t *ret_idx)
{
	int r = 0;

	if (string >= strpool_count(b->p->strings))
		string = 0;
	if (string && !b->string_ids[string]) {
		r = add_text(b, strpool_get(b->p->strings, string), ret_idx);
		if (!r)
			b->string_ids[string] = *ret_idx;
	}
	*ret_idx = b->string_ids[string];
	return r;
}

static int add_mapping(struct pprof *b, uint32_t module, uint64_t *ret_id)
{
	const struct profile_module *m = &b->p->modules.at[module];
	char hex[2 * BUILD_ID_MAX + 1] = "";
	Pprof__Mapping *out;
	int r;

	if (!module || b->module_ids[module]) {
		*ret_id = b->module_ids[module];
		return 0;
	}
	out = arena_alloc(&b->arena, 1, sizeof(*out));
	if (!out)
		return -ENOMEM;
	pprof__mapping__init(out);
	for (size_t i = 0; i < m->build_id_bytes && i < BUILD_ID_MAX; i++)
		snprintf(hex + 2 * i, 3, "%02x", m->build_id[i]);
	r = add_string(b, m->path, &out->filename_str);
	if (!r)
		r = add_text(b, hex, &out->build_id_str);
	if (!r)
		r = vec_push(&b->mappings, out);
	if (r)
		return r;
	out->id = b->mappings.n;
	out->memory_start = m->start;
	out->memory_limit = m->limit;
	out->file_offset = m->offset;
	b->module_ids[module] = out->id;
	*ret_id = out->id;
	return 0;
}

/* The id of the equal function; the candidate becomes part of the message when there is none. */
static int intern_function(struct pprof *b, Pprof__Function *f, uint64_t *ret_id)
{
	const int64_t key[] = {f->name_str, f->system_name_str, f->filename_str, f->start_line};
	uint64_t h = hash_bytes(key, sizeof(key), b->function_ids.seed), *found;
	int r;

	for (; (found = hash_get(&b->function_ids, h)); h++) {
		const Pprof__Function *have = b->functions.at[*found - 1];

		if (have->name_str == f->name_str && have->system_name_str == f->system_name_str &&
		    have->filename_str == f->filename_str && have->start_line == f->start_line) {
			*ret_id = have->id;
			return 0;
		}
	}
	r = vec_push(&b->functions, f);
	if (!r)
		r = hash_set(&b->function_ids, h, b->functions.n);
	f->id = *ret_id = b->functions.n;
	return r;
}

/* One function for all frames that differ in the line only. */
static int add_function(struct pprof *b, const struct profile_frame *frame, uint64_t *ret_id)
{
	Pprof__Function *f = arena_alloc(&b->arena, 1, sizeof(*f));
	int r;

	if (!f)
		return -ENOMEM;
	pprof__function__init(f);
	f->start_line = frame->start_line;
	r = add_string(b, frame->function, &f->name_str);
	if (!r)
		r = add_string(b, frame->system_name, &f->system_name_str);
	if (!r)
		r = add_string(b, frame->file, &f->filename_str);
	return r ? r : intern_function(b, f, ret_id);
}

static Pprof__Location *new_location(struct pprof *b, size_t n_lines)
{
	Pprof__Location *out = arena_alloc(&b->arena, 1, sizeof(*out));
	Pprof__Line *lines = arena_alloc(&b->arena, n_lines, sizeof(*lines));

	if (!out)
		return NULL;
	pprof__location__init(out);
	out->line = arena_alloc(&b->arena, n_lines, sizeof(*out->line));
	if (!lines || !out->line || vec_push(&b->locations, out))
		return NULL;
	out->n_line = n_lines;
	for (size_t i = 0; i < n_lines; i++) {
		pprof__line__init(&lines[i]);
		out->line[i] = &lines[i];
	}
	out->id = b->locations.n;
	return out;
}

/* What is known of the frames of a mapping, for the reader's decision to symbolize by itself. */
static void note_frame(Pprof__Mapping *m, const struct profile_frame *f)
{
	m->has_functions |= !(f->flags & PROFILE_FRAME_UNKNOWN);
	m->has_filenames |= f->file != 0;
	m->has_line_numbers |= f->line != 0;
	m->has_inline_frames |= (f->flags & PROFILE_FRAME_INLINED) != 0;
}

static int add_location(struct pprof *b, uint32_t location, uint64_t *ret_id)
{
	const struct profile_location *l = &b->p->locations.at[location];
	Pprof__Location *out;
	int r;

	if (b->location_ids[location]) {
		*ret_id = b->location_ids[location];
		return 0;
	}
	out = new_location(b, l->n_frames);
	if (!out)
		return -ENOMEM;
	out->address = l->address;
	r = add_mapping(b, l->module, &out->mapping_id);
	for (uint32_t i = 0; i < l->n_frames && !r; i++) {
		const struct profile_frame *f =
			&b->p->frames.at[b->p->frame_runs.at[l->first_frame + i]];

		r = add_function(b, f, &out->line[i]->function_id);
		out->line[i]->line = f->line;
		if (!r && out->mapping_id)
			note_frame(b->mappings.at[out->mapping_id - 1], f);
	}
	b->location_ids[location] = *ret_id = out->id;
	return r;
}

static int fill_stack(struct pprof *b, const struct group *g, Pprof__Sample *out)
{
	const struct profile_stack *stack = &b->p->stacks.at[g->stack];
	int r = 0;

	out->location_id = arena_alloc(&b->arena, stack->n, sizeof(*out->location_id));
	if (!out->location_id)
		return -ENOMEM;
	for (uint32_t i = 0; i < stack->n && !r; i++)
		r = add_location(b, b->p->stack_runs.at[stack->first + i],
				 &out->location_id[out->n_location_id++]);
	return r;
}

static int add_label(struct pprof *b, Pprof__Sample *s, const char *key, const char *text,
		     int64_t num)
{
	Pprof__Label *l = arena_alloc(&b->arena, 1, sizeof(*l));
	int r;

	if (!l)
		return -ENOMEM;
	pprof__label__init(l);
	r = add_text(b, key, &l->key_str);
	if (!r && text)
		r = add_text(b, *text ? text : "[unnamed]", &l->str_str);
	l->num = text ? 0 : num;
	s->label[s->n_label++] = l;
	return r;
}

static int fill_labels(struct pprof *b, const struct group *g, Pprof__Sample *out)
{
	const struct profile_span *span = &b->p->spans.at[g->span];
	char state[64];
	int r;

	snprintf(state, sizeof(state), "%s%s%s", sample_kind_name(g->kind),
		 g->cause != BLOCK_NONE ? ":" : "", block_cause_name(g->cause));
	r = add_label(b, out, "endpoint", strpool_get(b->p->strings, span->name), 0);
	if (!r)
		r = add_label(b, out, "span", NULL, span->span_id);
	if (!r)
		r = add_label(b, out, "thread", NULL, span->tid);
	if (!r)
		r = add_label(b, out, "process", NULL, span->tgid);
	return r ? r : add_label(b, out, "state", state, 0);
}

static int add_sample(struct pprof *b, const struct group *g, Pprof__Sample **ret)
{
	Pprof__Sample *out = arena_alloc(&b->arena, 1, sizeof(*out));
	int r;

	if (!out)
		return -ENOMEM;
	pprof__sample__init(out);
	out->value = arena_alloc(&b->arena, VALUES, sizeof(*out->value));
	out->label = arena_alloc(&b->arena, LABELS, sizeof(Pprof__Label *));
	if (!out->value || !out->label)
		return -ENOMEM;
	out->n_value = VALUES;
	out->value[0] = g->count;
	out->value[1] = g->wall_ns;
	r = fill_stack(b, g, out);
	if (!r)
		r = fill_labels(b, g, out);
	*ret = out;
	return r;
}

static int group_sample(struct pprof *b, const struct profile_sample *s)
{
	const uint32_t key[] = {s->span, s->stack, s->kind, s->cause};
	uint64_t h = hash_bytes(key, sizeof(key), b->group_ids.seed), *found;
	struct group *g;
	int r;

	for (; (found = hash_get(&b->group_ids, h)); h++) {
		g = &b->groups.at[*found];
		if (g->span == s->span && g->stack == s->stack && g->kind == s->kind &&
		    g->cause == s->cause)
			break;
	}
	if (!found) {
		r = vec_push(&b->groups, (struct group){s->span, s->stack, s->kind, s->cause});
		if (!r)
			r = hash_set(&b->group_ids, h, b->groups.n - 1);
		if (r)
			return r;
		g = &b->groups.at[b->groups.n - 1];
	}
	g->wall_ns += s->wall_ns;
	g->count += s->count;
	return 0;
}

/* All locations of a module at one load address; see the head of this file. */
static int place_locations(struct pprof *b)
{
	const struct profile *p = b->p;
	AUTO_FREE uint64_t *bias = calloc(p->modules.n, sizeof(*bias));
	AUTO_FREE bool *known = calloc(p->modules.n, sizeof(*known));

	if (!bias || !known)
		return -ENOMEM;
	for (size_t i = 1; i < p->locations.n; i++) {
		const struct profile_location *l = &p->locations.at[i];
		const struct profile_module *m = &p->modules.at[l->module];

		if (!known[l->module] && l->address >= m->start && l->address < m->limit) {
			bias[l->module] = l->address - l->module_off;
			known[l->module] = true;
		}
	}
	for (size_t i = 1; i < p->locations.n; i++) {
		const struct profile_location *l = &p->locations.at[i];
		Pprof__Location *out;

		if (!b->location_ids[i] || !l->module)
			continue;
		out = b->locations.at[b->location_ids[i] - 1];
		out->address = l->module_off + bias[l->module];
	}
	return 0;
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
	r = add_text(b, text, &idx);
	return r ? r : vec_push(&b->comments, idx);
}

static int add_comments(struct pprof *b)
{
	const struct profile *p = b->p;
	struct summary s;
	int r;

	summary_totals(&s, p);
	r = add_comment(b, "spanprof: host %s, kernel %s", strpool_get(p->strings, p->hostname),
			strpool_get(p->strings, p->kernel_release));
	if (!r)
		r = add_comment(b,
				"completeness: %.4f (%" PRIu64 " of %" PRIu64
				" snapshots kept, %" PRIu64 " with incomplete stacks)",
				summary_completeness(&s), s.n_kept, s.n_due, s.n_incomplete);
	for (uint32_t i = 1; i < p->endpoints.n && !r; i++) {
		const struct profile_endpoint *e = &p->endpoints.at[i];

		r = add_comment(b,
				"endpoint %.200s: %" PRIu64 " calls, %" PRIu64
				" slower than %" PRIu64 " ns, max %" PRIu64 " ns",
				strpool_get(p->strings, e->name), e->latency.n_enter,
				e->latency.n_slow, e->threshold_ns, e->latency.max_ns);
	}
	for (unsigned int i = 0; i < COUNTER_MAX && !r; i++)
		if (p->counters.v[i] && counter_is_loss(i))
			r = add_comment(b, "lost: %" PRIu64 " %s", p->counters.v[i],
					counter_name(i));
	return r;
}

static int pack(struct pprof *b, Pprof__Profile *m, FILE *out)
{
	AUTO_FREE uint8_t *data = NULL;
	size_t bytes;

	m->n_string_table = strpool_count(b->strings);
	m->string_table = arena_alloc(&b->arena, m->n_string_table, sizeof(char *));
	if (!m->string_table)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->n_string_table; i++)
		m->string_table[i] = (char *)strpool_get(b->strings, i);
	m->n_mapping = b->mappings.n;
	m->mapping = b->mappings.at;
	m->n_location = b->locations.n;
	m->location = b->locations.at;
	m->n_function = b->functions.n;
	m->function = b->functions.at;
	m->n_comment_str = b->comments.n;
	m->comment_str = b->comments.at;
	bytes = pprof__profile__get_packed_size(m);
	data = malloc(bytes);
	if (!data)
		return -ENOMEM;
	pprof__profile__pack(m, data);
	return gzip_write(out, data, bytes);
}

static int add_samples(struct pprof *b, Pprof__Profile *m)
{
	const struct profile *p = b->p;
	uint64_t id;
	int r = 0;

	/* The first mapping is to be the program: the module of the outermost frame. */
	for (size_t i = 1; i < p->samples.n && !r && !b->mappings.n; i++) {
		const struct profile_stack *stack = &p->stacks.at[p->samples.at[i].stack];

		if (stack->n)
			r = add_mapping(
				b,
				p->locations.at[p->stack_runs.at[stack->first + stack->n - 1]]
					.module,
				&id);
	}
	for (size_t i = 1; i < p->samples.n && !r; i++)
		r = group_sample(b, &p->samples.at[i]);
	m->sample = arena_alloc(&b->arena, b->groups.n, sizeof(Pprof__Sample *));
	if (!m->sample)
		return -ENOMEM;
	for (; m->n_sample < b->groups.n && !r; m->n_sample++)
		r = add_sample(b, &b->groups.at[m->n_sample], &m->sample[m->n_sample]);
	return r ? r : place_locations(b);
}

static int write_message(struct pprof *b, FILE *out)
{
	const struct profile *p = b->p;
	Pprof__Profile m = PPROF__PROFILE__INIT;
	Pprof__ValueType types[VALUES] = {PPROF__VALUE_TYPE__INIT, PPROF__VALUE_TYPE__INIT};
	Pprof__ValueType *type_list[VALUES] = {&types[0], &types[1]};
	int r;

	r = add_text(b, "samples", &types[0].type_str);
	if (!r)
		r = add_text(b, "count", &types[0].unit_str);
	if (!r)
		r = add_text(b, "wall", &types[1].type_str);
	if (!r)
		r = add_text(b, "nanoseconds", &types[1].unit_str);
	if (!r)
		r = add_samples(b, &m);
	if (!r)
		r = add_comments(b);
	if (r)
		return r;
	m.n_sample_type = VALUES;
	m.sample_type = type_list;
	m.default_sample_type_str = types[1].type_str;
	m.period_type = &types[1];
	for (uint32_t i = 1; i < p->endpoints.n; i++)
		if (!m.period || p->endpoints.at[i].period_ns < (uint64_t)m.period)
			m.period = p->endpoints.at[i].period_ns;
	m.time_nanos = p->start_real_ns;
	m.duration_nanos = p->duration_ns;
	return pack(b, &m, out);
}

int pprof_write(const struct profile *p, const struct export_options *o, FILE *out,
		struct errmsg *e)
{
	CLEANUP(pprof_deinit) struct pprof b = {};
	int r = pprof_init(&b, p);

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
