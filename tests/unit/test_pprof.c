/* SPDX-License-Identifier: Apache-2.0 */
/* The pprof file is unpacked and decoded again, and held against the profile. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "pprof.pb-c.h"
#include "tests/unit/export_text.h"
#include "tests/unit/sample_profile.h"
#include "tests/unit/unit.h"

enum { UNPACKED_MAX = 4 << 20, GZIP_WINDOW_BITS = 15 + 16 };

static Pprof__Profile *decode(const struct profile *p)
{
	const struct export_options o = {};
	size_t n = 0;
	char *packed = export_text("pprof", p, &o, &n);
	uint8_t *data = malloc(UNPACKED_MAX);
	z_stream z = {.next_in = (Bytef *)packed,
		      .avail_in = n,
		      .next_out = data,
		      .avail_out = UNPACKED_MAX};
	Pprof__Profile *m;

	assert_int_equal(inflateInit2(&z, GZIP_WINDOW_BITS), Z_OK);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	assert_int_equal(z.avail_in, 0);
	m = pprof__profile__unpack(NULL, z.total_out, data);
	assert_non_null(m);
	inflateEnd(&z);
	free(packed);
	free(data);
	return m;
}

static const char *text(const Pprof__Profile *m, int64_t idx)
{
	assert_in_range(idx, 0, m->n_string_table - 1);
	return m->string_table[idx];
}

/* Every reference leads somewhere; ids are 1, 2, 3 ... in their table. */
static void assert_sound(const Pprof__Profile *m)
{
	assert_string_equal(text(m, 0), "");
	for (size_t i = 0; i < m->n_mapping; i++) {
		assert_int_equal(m->mapping[i]->id, i + 1);
		text(m, m->mapping[i]->filename_str);
		text(m, m->mapping[i]->build_id_str);
	}
	for (size_t i = 0; i < m->n_function; i++) {
		assert_int_equal(m->function[i]->id, i + 1);
		text(m, m->function[i]->name_str);
		text(m, m->function[i]->system_name_str);
		text(m, m->function[i]->filename_str);
	}
	for (size_t i = 0; i < m->n_location; i++) {
		assert_int_equal(m->location[i]->id, i + 1);
		assert_true(m->location[i]->mapping_id <= m->n_mapping);
		assert_true(m->location[i]->n_line > 0);
		for (size_t k = 0; k < m->location[i]->n_line; k++)
			assert_in_range(m->location[i]->line[k]->function_id, 1, m->n_function);
	}
	for (size_t i = 0; i < m->n_sample; i++) {
		assert_int_equal(m->sample[i]->n_value, m->n_sample_type);
		assert_true(m->sample[i]->n_location_id > 0);
		for (size_t k = 0; k < m->sample[i]->n_location_id; k++)
			assert_in_range(m->sample[i]->location_id[k], 1, m->n_location);
		for (size_t k = 0; k < m->sample[i]->n_label; k++) {
			assert_true(*text(m, m->sample[i]->label[k]->key_str));
			text(m, m->sample[i]->label[k]->str_str);
		}
	}
}

static void totals_equal_the_samples(void **state)
{
	struct profile *all[] = {sample_profile_bare(),     sample_profile_empty(),
				 sample_profile_orders(),   sample_profile_unfinished(),
				 sample_profile_deep(1024), sample_profile_hostile()};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		const struct profile *p = all[i];
		Pprof__Profile *m = decode(p);
		int64_t count = 0, wall_ns = 0;

		assert_sound(m);
		for (size_t k = 1; k < p->samples.n; k++) {
			count += p->samples.at[k].count;
			wall_ns += p->samples.at[k].wall_ns;
		}
		for (size_t k = 0; k < m->n_sample; k++) {
			count -= m->sample[k]->value[0];
			wall_ns -= m->sample[k]->value[1];
		}
		assert_int_equal(count, 0);
		assert_int_equal(wall_ns, 0);
		pprof__profile__free_unpacked(m, NULL);
		profile_free(all[i]);
	}
}

static void head_says_what_the_values_are(void **state)
{
	struct profile *p = sample_profile_orders();
	Pprof__Profile *m = decode(p);

	assert_int_equal(m->n_sample_type, 2);
	assert_string_equal(text(m, m->sample_type[0]->type_str), "samples");
	assert_string_equal(text(m, m->sample_type[0]->unit_str), "count");
	assert_string_equal(text(m, m->sample_type[1]->type_str), "wall");
	assert_string_equal(text(m, m->sample_type[1]->unit_str), "nanoseconds");
	assert_string_equal(text(m, m->default_sample_type_str), "wall");
	assert_string_equal(text(m, m->period_type->type_str), "wall");
	assert_int_equal(m->period, 10000000);
	assert_int_equal(m->time_nanos, 1700000000000000000);
	assert_int_equal(m->duration_nanos, 30000000000);
	pprof__profile__free_unpacked(m, NULL);
	profile_free(p);
}

static void mappings_have_build_ids_and_hold_their_locations(void **state)
{
	struct profile *p = sample_profile_orders();
	Pprof__Profile *m = decode(p);

	assert_string_equal(text(m, m->mapping[0]->filename_str), "/usr/bin/orders");
	assert_string_equal(text(m, m->mapping[0]->build_id_str),
			    "abababababababababababababababababababab");
	assert_int_equal(m->mapping[0]->memory_start, 0x555555554000);
	assert_int_equal(m->mapping[0]->file_offset, 0x1000);
	assert_true(m->mapping[0]->has_functions);
	assert_true(m->mapping[0]->has_filenames);
	assert_true(m->mapping[0]->has_line_numbers);
	assert_true(m->mapping[0]->has_inline_frames);
	for (size_t i = 0; i < m->n_location; i++) {
		const Pprof__Mapping *map = NULL;

		if (m->location[i]->mapping_id)
			map = m->mapping[m->location[i]->mapping_id - 1];
		if (map && map->build_id_str)
			assert_in_range(m->location[i]->address, map->memory_start,
					map->memory_limit - 1);
	}
	pprof__profile__free_unpacked(m, NULL);
	profile_free(p);
}

/* Of an endpoint that begins and ends at two probes the outermost frame is made up. */
static void the_program_comes_first(void **state)
{
	struct profile *p = sample_profile_bare();
	uint32_t kernel = sample_module(p, "[kernel]", 0, 0);
	uint32_t exe = sample_module(p, "/usr/bin/postgres", 0xab, 0x555555554000);
	uint32_t libc = sample_module(p, "/usr/lib/libc.so.6", 0xcd, 0x7ffff7c00000);
	uint32_t root = sample_location(p, 0, "query", "", 0, PROFILE_FRAME_SYNTHETIC);
	const uint32_t in_kernel[] = {sample_location(p, kernel, "schedule", "", 0, 0), root};
	const uint32_t whole[] = {sample_location(p, kernel, "futex_wait", "", 0, 0),
				  sample_location(p, libc, "read", "", 0, 0),
				  sample_location(p, exe, "exec_query", "", 0, 0), root};
	Pprof__Profile *m;
	uint32_t stack = 0;

	sample_span(p, sample_endpoint(p, "query", 1, 1), "select", 7, 2000);
	assert_int_equal(profile_add_stack(p, in_kernel, 2, STACK_STOP_NO_WINDOW, &stack), 0);
	sample_wall(p, stack, SAMPLE_ONCPU, -1, 1000);
	assert_int_equal(profile_add_stack(p, whole, 4, STACK_STOP_ENDPOINT, &stack), 0);
	sample_wall(p, stack, SAMPLE_ONCPU, -1, 1000);
	m = decode(p);
	assert_int_equal(m->n_mapping, 3);
	assert_string_equal(text(m, m->mapping[0]->filename_str), "/usr/bin/postgres");
	pprof__profile__free_unpacked(m, NULL);
	profile_free(p);
}

/* The second process has the module elsewhere: its locations move to where the first one has it. */
static void locations_of_a_module_share_its_load_address(void **state)
{
	struct profile *p = sample_profile_bare();
	uint32_t ep = sample_endpoint(p, "f", 1, 1);
	uint32_t exe = sample_module(p, "/bin/x", 1, 0x10000), idx = 0, stack = 0;
	uint32_t frame = sample_frame(p, "g", "", 0, 0);
	struct profile_location l = {.module = exe, .module_off = 0x500, .address = 0x770500};
	uint32_t run[2] = {0, sample_location(p, exe, "f", "f.c", 1, 0)};
	Pprof__Profile *m;

	assert_int_equal(profile_add_location(p, &l, &frame, 1, &idx), 0);
	run[0] = idx;
	assert_int_equal(profile_add_stack(p, run, 2, STACK_STOP_ENDPOINT, &stack), 0);
	sample_span(p, ep, "f", 1, 1);
	sample_wall(p, stack, SAMPLE_ONCPU, -1, 5);
	m = decode(p);
	assert_int_equal(m->location[0]->address, 0x10500);
	pprof__profile__free_unpacked(m, NULL);
	profile_free(p);
}

static const Pprof__Label *label(const Pprof__Profile *m, const Pprof__Sample *s, const char *key)
{
	for (size_t i = 0; i < s->n_label; i++)
		if (!strcmp(text(m, s->label[i]->key_str), key))
			return s->label[i];
	fail_msg("no label %s", key);
	return NULL;
}

static void samples_carry_their_labels(void **state)
{
	struct profile *p = sample_profile_orders();
	Pprof__Profile *m = decode(p);
	const Pprof__Sample *s = m->sample[1];

	assert_string_equal(text(m, label(m, s, "endpoint")->str_str), "GET:/orders/{id}");
	assert_string_equal(text(m, label(m, s, "state")->str_str), "blocked:lock");
	assert_int_equal(label(m, s, "thread")->num, 4250);
	assert_int_equal(label(m, s, "process")->num, 4242);
	assert_int_equal(label(m, s, "span")->num, p->spans.at[1].span_id);
	pprof__profile__free_unpacked(m, NULL);
	profile_free(p);
}

/* Every stack ends in the endpoint's function, also the synthetic and the incomplete ones. */
static void every_stack_ends_in_the_endpoint(void **state)
{
	struct profile *p = sample_profile_orders();
	Pprof__Profile *m = decode(p);

	for (size_t i = 0; i < m->n_sample; i++) {
		const Pprof__Sample *s = m->sample[i];
		const Pprof__Location *root = m->location[s->location_id[s->n_location_id - 1] - 1];
		int64_t name = m->function[root->line[0]->function_id - 1]->name_str;

		if (label(m, s, "thread")->num == 4260)
			assert_string_equal(text(m, name), "run_job");
		else
			assert_string_equal(text(m, name), "handle_request");
	}
	pprof__profile__free_unpacked(m, NULL);
	profile_free(p);
}

static void inlined_frames_are_lines_of_one_location(void **state)
{
	struct profile *p = sample_profile_orders();
	Pprof__Profile *m = decode(p);
	size_t found = 0;

	for (size_t i = 0; i < m->n_location; i++) {
		const Pprof__Location *l = m->location[i];

		if (l->n_line != 2)
			continue;
		found++;
		assert_string_equal(text(m, m->function[l->line[0]->function_id - 1]->name_str),
				    "next_token");
		assert_int_equal(l->line[0]->line, 31);
		assert_string_equal(text(m, m->function[l->line[1]->function_id - 1]->name_str),
				    "parse_body");
		assert_int_equal(l->line[1]->line, 120);
		assert_int_equal(m->function[l->line[1]->function_id - 1]->start_line, 120);
	}
	assert_int_equal(found, 1);
	pprof__profile__free_unpacked(m, NULL);
	profile_free(p);
}

static void comments_say_what_is_missing(void **state)
{
	struct profile *p = sample_profile_orders();
	bool complete = false, lost = false, turns = false;
	Pprof__Profile *m;

	p->turns = (struct profile_turns){10000, 3, 2000, 30, 4000};
	m = decode(p);
	for (size_t i = 0; i < m->n_comment_str; i++) {
		const char *c = text(m, m->comment_str[i]);

		complete |= !strncmp(c, "completeness: 0.88", 18);
		turns |= !strcmp(
			c,
			"probed for 2000 of 30000000000 ns, in 3 turns, to stay below 1 % of the CPU time; cost 30 of 4000 ns");
		lost |= !strcmp(c, "lost: 2 ring_full_snapshot");
	}
	assert_true(complete);
	assert_true(turns);
	assert_true(lost);
	pprof__profile__free_unpacked(m, NULL);
	profile_free(p);
}

static size_t n_functions(const Pprof__Profile *m, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n_function; i++)
		n += !strcmp(text(m, m->function[i]->name_str), name);
	return n;
}

static size_t n_labels(const Pprof__Profile *m, const char *value)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n_sample; i++)
		for (size_t k = 0; k < m->sample[i]->n_label; k++)
			n += !strcmp(text(m, m->sample[i]->label[k]->str_str), value);
	return n;
}

/* Quotes, markup and separators mean nothing here and stay. */
static void hostile_names_come_out_escaped(void **state)
{
	struct profile *p = sample_profile_hostile();
	Pprof__Profile *m = decode(p);
	bool found = false;

	for (size_t i = 0; i < m->n_string_table; i++)
		assert_harmless(m->string_table[i]);
	for (size_t i = 0; i < SAMPLE_HOSTILE_NAMES; i++) {
		assert_int_equal(n_functions(m, sample_hostile_names[i]), 1);
		assert_true(n_labels(m, sample_hostile_names[i]) >= 1);
	}
	for (size_t i = 0; i < m->n_mapping; i++)
		found |=
			!strcmp(text(m, m->mapping[i]->filename_str), "/tmp/a b;c\"</script>\\x0a");
	assert_true(found);
	pprof__profile__free_unpacked(m, NULL);
	profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(totals_equal_the_samples),
		cmocka_unit_test(head_says_what_the_values_are),
		cmocka_unit_test(mappings_have_build_ids_and_hold_their_locations),
		cmocka_unit_test(the_program_comes_first),
		cmocka_unit_test(locations_of_a_module_share_its_load_address),
		cmocka_unit_test(samples_carry_their_labels),
		cmocka_unit_test(every_stack_ends_in_the_endpoint),
		cmocka_unit_test(inlined_frames_are_lines_of_one_location),
		cmocka_unit_test(comments_say_what_is_missing),
		cmocka_unit_test(hostile_names_come_out_escaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
