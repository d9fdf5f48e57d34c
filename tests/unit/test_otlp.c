/* SPDX-License-Identifier: Apache-2.0 */
/* The OTLP file is decoded again, and held against the profile and the rules of the protocol. */
#include <stdlib.h>
#include <string.h>

#include "otlp.pb-c.h"
#include "tests/unit/export_text.h"
#include "tests/unit/sample_profile.h"
#include "tests/unit/unit.h"

static Otlp__ProfilesData *decode(const struct profile *p)
{
	const struct export_options o = {};
	size_t n = 0;
	char *packed = export_text("otlp", p, &o, &n);
	Otlp__ProfilesData *m = otlp__profiles_data__unpack(NULL, n, (const uint8_t *)packed);

	assert_non_null(m);
	free(packed);
	return m;
}

static const char *text(const Otlp__ProfilesData *m, int32_t idx)
{
	assert_in_range(idx, 0, m->dictionary->n_string_table - 1);
	return m->dictionary->string_table[idx];
}

/* The attribute of that key, or NULL. */
static const Otlp__AnyValue *attribute(const Otlp__ProfilesData *m, const int32_t *indices,
				       size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++) {
		const Otlp__KeyValueAndUnit *a;

		assert_in_range(indices[i], 1, m->dictionary->n_attribute_table - 1);
		a = m->dictionary->attribute_table[indices[i]];
		if (!strcmp(text(m, a->key_strindex), key))
			return a->value;
	}
	return NULL;
}

static void assert_zero_rows(const Otlp__ProfilesDictionary *t)
{
	assert_string_equal(t->string_table[0], "");
	assert_int_equal(otlp__mapping__get_packed_size(t->mapping_table[0]), 0);
	assert_int_equal(otlp__location__get_packed_size(t->location_table[0]), 0);
	assert_int_equal(otlp__function__get_packed_size(t->function_table[0]), 0);
	assert_int_equal(otlp__stack__get_packed_size(t->stack_table[0]), 0);
	assert_int_equal(otlp__key_value_and_unit__get_packed_size(t->attribute_table[0]), 0);
	assert_int_equal(t->n_link_table, 1);
	assert_int_equal(t->link_table[0]->trace_id.len, 16);
	assert_int_equal(t->link_table[0]->span_id.len, 8);
}

static void assert_sound(const Otlp__ProfilesData *m)
{
	const Otlp__ProfilesDictionary *t = m->dictionary;

	assert_zero_rows(t);
	for (size_t i = 0; i < t->n_location_table; i++) {
		assert_in_range(t->location_table[i]->mapping_index, 0, t->n_mapping_table - 1);
		for (size_t k = 0; k < t->location_table[i]->n_lines; k++)
			assert_in_range(t->location_table[i]->lines[k]->function_index, 1,
					t->n_function_table - 1);
	}
	for (size_t i = 0; i < t->n_stack_table; i++)
		for (size_t k = 0; k < t->stack_table[i]->n_location_indices; k++)
			assert_in_range(t->stack_table[i]->location_indices[k], 1,
					t->n_location_table - 1);
	for (size_t i = 1; i < t->n_function_table; i++)
		assert_true(*text(m, t->function_table[i]->name_strindex));
}

/* Adds up the values of all samples; checks each sample on the way. */
static int64_t sum_of(const Otlp__ProfilesData *m, const struct profile *p)
{
	int64_t sum = 0;

	for (size_t i = 0; i < m->n_resource_profiles; i++) {
		const Otlp__Profile *out = m->resource_profiles[i]->scope_profiles[0]->profiles[0];

		assert_string_equal(text(m, out->sample_type->type_strindex), "wall");
		assert_string_equal(text(m, out->sample_type->unit_strindex), "nanoseconds");
		assert_int_equal(out->profile_id.len, 16);
		for (size_t k = 0; k < out->n_samples; k++) {
			const Otlp__Sample *s = out->samples[k];

			assert_in_range(s->stack_index, 1, m->dictionary->n_stack_table - 1);
			assert_int_equal(s->link_index, 0);
			assert_true(s->n_values > 0);
			assert_int_equal(s->n_values, s->n_timestamps_unix_nano);
			for (size_t v = 0; v < s->n_values; v++) {
				assert_in_range(s->timestamps_unix_nano[v], p->start_real_ns,
						p->start_real_ns + p->duration_ns);
				sum += s->values[v];
			}
		}
	}
	return sum;
}

static void totals_equal_the_samples(void **state)
{
	struct profile *all[] = {sample_profile_bare(),     sample_profile_empty(),
				 sample_profile_orders(),   sample_profile_unfinished(),
				 sample_profile_deep(1024), sample_profile_hostile()};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		Otlp__ProfilesData *m = decode(all[i]);
		int64_t wall_ns = 0;

		assert_sound(m);
		for (size_t k = 1; k < all[i]->samples.n; k++)
			wall_ns += all[i]->samples.at[k].wall_ns;
		assert_int_equal(sum_of(m, all[i]), wall_ns);
		assert_int_equal(m->n_resource_profiles, 1);
		otlp__profiles_data__free_unpacked(m, NULL);
		profile_free(all[i]);
	}
}

static void samples_carry_their_attributes(void **state)
{
	struct profile *p = sample_profile_orders();
	Otlp__ProfilesData *m = decode(p);
	const Otlp__Profile *out = m->resource_profiles[0]->scope_profiles[0]->profiles[0];
	const Otlp__Sample *s = out->samples[1];
	const int32_t *a = s->attribute_indices;
	size_t n = s->n_attribute_indices;

	assert_int_equal(attribute(m, a, n, "thread.id")->int_value, 4250);
	assert_string_equal(attribute(m, a, n, "thread.name")->string_value, "orders-worker");
	assert_string_equal(attribute(m, a, n, "spanprof.endpoint")->string_value,
			    "GET:/orders/{id}");
	assert_string_equal(attribute(m, a, n, "spanprof.span.id")->string_value, "1001");
	assert_string_equal(attribute(m, a, n, "spanprof.state")->string_value, "blocked:lock");
	otlp__profiles_data__free_unpacked(m, NULL);
	profile_free(p);
}

static void profiles_say_what_is_missing(void **state)
{
	struct profile *p = sample_profile_orders();
	Otlp__ProfilesData *m = decode(p);
	const Otlp__Profile *out = m->resource_profiles[0]->scope_profiles[0]->profiles[0];
	const int32_t *a = out->attribute_indices;
	size_t n = out->n_attribute_indices;

	assert_true(attribute(m, a, n, "spanprof.completeness")->double_value ==
		    profile_completeness(p));
	assert_int_equal(attribute(m, a, n, "spanprof.lost.parallel_limit")->int_value, 5);
	assert_null(attribute(m, a, n, "spanprof.lost.retsite_new"));
	otlp__profiles_data__free_unpacked(m, NULL);
	profile_free(p);
}

static void turns_are_told(void **state)
{
	struct profile *p = sample_profile_orders();
	Otlp__ProfilesData *m;
	const Otlp__Profile *out;
	const int32_t *a;
	size_t n;

	p->turns = (struct profile_turns){10000, 3, 2000, 30, 4000};
	m = decode(p);
	assert_sound(m);
	out = m->resource_profiles[0]->scope_profiles[0]->profiles[0];
	a = out->attribute_indices;
	n = out->n_attribute_indices;
	assert_true(attribute(m, a, n, "spanprof.probed.max_overhead")->double_value == 0.01);
	assert_int_equal(attribute(m, a, n, "spanprof.probed.duration_ns")->int_value, 2000);
	assert_int_equal(attribute(m, a, n, "spanprof.probed.turns")->int_value, 3);
	assert_int_equal(attribute(m, a, n, "spanprof.probed.cost_ns")->int_value, 30);
	assert_int_equal(attribute(m, a, n, "spanprof.probed.cpu_ns")->int_value, 4000);
	otlp__profiles_data__free_unpacked(m, NULL);
	p->turns.share_ppm = 0;
	m = decode(p);
	out = m->resource_profiles[0]->scope_profiles[0]->profiles[0];
	assert_null(attribute(m, out->attribute_indices, out->n_attribute_indices,
			      "spanprof.probed.turns"));
	otlp__profiles_data__free_unpacked(m, NULL);
	profile_free(p);
}

static void mappings_have_build_ids_and_frames_a_type(void **state)
{
	struct profile *p = sample_profile_orders();
	Otlp__ProfilesData *m = decode(p);
	const Otlp__ProfilesDictionary *t = m->dictionary;
	size_t kernel = 0, native = 0;
	bool found = false;

	for (size_t i = 1; i < t->n_mapping_table; i++) {
		const Otlp__Mapping *map = t->mapping_table[i];
		const Otlp__AnyValue *id =
			attribute(m, map->attribute_indices, map->n_attribute_indices,
				  "process.executable.build_id.gnu");

		if (!strcmp(text(m, map->filename_strindex), "/usr/bin/orders")) {
			assert_string_equal(id->string_value,
					    "abababababababababababababababababababab");
			found = true;
		}
	}
	for (size_t i = 1; i < t->n_location_table; i++) {
		const Otlp__Location *l = t->location_table[i];
		const Otlp__AnyValue *type = attribute(
			m, l->attribute_indices, l->n_attribute_indices, "profile.frame.type");

		kernel += type && !strcmp(type->string_value, "kernel");
		native += type && !strcmp(type->string_value, "native");
	}
	assert_true(found);
	assert_int_equal(kernel, 1);
	assert_true(native > 5);
	otlp__profiles_data__free_unpacked(m, NULL);
	profile_free(p);
}

static void each_process_is_a_resource(void **state)
{
	struct profile *p = sample_profile_orders();
	Otlp__ProfilesData *m;

	p->spans.at[2].tgid = 777;
	m = decode(p);
	assert_int_equal(m->n_resource_profiles, 2);
	assert_string_equal(m->resource_profiles[1]->resource->attributes[2]->key, "process.pid");
	assert_int_equal(m->resource_profiles[0]->resource->attributes[2]->value->int_value, 4242);
	assert_int_equal(m->resource_profiles[1]->resource->attributes[2]->value->int_value, 777);
	assert_int_equal(m->resource_profiles[1]->scope_profiles[0]->profiles[0]->n_samples, 3);
	otlp__profiles_data__free_unpacked(m, NULL);
	profile_free(p);
}

static size_t n_functions(const Otlp__ProfilesDictionary *t, const char *name)
{
	size_t n = 0;

	for (size_t i = 1; i < t->n_function_table; i++)
		n += !strcmp(t->string_table[t->function_table[i]->name_strindex], name);
	return n;
}

/* Attributes with this text; the texts of all are looked at. */
static size_t n_attributes(const Otlp__ProfilesDictionary *t, const char *value)
{
	size_t n = 0;

	for (size_t i = 1; i < t->n_attribute_table; i++) {
		const Otlp__AnyValue *v = t->attribute_table[i]->value;

		if (v->value_case != OTLP__ANY_VALUE__VALUE_STRING_VALUE)
			continue;
		assert_harmless(v->string_value);
		n += !strcmp(v->string_value, value);
	}
	return n;
}

/* Quotes, markup and separators mean nothing here and stay. */
static void hostile_names_come_out_escaped(void **state)
{
	struct profile *p = sample_profile_hostile();
	Otlp__ProfilesData *m = decode(p);
	const Otlp__ProfilesDictionary *t = m->dictionary;
	bool found = false;

	for (size_t i = 0; i < t->n_string_table; i++)
		assert_harmless(t->string_table[i]);
	for (size_t i = 0; i < SAMPLE_HOSTILE_NAMES; i++) {
		assert_int_equal(n_functions(t, sample_hostile_names[i]), 1);
		assert_true(n_attributes(t, sample_hostile_names[i]) >= 1);
	}
	for (size_t i = 1; i < t->n_mapping_table; i++)
		found |= !strcmp(text(m, t->mapping_table[i]->filename_strindex),
				 "/tmp/a b;c\"</script>\\x0a");
	assert_true(found);
	otlp__profiles_data__free_unpacked(m, NULL);
	profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(totals_equal_the_samples),
		cmocka_unit_test(samples_carry_their_attributes),
		cmocka_unit_test(profiles_say_what_is_missing),
		cmocka_unit_test(turns_are_told),
		cmocka_unit_test(mappings_have_build_ids_and_frames_a_type),
		cmocka_unit_test(each_process_is_a_resource),
		cmocka_unit_test(hostile_names_come_out_escaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
