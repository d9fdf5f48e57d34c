/* SPDX-License-Identifier: Apache-2.0 */
/*
 * otlp.c: a profile as OpenTelemetry profiles, v1development: the protobuf that a collector takes at
 * /v1development/profiles.
 *
 * One resource for each process, with one profile of wall nanoseconds; a sample holds the
 * observations of one span in one stack and state, each with its time. Attributes of a sample:
 * thread.id, thread.name, spanprof.endpoint, spanprof.span.id, spanprof.state; of a profile: its
 * completeness and losses. Row 0 of every table is the zero value, as the protocol wants it.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "export/arena.h"
#include "export/dict.h"
#include "export/escape.h"
#include "export/formats.h"
#include "export/group.h"
#include "export/summary.h"
#include "otlp.pb-c.h"

enum {
	SAMPLE_ATTRIBUTES = 5,
	RESOURCE_ATTRIBUTES = 3,
	PROFILE_ID_BYTES = 16,
	TRACE_ID_BYTES = 16,
	SPAN_ID_BYTES = 8,
	VALUES_MAX_BYTES = 256 << 20,
};

struct process {
	uint32_t tgid; /* 0: no process was seen */
	size_t n_groups;
};

struct otlp {
	const struct profile *p;
	struct arena arena;
	struct dict dict;
	struct strpool *values; /* owned; texts of attributes */
	struct groups groups;
	VEC(struct process) processes;
	VEC(Otlp__KeyValueAndUnit *) attributes;
	VEC(int32_t) profile_attributes;
	struct hash attribute_ids;
	uint32_t *stack_ids; /* owned; stack of the profile -> index, 0: not yet */
	VEC(Otlp__Stack *) stacks;
	Otlp__ValueType wall;
	Otlp__InstrumentationScope scope;
	Otlp__ProfilesDictionary tables;
	Otlp__ProfilesData message;
};

static void otlp_deinit(struct otlp *b)
{
	arena_deinit(&b->arena);
	dict_deinit(&b->dict);
	strpool_free(b->values);
	groups_deinit(&b->groups);
	vec_free(&b->processes);
	vec_free(&b->attributes);
	vec_free(&b->profile_attributes);
	hash_deinit(&b->attribute_ids);
	free(b->stack_ids);
	vec_free(&b->stacks);
}

/* An attribute under construction; text is copied. */
struct value {
	const char *text; /* NULL: it is a number */
	int64_t number;
	double real;
	bool is_real;
};

static int set_value(struct otlp *b, Otlp__AnyValue *out, const struct value *v)
{
	uint32_t idx;
	int r;

	otlp__any_value__init(out);
	if (v->is_real) {
		out->value_case = OTLP__ANY_VALUE__VALUE_DOUBLE_VALUE;
		out->double_value = v->real;
	} else if (!v->text) {
		out->value_case = OTLP__ANY_VALUE__VALUE_INT_VALUE;
		out->int_value = v->number;
	} else {
		AUTO_FREE char *clean = escape_dup(v->text);

		r = clean ? strpool_add(b->values, clean, &idx) : -ENOMEM;
		if (r)
			return r;
		out->value_case = OTLP__ANY_VALUE__VALUE_STRING_VALUE;
		out->string_value = (char *)strpool_get(b->values, idx);
	}
	return 0;
}

static bool same_value(const Otlp__AnyValue *a, const Otlp__AnyValue *b)
{
	if (a->value_case != b->value_case)
		return false;
	if (a->value_case == OTLP__ANY_VALUE__VALUE_STRING_VALUE)
		return a->string_value == b->string_value; /* interned */
	return a->int_value == b->int_value;               /* or the bits of a double */
}

/* The index of the attribute in the table, where it is added when it is new. */
static int intern_attribute(struct otlp *b, const char *key, const struct value *v, int32_t *ret)
{
	Otlp__KeyValueAndUnit *out = arena_alloc(&b->arena, 1, sizeof(*out));
	Otlp__AnyValue *any = arena_alloc(&b->arena, 1, sizeof(*any));
	uint64_t h, *found;
	uint32_t idx;
	int r;

	if (!out || !any)
		return -ENOMEM;
	otlp__key_value_and_unit__init(out);
	r = dict_text(&b->dict, key, &idx);
	if (!r)
		r = set_value(b, any, v);
	if (r)
		return r;
	out->key_strindex = idx;
	out->value = any;
	h = hash_mix((uint64_t)any->int_value ^ b->attribute_ids.seed) + idx;
	for (; (found = hash_get(&b->attribute_ids, h)); h++) {
		const Otlp__KeyValueAndUnit *have = b->attributes.at[*found];

		if (have->key_strindex == out->key_strindex && same_value(have->value, any)) {
			*ret = *found;
			return 0;
		}
	}
	r = vec_push(&b->attributes, out);
	if (!r)
		r = hash_set(&b->attribute_ids, h, b->attributes.n - 1);
	if (!r)
		*ret = b->attributes.n - 1;
	return r;
}

static int one_attribute(struct otlp *b, const char *key, const struct value *v, size_t *n,
			 int32_t **indices)
{
	*indices = arena_alloc(&b->arena, 1, sizeof(**indices));
	if (!*indices)
		return -ENOMEM;
	*n = 1;
	return intern_attribute(b, key, v, *indices);
}

static int fill_mappings(struct otlp *b, Otlp__ProfilesDictionary *t)
{
	const struct dict *d = &b->dict;
	int r = 0;

	t->mapping_table = arena_rows(&b->arena, d->mappings.n, sizeof(Otlp__Mapping));
	if (!t->mapping_table)
		return -ENOMEM;
	for (; t->n_mapping_table < d->mappings.n && !r; t->n_mapping_table++) {
		const struct dict_mapping *row = &d->mappings.at[t->n_mapping_table];
		const struct profile_module *module = &b->p->modules.at[row->module];
		Otlp__Mapping *out = t->mapping_table[t->n_mapping_table];

		otlp__mapping__init(out);
		out->memory_start = module->start;
		out->memory_limit = module->limit;
		out->file_offset = module->offset;
		out->filename_strindex = row->filename;
		if (row->build_id)
			r = one_attribute(
				b, "process.executable.build_id.gnu",
				&(struct value){.text = strpool_get(d->strings, row->build_id)},
				&out->n_attribute_indices, &out->attribute_indices);
	}
	return r;
}

static int fill_functions(struct otlp *b, Otlp__ProfilesDictionary *t)
{
	const struct dict *d = &b->dict;

	t->function_table = arena_rows(&b->arena, d->functions.n, sizeof(Otlp__Function));
	if (!t->function_table)
		return -ENOMEM;
	for (; t->n_function_table < d->functions.n; t->n_function_table++) {
		const struct dict_function *row = &d->functions.at[t->n_function_table];
		Otlp__Function *out = t->function_table[t->n_function_table];

		otlp__function__init(out);
		out->name_strindex = row->name;
		out->system_name_strindex = row->system_name;
		out->filename_strindex = row->file;
		out->start_line = row->start_line;
	}
	return 0;
}

static int fill_location(struct otlp *b, const struct dict_location *row, Otlp__Location *out)
{
	const char *type = row->frame_flags & PROFILE_FRAME_KERNEL ? "kernel" : "native";

	otlp__location__init(out);
	out->mapping_index = row->mapping;
	out->address = row->address;
	out->lines = arena_rows(&b->arena, row->n_lines, sizeof(Otlp__Line));
	if (!out->lines)
		return -ENOMEM;
	for (; out->n_lines < row->n_lines; out->n_lines++) {
		const struct dict_line *line = &b->dict.lines.at[row->first_line + out->n_lines];

		otlp__line__init(out->lines[out->n_lines]);
		out->lines[out->n_lines]->function_index = line->function;
		out->lines[out->n_lines]->line = line->line;
	}
	if (!row->n_lines || row->frame_flags & PROFILE_FRAME_SYNTHETIC)
		return 0;
	return one_attribute(b, "profile.frame.type", &(struct value){.text = type},
			     &out->n_attribute_indices, &out->attribute_indices);
}

static int fill_locations(struct otlp *b, Otlp__ProfilesDictionary *t)
{
	const struct dict *d = &b->dict;
	int r = 0;

	t->location_table = arena_rows(&b->arena, d->locations.n, sizeof(Otlp__Location));
	if (!t->location_table)
		return -ENOMEM;
	for (; t->n_location_table < d->locations.n && !r; t->n_location_table++)
		r = fill_location(b, &d->locations.at[t->n_location_table],
				  t->location_table[t->n_location_table]);
	return r;
}

/* The only link is the zero value: spans here are not spans of a trace. */
static int fill_links(struct otlp *b, Otlp__ProfilesDictionary *t)
{
	uint8_t *zero = arena_alloc(&b->arena, 1, TRACE_ID_BYTES + SPAN_ID_BYTES);

	t->link_table = arena_rows(&b->arena, 1, sizeof(Otlp__Link));
	if (!t->link_table || !zero)
		return -ENOMEM;
	otlp__link__init(t->link_table[0]);
	t->link_table[0]->trace_id = (ProtobufCBinaryData){TRACE_ID_BYTES, zero};
	t->link_table[0]->span_id = (ProtobufCBinaryData){SPAN_ID_BYTES, zero + TRACE_ID_BYTES};
	t->n_link_table = 1;
	return 0;
}

static int stack_index(struct otlp *b, uint32_t stack, int32_t *ret)
{
	const struct profile_stack *s = &b->p->stacks.at[stack];
	Otlp__Stack *out;
	uint32_t idx = 0;
	int r = 0;

	if (b->stack_ids[stack]) {
		*ret = b->stack_ids[stack];
		return 0;
	}
	out = arena_alloc(&b->arena, 1, sizeof(*out));
	if (!out)
		return -ENOMEM;
	otlp__stack__init(out);
	out->location_indices = arena_alloc(&b->arena, s->n, sizeof(*out->location_indices));
	if (!out->location_indices)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->n && !r; i++) {
		r = dict_location(&b->dict, b->p->stack_runs.at[s->first + i], &idx);
		out->location_indices[out->n_location_indices++] = idx;
	}
	if (!r)
		r = vec_push(&b->stacks, out);
	b->stack_ids[stack] = b->stacks.n - 1;
	*ret = b->stack_ids[stack];
	return r;
}

static int fill_sample_attributes(struct otlp *b, const struct group *g, Otlp__Sample *out)
{
	const struct profile_span *span = &b->p->spans.at[g->span];
	char state[64], id[32];
	const struct {
		const char *key;
		struct value value;
	} attributes[SAMPLE_ATTRIBUTES] = {
		{"thread.id", {.number = span->tid}},
		{"thread.name", {.text = strpool_get(b->p->strings, span->comm)}},
		{"spanprof.endpoint", {.text = strpool_get(b->p->strings, span->name)}},
		{"spanprof.span.id", {.text = id}},
		{"spanprof.state", {.text = state}},
	};
	int r = 0;

	snprintf(id, sizeof(id), "%" PRIu64, span->span_id);
	snprintf(state, sizeof(state), "%s%s%s", sample_kind_name(g->kind),
		 g->cause != BLOCK_NONE ? ":" : "", block_cause_name(g->cause));
	out->attribute_indices =
		arena_alloc(&b->arena, SAMPLE_ATTRIBUTES, sizeof(*out->attribute_indices));
	if (!out->attribute_indices)
		return -ENOMEM;
	for (; out->n_attribute_indices < SAMPLE_ATTRIBUTES && !r; out->n_attribute_indices++) {
		size_t i = out->n_attribute_indices;

		r = intern_attribute(b, attributes[i].key, &attributes[i].value,
				     &out->attribute_indices[i]);
	}
	return r;
}

static int fill_sample(struct otlp *b, const struct group *g, Otlp__Sample *out)
{
	const struct profile *p = b->p;
	int r;

	otlp__sample__init(out);
	out->values = arena_alloc(&b->arena, g->n, sizeof(*out->values));
	out->timestamps_unix_nano =
		arena_alloc(&b->arena, g->n, sizeof(*out->timestamps_unix_nano));
	if (!out->values || !out->timestamps_unix_nano)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->n; i++) {
		const struct profile_sample *s = &p->samples.at[b->groups.members[g->first + i]];
		uint64_t after_ns =
			s->start_ns > p->start_mono_ns ? s->start_ns - p->start_mono_ns : 0;

		out->values[i] = s->wall_ns;
		out->timestamps_unix_nano[i] = p->start_real_ns + after_ns;
	}
	out->n_values = out->n_timestamps_unix_nano = g->n;
	r = stack_index(b, g->stack, &out->stack_index);
	return r ? r : fill_sample_attributes(b, g, out);
}

static uint32_t tgid_of(const struct otlp *b, const struct group *g)
{
	return b->p->spans.at[g->span].tgid;
}

static int find_processes(struct otlp *b)
{
	CLEANUP(hash_deinit) struct hash index;
	int r = 0;

	hash_init(&index);
	for (size_t i = 0; i < b->groups.at.n && !r; i++) {
		uint32_t tgid = tgid_of(b, &b->groups.at.at[i]);
		uint64_t *found = hash_get(&index, tgid);

		if (found) {
			b->processes.at[*found].n_groups++;
			continue;
		}
		r = hash_set(&index, tgid, b->processes.n);
		if (!r)
			r = vec_push(&b->processes, (struct process){.tgid = tgid, .n_groups = 1});
	}
	/* Without any, the run still has its completeness to tell. */
	if (!r && !b->processes.n)
		r = vec_push(&b->processes, (struct process){});
	return r;
}

static int add_profile_attribute(struct otlp *b, const char *key, const struct value *v)
{
	int32_t idx = 0;
	int r = intern_attribute(b, key, v, &idx);

	return r ? r : vec_push(&b->profile_attributes, idx);
}

/* What is missing from the run: the same for the profile of each process. */
static int find_profile_attributes(struct otlp *b)
{
	struct summary s;
	char key[128];
	int r;

	summary_totals(&s, b->p);
	r = add_profile_attribute(
		b, "spanprof.completeness",
		&(struct value){.is_real = true, .real = summary_completeness(&s)});
	if (!r)
		r = add_profile_attribute(b, "spanprof.snapshots.due",
					  &(struct value){.number = s.n_due});
	if (!r)
		r = add_profile_attribute(b, "spanprof.snapshots.kept",
					  &(struct value){.number = s.n_kept});
	for (unsigned int i = 0; i < COUNTER_MAX && !r; i++) {
		if (!b->p->counters.v[i] || !counter_is_loss(i))
			continue;
		snprintf(key, sizeof(key), "spanprof.lost.%s", counter_name(i));
		r = add_profile_attribute(b, key, &(struct value){.number = b->p->counters.v[i]});
	}
	return r;
}

/* Unique as far as two runs do not begin in the same nanosecond on hosts of the same name. */
static int fill_profile_id(struct otlp *b, uint32_t tgid, Otlp__Profile *out)
{
	const char *host = strpool_get(b->p->strings, b->p->hostname);
	uint64_t *id = arena_alloc(&b->arena, 1, PROFILE_ID_BYTES);

	if (!id)
		return -ENOMEM;
	id[0] = hash_bytes(host, strlen(host), b->p->start_real_ns);
	id[1] = hash_mix(id[0] ^ tgid ^ b->p->duration_ns);
	out->profile_id = (ProtobufCBinaryData){PROFILE_ID_BYTES, (uint8_t *)id};
	return 0;
}

static int fill_profile(struct otlp *b, const struct process *process, Otlp__Profile *out)
{
	const struct profile *p = b->p;
	int r;

	otlp__profile__init(out);
	out->sample_type = out->period_type = &b->wall;
	out->time_unix_nano = p->start_real_ns;
	out->duration_nano = p->duration_ns;
	for (uint32_t i = 1; i < p->endpoints.n; i++)
		if (!out->period || p->endpoints.at[i].period_ns < (uint64_t)out->period)
			out->period = p->endpoints.at[i].period_ns;
	out->n_attribute_indices = b->profile_attributes.n;
	out->attribute_indices = b->profile_attributes.at;
	r = fill_profile_id(b, process->tgid, out);
	out->samples = arena_rows(&b->arena, process->n_groups, sizeof(Otlp__Sample));
	if (!out->samples)
		return -ENOMEM;
	for (size_t i = 0; i < b->groups.at.n && !r; i++)
		if (tgid_of(b, &b->groups.at.at[i]) == process->tgid)
			r = fill_sample(b, &b->groups.at.at[i], out->samples[out->n_samples++]);
	return r;
}

static int add_resource_attribute(struct otlp *b, Otlp__Resource *out, const char *key,
				  const struct value *v)
{
	Otlp__KeyValue *kv = out->attributes[out->n_attributes++];

	otlp__key_value__init(kv);
	kv->key = (char *)key;
	kv->value = arena_alloc(&b->arena, 1, sizeof(*kv->value));
	return kv->value ? set_value(b, kv->value, v) : -ENOMEM;
}

static int fill_resource(struct otlp *b, uint32_t tgid, Otlp__Resource *out)
{
	const struct profile *p = b->p;
	int r;

	otlp__resource__init(out);
	out->attributes = arena_rows(&b->arena, RESOURCE_ATTRIBUTES, sizeof(Otlp__KeyValue));
	if (!out->attributes)
		return -ENOMEM;
	r = add_resource_attribute(b, out, "host.name",
				   &(struct value){.text = strpool_get(p->strings, p->hostname)});
	if (!r)
		r = add_resource_attribute(
			b, out, "os.version",
			&(struct value){.text = strpool_get(p->strings, p->kernel_release)});
	if (!r && tgid)
		r = add_resource_attribute(b, out, "process.pid", &(struct value){.number = tgid});
	return r;
}

static int fill_process(struct otlp *b, const struct process *process, Otlp__ResourceProfiles *out)
{
	Otlp__ScopeProfiles *scope;
	int r;

	otlp__resource_profiles__init(out);
	out->resource = arena_alloc(&b->arena, 1, sizeof(*out->resource));
	out->scope_profiles = arena_rows(&b->arena, 1, sizeof(*scope));
	if (!out->resource || !out->scope_profiles)
		return -ENOMEM;
	out->n_scope_profiles = 1;
	scope = out->scope_profiles[0];
	otlp__scope_profiles__init(scope);
	scope->scope = &b->scope;
	scope->profiles = arena_rows(&b->arena, 1, sizeof(Otlp__Profile));
	if (!scope->profiles)
		return -ENOMEM;
	scope->n_profiles = 1;
	r = fill_resource(b, process->tgid, out->resource);
	return r ? r : fill_profile(b, process, scope->profiles[0]);
}

static int fill_tables(struct otlp *b, Otlp__ProfilesDictionary *t)
{
	int r;

	r = fill_mappings(b, t);
	if (!r)
		r = fill_functions(b, t);
	if (!r)
		r = fill_locations(b, t);
	if (!r)
		r = fill_links(b, t);
	if (r)
		return r;
	t->n_stack_table = b->stacks.n;
	t->stack_table = b->stacks.at;
	t->n_attribute_table = b->attributes.n;
	t->attribute_table = b->attributes.at;
	t->n_string_table = strpool_count(b->dict.strings);
	t->string_table = arena_alloc(&b->arena, t->n_string_table, sizeof(char *));
	if (!t->string_table)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->n_string_table; i++)
		t->string_table[i] = (char *)strpool_get(b->dict.strings, i);
	return 0;
}

/* The zero rows of the tables that are not in the dictionary, and what all profiles share. */
static int init_shared(struct otlp *b)
{
	Otlp__KeyValueAndUnit *no_attribute = arena_alloc(&b->arena, 1, sizeof(*no_attribute));
	Otlp__Stack *no_stack = arena_alloc(&b->arena, 1, sizeof(*no_stack));
	uint32_t type = 0, unit = 0;
	int r;

	hash_init(&b->attribute_ids);
	b->stack_ids = calloc(b->p->stacks.n, sizeof(*b->stack_ids));
	if (!no_attribute || !no_stack || !b->stack_ids)
		return -ENOMEM;
	otlp__key_value_and_unit__init(no_attribute);
	otlp__stack__init(no_stack);
	r = strpool_new(&b->values, VALUES_MAX_BYTES);
	if (!r)
		r = vec_push(&b->attributes, no_attribute);
	if (!r)
		r = vec_push(&b->stacks, no_stack);
	if (!r)
		r = dict_text(&b->dict, "wall", &type);
	if (!r)
		r = dict_text(&b->dict, "nanoseconds", &unit);
	otlp__value_type__init(&b->wall);
	b->wall.type_strindex = type;
	b->wall.unit_strindex = unit;
	otlp__instrumentation_scope__init(&b->scope);
	b->scope.name = (char *)"spanprof";
	return r;
}

static int build(struct otlp *b)
{
	Otlp__ProfilesData *m = &b->message;
	int r;

	r = dict_init(&b->dict, b->p);
	if (!r)
		r = init_shared(b);
	if (!r)
		r = groups_init(&b->groups, b->p);
	if (!r)
		r = find_processes(b);
	if (!r)
		r = find_profile_attributes(b);
	if (r)
		return r;
	otlp__profiles_data__init(m);
	m->resource_profiles =
		arena_rows(&b->arena, b->processes.n, sizeof(Otlp__ResourceProfiles));
	if (!m->resource_profiles)
		return -ENOMEM;
	for (; m->n_resource_profiles < b->processes.n && !r; m->n_resource_profiles++)
		r = fill_process(b, &b->processes.at[m->n_resource_profiles],
				 m->resource_profiles[m->n_resource_profiles]);
	otlp__profiles_dictionary__init(&b->tables);
	m->dictionary = &b->tables;
	return r ? r : fill_tables(b, &b->tables);
}

static int write_message(struct otlp *b, FILE *out)
{
	AUTO_FREE uint8_t *data = NULL;
	size_t bytes;
	int r = build(b);

	if (r)
		return r;
	bytes = otlp__profiles_data__get_packed_size(&b->message);
	data = malloc(bytes);
	if (!data)
		return -ENOMEM;
	otlp__profiles_data__pack(&b->message, data);
	return fwrite(data, 1, bytes, out) == bytes ? 0 : -EIO;
}

int otlp_write(const struct profile *p, const struct export_options *o, FILE *out, struct errmsg *e)
{
	CLEANUP(otlp_deinit) struct otlp b = {.p = p};
	int r = write_message(&b, out);

	if (r == -EIO)
		return errmsg_set(e, r, "cannot write the OTLP profile: write error");
	if (r)
		return errmsg_set(e, r, "cannot build the OTLP profile: %s",
				  r == -ENOSPC ? "its names take more than 256 MiB"
					       : "out of memory");
	return 0;
}
