/* SPDX-License-Identifier: Apache-2.0 */
/* What is written is held against docs/json.schema.json, and its sums against the profile. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/export_text.h"
#include "tests/unit/sample_profile.h"
#include "tests/unit/unit.h"

static json_t *write_json(struct profile *take_p)
{
	const struct export_options o = {};
	size_t n = 0;
	char *text = export_text("json", take_p, &o, &n);
	json_error_t e;
	json_t *doc = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e);

	if (!doc)
		fail_msg("line %d: %s", e.line, e.text);
	free(text);
	profile_free(take_p);
	return doc;
}

static bool valid(const json_t *schema, json_t *v, const char *where);

static bool is_type(const char *type, const json_t *v)
{
	return (!strcmp(type, "object") && json_is_object(v)) ||
	       (!strcmp(type, "array") && json_is_array(v)) ||
	       (!strcmp(type, "string") && json_is_string(v)) ||
	       (!strcmp(type, "integer") && json_is_integer(v)) ||
	       (!strcmp(type, "number") && json_is_number(v)) ||
	       (!strcmp(type, "boolean") && json_is_boolean(v)) ||
	       (!strcmp(type, "null") && json_is_null(v));
}

static bool valid_object(const json_t *schema, json_t *v)
{
	const json_t *props = json_object_get(schema, "properties");
	const json_t *extra = json_object_get(schema, "additionalProperties");
	json_t *member, *name;
	const char *key;
	size_t i;

	json_array_foreach(json_object_get(schema, "required"), i,
			   name) if (!json_object_get(v, json_string_value(name)))
		fail_msg("member %s is missing", json_string_value(name));
	json_object_foreach(v, key, member)
	{
		const json_t *s = json_object_get(props, key);

		if (!s && json_is_false(extra))
			fail_msg("member %s is not in the schema", key);
		if (!valid(s ? s : extra, member, key))
			return false;
	}
	return true;
}

static bool valid_enum(const json_t *values, json_t *v)
{
	json_t *one;
	size_t i;

	json_array_foreach(values, i, one) if (json_equal(one, v)) return true;
	return false;
}

/* The part of JSON Schema that the document uses: two levels of anyOf at most. */
static bool valid(const json_t *schema, json_t *v, const char *where)
{
	const json_t *any = json_object_get(schema, "anyOf");
	const json_t *values = json_object_get(schema, "enum");
	const char *type = json_string_value(json_object_get(schema, "type"));
	json_t *item;
	size_t i;

	if (any)
		return json_is_null(v) ? true : valid(json_array_get(any, 1), v, where);
	if (values && !valid_enum(values, v))
		fail_msg("%s has a value that the schema does not list", where);
	if (type && !is_type(type, v))
		fail_msg("%s is not of type %s", where, type);
	if (json_is_integer(v) && json_object_get(schema, "minimum"))
		assert_true(json_integer_value(v) >= 0);
	if (json_is_object(v))
		return valid_object(schema, v);
	if (json_is_array(v))
		json_array_foreach(v, i, item) if (!valid(json_object_get(schema, "items"), item,
							  where)) return false;
	return true;
}

static void documents_follow_the_schema(void **state)
{
	struct profile *all[] = {sample_profile_bare(),     sample_profile_empty(),
				 sample_profile_orders(),   sample_profile_unfinished(),
				 sample_profile_deep(1024), sample_profile_hostile()};
	const char *root = getenv("SOURCE_ROOT");
	char path[4096];
	json_t *schema;

	assert_non_null(root);
	snprintf(path, sizeof(path), "%s/docs/json.schema.json", root);
	schema = json_load_file(path, 0, NULL);
	assert_non_null(schema);
	all[2]->turns = (struct profile_turns){10000, 3, 2000, 30, 4000};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		json_t *doc = write_json(all[i]);

		assert_true(valid(schema, doc, "document"));
		json_decref(doc);
	}
	json_decref(schema);
}

static json_int_t number(const json_t *o, const char *name)
{
	const json_t *v = json_object_get(o, name);

	assert_true(json_is_integer(v));
	return json_integer_value(v);
}

static void samples_of_a_span_add_up(void **state)
{
	json_t *doc = write_json(sample_profile_orders()), *span, *sample;
	size_t i, k;

	json_array_foreach(json_object_get(doc, "spans"), i, span)
	{
		json_int_t sum = 0;

		if (!i) {
			assert_true(json_is_null(span));
			continue;
		}
		json_array_foreach(json_object_get(span, "samples"), k, sample) sum +=
			number(sample, "wall_ns");
		assert_int_equal(sum, number(span, "duration_ns"));
		assert_int_equal(sum, number(span, "on_cpu_ns") + number(span, "run_queue_ns") +
					      number(span, "blocked_ns"));
	}
	assert_int_equal(i, 5);
	json_decref(doc);
}

/* Of each endpoint's tree: parents come first, totals are self plus children, kinds add up. */
static void trees_add_up(void **state)
{
	json_t *doc = write_json(sample_profile_orders());
	const json_t *tree =
		json_object_get(json_array_get(json_object_get(doc, "endpoints"), 1), "tree");
	size_t n = json_array_size(tree);

	assert_true(n > 10);
	assert_int_equal(number(json_array_get(tree, 0), "parent"), -1);
	assert_int_equal(number(json_array_get(tree, 0), "total_ns"), 1149300000);
	for (size_t i = 0; i < n; i++) {
		const json_t *node = json_array_get(tree, i);
		json_int_t sum = number(node, "self_ns");

		assert_true(number(node, "parent") < (json_int_t)i);
		for (size_t k = i + 1; k < n; k++)
			if (number(json_array_get(tree, k), "parent") == (json_int_t)i)
				sum += number(json_array_get(tree, k), "total_ns");
		assert_int_equal(sum, number(node, "total_ns"));
		assert_int_equal(sum, number(node, "on_cpu_ns") + number(node, "run_queue_ns") +
					      number(node, "blocked_ns"));
	}
	json_decref(doc);
}

static void references_lead_somewhere(void **state)
{
	json_t *doc = write_json(sample_profile_orders()), *row, *idx;
	const json_t *frames = json_object_get(doc, "frames");
	const json_t *locations = json_object_get(doc, "locations");
	size_t i, k;

	json_array_foreach(locations, i, row) json_array_foreach(json_object_get(row, "frames"), k,
								 idx)
		assert_true(json_is_object(json_array_get(frames, json_integer_value(idx))));
	json_array_foreach(json_object_get(doc, "stacks"), i,
			   row) json_array_foreach(json_object_get(row, "locations"), k, idx)
		assert_true(json_is_object(json_array_get(locations, json_integer_value(idx))));
	json_decref(doc);
}

static void times_are_relative_to_the_run(void **state)
{
	struct profile *p = sample_profile_unfinished();
	json_t *doc;
	const json_t *span;

	p->spans.at[1].start_ns = p->start_mono_ns - 5;
	doc = write_json(p);
	span = json_array_get(json_object_get(doc, "spans"), 1);
	assert_int_equal(number(span, "start_ns"), -5);
	assert_string_equal(json_string_value(json_object_get(span, "end")), "unfinished");
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(doc, "run"), "start")),
		"2023-11-14T22:13:20.000000000Z");
	json_decref(doc);
}

/* How the caller of a location was found: only what is out of the ordinary is said. */
static void locations_say_how_their_caller_was_found(void **state)
{
	struct profile *p = sample_profile_orders();
	json_t *doc, *rows;

	assert_true(p->locations.n > 3);
	for (uint32_t i = 1; i <= 3; i++)
		p->locations.at[i].flags = 0;
	p->locations.at[1].flags = PROFILE_LOCATION_FP;
	p->locations.at[2].flags = PROFILE_LOCATION_SIGNAL;
	doc = write_json(p);
	rows = json_object_get(doc, "locations");
	assert_true(json_is_true(json_object_get(json_array_get(rows, 1), "by_frame_pointer")));
	assert_null(json_object_get(json_array_get(rows, 1), "signal_frame"));
	assert_true(json_is_true(json_object_get(json_array_get(rows, 2), "signal_frame")));
	assert_null(json_object_get(json_array_get(rows, 2), "by_frame_pointer"));
	assert_null(json_object_get(json_array_get(rows, 3), "by_frame_pointer"));
	assert_null(json_object_get(json_array_get(rows, 3), "signal_frame"));
	json_decref(doc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(documents_follow_the_schema),
		cmocka_unit_test(samples_of_a_span_add_up),
		cmocka_unit_test(trees_add_up),
		cmocka_unit_test(references_lead_somewhere),
		cmocka_unit_test(times_are_relative_to_the_run),
		cmocka_unit_test(locations_say_how_their_caller_was_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
