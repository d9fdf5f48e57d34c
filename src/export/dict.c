/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dict.c: dense symbol tables (see dict.h).
 *
 * Addresses: a module may be mapped elsewhere in each process, but a mapping of pprof and OTLP is
 * at one place. All locations of a module are put where its first mapping was seen.
 */
#include "export/dict.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "export/escape.h"

enum { STRINGS_MAX_BYTES = 256 << 20, HEX_BYTES = 2 };

/* For each module what leads from an ELF address to the run-time address of its first mapping. */
static int fill_bias(struct dict *d)
{
	const struct profile *p = d->p;
	AUTO_FREE bool *known = calloc(p->modules.n, sizeof(*known));

	d->bias = calloc(p->modules.n, sizeof(*d->bias));
	if (!known || !d->bias)
		return -ENOMEM;
	for (size_t i = 1; i < p->locations.n; i++) {
		const struct profile_location *l = &p->locations.at[i];
		const struct profile_module *m = &p->modules.at[l->module];

		if (known[l->module] || l->address < m->start || l->address >= m->limit)
			continue;
		d->bias[l->module] = l->address - l->module_off;
		known[l->module] = true;
	}
	return 0;
}

int dict_init(struct dict *d, const struct profile *p)
{
	int r;

	d->p = p;
	hash_init(&d->string_ids);
	hash_init(&d->location_ids);
	hash_init(&d->mapping_ids);
	hash_init(&d->function_ids);
	r = strpool_new(&d->strings, STRINGS_MAX_BYTES);
	if (!r)
		r = vec_push(&d->functions, (struct dict_function){});
	if (!r)
		r = vec_push(&d->locations, (struct dict_location){});
	if (!r)
		r = vec_push(&d->mappings, (struct dict_mapping){});
	return r ? r : fill_bias(d);
}

void dict_deinit(struct dict *d)
{
	strpool_free(d->strings);
	vec_free(&d->functions);
	vec_free(&d->lines);
	vec_free(&d->locations);
	vec_free(&d->mappings);
	hash_deinit(&d->string_ids);
	hash_deinit(&d->location_ids);
	hash_deinit(&d->mapping_ids);
	hash_deinit(&d->function_ids);
	free(d->bias);
}

int dict_text(struct dict *d, const char *text, uint32_t *ret_idx)
{
	AUTO_FREE char *clean = escape_dup(text);

	return clean ? strpool_add(d->strings, clean, ret_idx) : -ENOMEM;
}

int dict_string(struct dict *d, uint32_t string, uint32_t *ret_idx)
{
	uint64_t *found = hash_get(&d->string_ids, string);
	int r;

	if (found) {
		*ret_idx = *found;
		return 0;
	}
	r = dict_text(d, strpool_get(d->p->strings, string), ret_idx);
	return r ? r : hash_set(&d->string_ids, string, *ret_idx);
}

int dict_mapping(struct dict *d, uint32_t module, uint32_t *ret_idx)
{
	const struct profile_module *m = &d->p->modules.at[module];
	uint64_t *found = hash_get(&d->mapping_ids, module);
	struct dict_mapping row = {.module = module};
	char hex[HEX_BYTES * BUILD_ID_MAX + 1] = "";
	int r;

	if (!module || found) {
		*ret_idx = module ? *found : 0;
		return 0;
	}
	for (size_t i = 0; i < m->build_id_bytes && i < BUILD_ID_MAX; i++)
		snprintf(hex + HEX_BYTES * i, sizeof(hex) - HEX_BYTES * i, "%02x", m->build_id[i]);
	r = dict_string(d, m->path, &row.filename);
	if (!r)
		r = dict_text(d, hex, &row.build_id);
	if (!r)
		r = vec_push(&d->mappings, row);
	if (!r)
		r = hash_set(&d->mapping_ids, module, d->mappings.n - 1);
	if (!r)
		*ret_idx = d->mappings.n - 1;
	return r;
}

static int add_function(struct dict *d, const struct profile_frame *f, uint32_t *ret_idx)
{
	struct dict_function row = {.start_line = f->start_line};
	uint64_t h, *found;
	int r;

	r = dict_string(d, f->function, &row.name);
	if (!r)
		r = dict_string(d, f->system_name, &row.system_name);
	if (!r)
		r = dict_string(d, f->file, &row.file);
	if (r)
		return r;
	h = hash_bytes(&row, sizeof(row), d->function_ids.seed);
	for (; (found = hash_get(&d->function_ids, h)); h++) {
		if (!memcmp(&d->functions.at[*found], &row, sizeof(row))) {
			*ret_idx = *found;
			return 0;
		}
	}
	r = vec_push(&d->functions, row);
	if (!r)
		r = hash_set(&d->function_ids, h, d->functions.n - 1);
	if (!r)
		*ret_idx = d->functions.n - 1;
	return r;
}

/* What is known of the frames of a mapping, for a reader that could symbolize by itself. */
static void note_frame(struct dict_mapping *m, const struct profile_frame *f)
{
	m->has_functions |= !(f->flags & PROFILE_FRAME_UNKNOWN);
	m->has_filenames |= f->file != 0;
	m->has_line_numbers |= f->line != 0;
	m->has_inline_frames |= (f->flags & PROFILE_FRAME_INLINED) != 0;
}

static int add_line(struct dict *d, struct dict_location *row, const struct profile_frame *f)
{
	struct dict_line line = {.line = f->line};
	int r = add_function(d, f, &line.function);

	if (!r)
		r = vec_push(&d->lines, line);
	if (r)
		return r;
	row->n_lines++;
	row->frame_flags |= f->flags;
	if (row->mapping)
		note_frame(&d->mappings.at[row->mapping], f);
	return 0;
}

int dict_location(struct dict *d, uint32_t location, uint32_t *ret_idx)
{
	const struct profile *p = d->p;
	const struct profile_location *l = &p->locations.at[location];
	struct dict_location row = {.first_line = d->lines.n, .address = l->address};
	uint64_t *found = hash_get(&d->location_ids, location);
	int r;

	if (found) {
		*ret_idx = *found;
		return 0;
	}
	if (l->module)
		row.address = l->module_off + d->bias[l->module];
	r = dict_mapping(d, l->module, &row.mapping);
	for (uint32_t i = 0; i < l->n_frames && !r; i++)
		r = add_line(d, &row, &p->frames.at[p->frame_runs.at[l->first_frame + i]]);
	if (!r)
		r = vec_push(&d->locations, row);
	if (!r)
		r = hash_set(&d->location_ids, location, d->locations.n - 1);
	if (!r)
		*ret_idx = d->locations.n - 1;
	return r;
}
