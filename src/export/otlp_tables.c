/* SPDX-License-Identifier: Apache-2.0 */
/*
 * otlp_tables.c: the dictionary of an OTLP message: what its samples refer to by index. Row 0 of every table is
 * the zero value, as the protocol wants it.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "export/escape.h"
#include "export/otlp_priv.h"

enum {
	TRACE_ID_BYTES = 16,
	SPAN_ID_BYTES = 8,
	VALUES_MAX_BYTES = 256 << 20,
};

int otlp_init_tables(struct otlp *b)
{
	Otlp__KeyValueAndUnit *no_attribute = arena_alloc(&b->arena, 1, sizeof(*no_attribute));
	Otlp__Stack *no_stack = arena_alloc(&b->arena, 1, sizeof(*no_stack));
	int r = dict_init(&b->dict, b->p);

	if (r)
		return r;
	hash_init(&b->attribute_ids);
	b->stack_ids = calloc(b->p->stacks.n, sizeof(*b->stack_ids));
	if (!no_attribute || !no_stack || !b->stack_ids)
		return -ENOMEM;
	otlp__key_value_and_unit__init(no_attribute);
	otlp__stack__init(no_stack);
	r = strpool_new(&b->values, VALUES_MAX_BYTES);
	if (!r)
		r = vec_push(&b->attributes, no_attribute);
	return r ? r : vec_push(&b->stacks, no_stack);
}

int otlp_set_value(struct otlp *b, Otlp__AnyValue *out, const struct otlp_value *v)
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

int otlp_attribute(struct otlp *b, const char *key, const struct otlp_value *v, int32_t *ret)
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
		r = otlp_set_value(b, any, v);
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

static int one_attribute(struct otlp *b, const char *key, const struct otlp_value *v, size_t *n,
			 int32_t **indices)
{
	*indices = arena_alloc(&b->arena, 1, sizeof(**indices));
	if (!*indices)
		return -ENOMEM;
	*n = 1;
	return otlp_attribute(b, key, v, *indices);
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
			r = one_attribute(b, "process.executable.build_id.gnu",
					  &(struct otlp_value){
						  .text = strpool_get(d->strings, row->build_id)},
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
	return one_attribute(b, "profile.frame.type", &(struct otlp_value){.text = type},
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

int otlp_stack(struct otlp *b, uint32_t stack, int32_t *ret)
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

int otlp_fill_tables(struct otlp *b)
{
	Otlp__ProfilesDictionary *t = &b->tables;
	int r;

	otlp__profiles_dictionary__init(t);
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
