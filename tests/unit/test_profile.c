/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/profile.h"
#include "tests/unit/sample_profile.h"
#include "tests/unit/unit.h"

static void new_profile_has_reserved_entries(void **state)
{
	struct profile *p = NULL;

	assert_int_equal(profile_new(&p), 0);
	assert_int_equal(p->modules.n, 1);
	assert_int_equal(p->frames.n, 1);
	assert_int_equal(p->locations.n, 1);
	assert_int_equal(p->stacks.n, 1);
	assert_int_equal(p->endpoints.n, 1);
	assert_int_equal(p->spans.n, 1);
	assert_int_equal(p->samples.n, 1);
	assert_string_equal(strpool_get(p->strings, 0), "");
	assert_null(profile_free(p));
	assert_null(profile_free(NULL));
}

static void modules_are_equal_by_path_and_build_id(void **state)
{
	struct profile *p = sample_profile_bare();
	uint32_t a = sample_module(p, "/bin/a", 1, 0x1000);

	assert_int_equal(a, 1);
	assert_int_equal(sample_module(p, "/bin/a", 1, 0x9000), a);
	assert_true(p->modules.at[a].start == 0x1000);
	assert_int_not_equal(sample_module(p, "/bin/a", 2, 0x1000), a);
	assert_int_not_equal(sample_module(p, "/bin/b", 1, 0x1000), a);
	assert_int_not_equal(sample_module(p, "/bin/a", 0, 0x1000), a);
	profile_free(p);
}

static void frames_are_equal_by_all_members(void **state)
{
	struct profile *p = sample_profile_bare();
	uint32_t a = sample_frame(p, "f", "f.c", 12, 0);

	assert_int_equal(sample_frame(p, "f", "f.c", 12, 0), a);
	assert_int_not_equal(sample_frame(p, "g", "f.c", 12, 0), a);
	assert_int_not_equal(sample_frame(p, "f", "g.c", 12, 0), a);
	assert_int_not_equal(sample_frame(p, "f", "f.c", 13, 0), a);
	assert_int_not_equal(sample_frame(p, "f", "f.c", 12, PROFILE_FRAME_INLINED), a);
	profile_free(p);
}

static void locations_are_equal_by_module_offset_and_flags(void **state)
{
	struct profile *p = sample_profile_bare();
	uint32_t frames[2] = {sample_frame(p, "in", "f.c", 1, PROFILE_FRAME_INLINED),
			      sample_frame(p, "out", "f.c", 2, 0)};
	struct profile_location l = {.module = 1, .module_off = 0x40, .address = 0x1040};
	uint32_t a = 0, b = 0;

	assert_int_equal(profile_find_location(p, 1, 0x40, 0), 0);
	assert_int_equal(profile_add_location(p, &l, frames, 2, &a), 0);
	assert_int_equal(profile_find_location(p, 1, 0x40, 0), a);
	assert_int_equal(p->locations.at[a].n_frames, 2);
	assert_int_equal(p->frame_runs.at[p->locations.at[a].first_frame], frames[0]);
	assert_int_equal(p->frame_runs.at[p->locations.at[a].first_frame + 1], frames[1]);
	l.address = 0x9040;
	assert_int_equal(profile_add_location(p, &l, frames, 1, &b), 0);
	assert_int_equal(a, b);
	assert_int_equal(p->locations.at[a].n_frames, 2);
	l.flags = PROFILE_LOCATION_FP;
	assert_int_equal(profile_add_location(p, &l, frames, 1, &b), 0);
	assert_int_not_equal(a, b);
	assert_int_equal(profile_find_location(p, 2, 0x40, 0), 0);
	profile_free(p);
}

static void stacks_are_equal_by_locations_and_stop(void **state)
{
	struct profile *p = sample_profile_bare();
	const uint32_t run[] = {3, 2, 1};
	uint32_t a = 0, b = 0;

	assert_int_equal(profile_add_stack(p, run, 3, STACK_STOP_ENDPOINT, &a), 0);
	assert_int_equal(profile_add_stack(p, run, 3, STACK_STOP_ENDPOINT, &b), 0);
	assert_int_equal(a, b);
	assert_int_equal(profile_add_stack(p, run, 2, STACK_STOP_ENDPOINT, &b), 0);
	assert_int_not_equal(a, b);
	assert_int_equal(profile_add_stack(p, run, 3, STACK_STOP_NO_CFI, &b), 0);
	assert_int_not_equal(a, b);
	assert_int_equal(profile_add_stack(p, NULL, 0, STACK_STOP_NO_WINDOW, &b), 0);
	assert_int_equal(p->stacks.at[b].n, 0);
	profile_free(p);
}

static void synthetic_stack_has_one_marked_frame(void **state)
{
	struct profile *p = sample_profile_bare();
	uint32_t a = 0, b = 0, c = 0, location, frame;

	assert_int_equal(profile_synthetic_stack(p, "[before threshold]", &a), 0);
	assert_int_equal(profile_synthetic_stack(p, "[lost]", &b), 0);
	assert_int_equal(profile_synthetic_stack(p, "[before threshold]", &c), 0);
	assert_int_equal(a, c);
	assert_int_not_equal(a, b);
	assert_int_equal(p->stacks.at[a].stop, STACK_STOP_NONE);
	assert_int_equal(p->stacks.at[a].n, 1);
	location = p->stack_runs.at[p->stacks.at[a].first];
	frame = p->frame_runs.at[p->locations.at[location].first_frame];
	assert_int_equal(p->frames.at[frame].flags, PROFILE_FRAME_SYNTHETIC);
	assert_string_equal(strpool_get(p->strings, p->frames.at[frame].function),
			    "[before threshold]");
	assert_true(profile_frame_is_gap(p, frame, PROFILE_GAP_BEFORE));
	assert_false(profile_frame_is_gap(p, frame, PROFILE_GAP_LOST));
	assert_false(profile_frame_is_gap(p, 0, PROFILE_GAP_BEFORE));
	profile_free(p);
}

static void many_entries_are_found_again(void **state)
{
	struct profile *p = sample_profile_bare();
	uint32_t idx = 0;

	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 50000; i++) {
			const uint32_t run[] = {i, i / 2, i / 3};
			struct profile_location l = {.module = i % 7, .module_off = i};

			assert_int_equal(profile_add_stack(p, run, 3, STACK_STOP_ENDPOINT, &idx),
					 0);
			assert_int_equal(idx, i + 1);
			assert_int_equal(profile_add_location(p, &l, run, 1, &idx), 0);
			assert_int_equal(idx, i + 1);
		}
	}
	assert_int_equal(p->stacks.n, 50001);
	assert_int_equal(p->locations.n, 50001);
	profile_free(p);
}

static void completeness_is_kept_over_due(void **state)
{
	struct profile *p = sample_profile_bare();

	assert_true(profile_completeness(p) == 1.0);
	sample_span(p, 0, "a", 1, 1);
	assert_true(profile_span_completeness(&p->spans.at[1]) == 1.0);
	p->spans.at[1].n_due = 4;
	p->spans.at[1].n_kept = 3;
	sample_span(p, 0, "b", 1, 1);
	p->spans.at[2].n_due = 4;
	p->spans.at[2].n_kept = 4;
	assert_true(profile_span_completeness(&p->spans.at[1]) == 0.75);
	assert_true(profile_completeness(p) == 0.875);
	profile_free(p);
}

static void clearing_spans_keeps_the_tables(void **state)
{
	struct profile *p = sample_profile_orders();
	size_t stacks = p->stacks.n, locations = p->locations.n, endpoints = p->endpoints.n;
	size_t bytes = profile_bytes(p);

	assert_true(p->spans.n > 1);
	profile_clear_spans(p);
	assert_int_equal(p->spans.n, 1);
	assert_int_equal(p->samples.n, 1);
	assert_int_equal(p->stacks.n, stacks);
	assert_int_equal(p->locations.n, locations);
	assert_int_equal(p->endpoints.n, endpoints);
	assert_int_equal(profile_bytes(p), bytes);
	profile_free(p);
}

static void bytes_grow_with_the_strings(void **state)
{
	struct profile *p = sample_profile_bare(), *hostile = sample_profile_hostile();

	assert_true(profile_bytes(hostile) > profile_bytes(p) + 300000);
	profile_free(p);
	profile_free(hostile);
}

static void sample_profiles_keep_the_contract(void **state)
{
	struct profile *all[] = {sample_profile_orders(), sample_profile_unfinished(),
				 sample_profile_deep(1024), sample_profile_hostile()};

	for (size_t k = 0; k < 4; k++) {
		struct profile *p = all[k];

		for (size_t i = 1; i < p->spans.n; i++) {
			const struct profile_span *s = &p->spans.at[i];
			uint64_t sum = 0;

			for (uint32_t j = 0; j < s->n_samples; j++)
				sum += p->samples.at[s->first_sample + j].wall_ns;
			assert_int_equal(sum, s->end_ns - s->start_ns);
			assert_int_equal(sum, s->oncpu_ns + s->runq_ns + s->blocked_ns);
		}
		profile_free(p);
	}
}

static void every_value_has_a_name(void **state)
{
	for (unsigned int i = 0; i < STACK_STOP_MAX; i++)
		assert_true(strlen(stack_stop_name(i)) > 0);
	for (unsigned int i = 0; i < WIRE_END_MAX; i++)
		assert_true(strlen(end_reason_name(i)) > 0);
	for (unsigned int i = 0; i < SAMPLE_KIND_MAX; i++)
		assert_true(strlen(sample_kind_name(i)) > 0);
	assert_string_equal(end_reason_name(999), "unknown");
	assert_string_equal(end_reason_name(WIRE_END_TASK_END), "unfinished");
	assert_string_equal(stack_stop_name(STACK_STOP_ENDPOINT), "complete");
	assert_string_equal(sample_kind_name(SAMPLE_RUNQ), "run-queue");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(new_profile_has_reserved_entries),
		cmocka_unit_test(modules_are_equal_by_path_and_build_id),
		cmocka_unit_test(frames_are_equal_by_all_members),
		cmocka_unit_test(locations_are_equal_by_module_offset_and_flags),
		cmocka_unit_test(stacks_are_equal_by_locations_and_stop),
		cmocka_unit_test(synthetic_stack_has_one_marked_frame),
		cmocka_unit_test(many_entries_are_found_again),
		cmocka_unit_test(completeness_is_kept_over_due),
		cmocka_unit_test(clearing_spans_keeps_the_tables),
		cmocka_unit_test(bytes_grow_with_the_strings),
		cmocka_unit_test(sample_profiles_keep_the_contract),
		cmocka_unit_test(every_value_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
