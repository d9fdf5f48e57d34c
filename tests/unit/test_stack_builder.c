/* SPDX-License-Identifier: Apache-2.0 */
/* test_stack_builder.c: which frames a stack gets, by what each has become in the profile. */
#include <string.h>
#include <unistd.h>

#include "code/unwind.h"
#include "pipe/stack_builder.h"
#include "tests/unit/unit.h"

enum { TGID = 7 };

struct world {
	struct space_cache *cache;
	struct space *space;
	struct profile *profile;
	struct stack_builder b;
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	assert_int_equal(space_cache_new(&w->cache), 0);
	assert_int_equal(space_new(&w->space, w->cache, getpid()), 0);
	assert_int_equal(space_refresh(w->space), 0);
	assert_int_equal(profile_new(&w->profile), 0);
	assert_int_equal(stacks_new(&w->b.stacks, true), 0);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	stack_builder_deinit(&w->b);
	stacks_free(w->b.stacks);
	profile_free(w->profile);
	space_free(w->space);
	space_cache_free(w->cache);
	free(w);
	return 0;
}

/* The stack as the profile has it. */
static const struct profile_stack *finish(struct world *w, enum stack_stop stop)
{
	const struct symbolize_options options = {.lines = true};
	struct symbolizer *symbolizer;
	uint32_t stack, idx;

	assert_int_equal(symbolizer_new(&symbolizer, w->profile, &options), 0);
	assert_int_equal(stack_builder_finish(&w->b, stop, &stack), 0);
	assert_int_equal(stacks_resolve(w->b.stacks, stack, symbolizer, w->profile, &idx), 0);
	symbolizer_free(symbolizer);
	return &w->profile->stacks.at[idx];
}

static const struct profile_location *location(const struct world *w, const struct profile_stack *s,
					       uint32_t i)
{
	assert_in_range(i, 0, s->n - 1);
	return &w->profile->locations.at[w->profile->stack_runs.at[s->first + i]];
}

static const struct profile_frame *frame(const struct world *w, const struct profile_location *l)
{
	return &w->profile->frames.at[w->profile->frame_runs.at[l->first_frame]];
}

static const char *module_of(const struct world *w, const struct profile_location *l)
{
	return strpool_get(w->profile->strings, w->profile->modules.at[l->module].path);
}

static const char *name_of(const struct world *w, const struct profile_location *l)
{
	return strpool_get(w->profile->strings, frame(w, l)->function);
}

/* A return address may be the first byte of what follows the caller: the caller is meant. */
static void places_and_return_addresses(void **state)
{
	struct world *w = *state;
	const uint64_t pc = (uintptr_t)setup;
	const struct profile_stack *s;

	stack_builder_begin(&w->b);
	assert_int_equal(stack_builder_pc(&w->b, w->space, TGID, pc, UNWIND_F_EXACT), 0);
	assert_int_equal(stack_builder_pc(&w->b, w->space, TGID, pc, 0), 0);
	assert_int_equal(stack_builder_pc(&w->b, w->space, TGID, pc + 1, UNWIND_F_FP), 0);
	assert_int_equal(
		stack_builder_pc(&w->b, w->space, TGID, pc + 1, UNWIND_F_SIGNAL | UNWIND_F_EXACT),
		0);
	s = finish(w, STACK_STOP_ENDPOINT);
	assert_int_equal(s->n, 4);
	assert_int_equal(s->stop, STACK_STOP_ENDPOINT);
	assert_string_equal(name_of(w, location(w, s, 0)), "setup");
	assert_non_null(strstr(module_of(w, location(w, s, 0)), "test_stack_builder"));
	assert_string_not_equal(name_of(w, location(w, s, 1)), "setup");
	assert_string_equal(name_of(w, location(w, s, 2)), "setup");
	assert_int_equal(location(w, s, 0)->flags, 0);
	assert_int_equal(location(w, s, 2)->flags, PROFILE_LOCATION_FP);
	assert_int_equal(location(w, s, 3)->flags, PROFILE_LOCATION_SIGNAL);
}

static void what_no_module_has(void **state)
{
	const struct space_range unreadable = {.start = 0x10000,
					       .end = 0x20000,
					       .file_off = 0x3000,
					       .dev = 1,
					       .ino = 1,
					       .unusable = true,
					       .path = "/srv/gone.so"};
	struct world *w = *state;
	const struct profile_stack *s;
	struct space *replayed;

	assert_int_equal(space_new(&replayed, w->cache, 0), 0);
	assert_int_equal(space_add_range(replayed, &unreadable), 0);
	stack_builder_begin(&w->b);
	assert_int_equal(stack_builder_pc(&w->b, NULL, TGID, 0x1234, UNWIND_F_EXACT), 0);
	assert_int_equal(stack_builder_pc(&w->b, replayed, TGID, 0x30000, UNWIND_F_EXACT), 0);
	assert_int_equal(stack_builder_pc(&w->b, replayed, TGID, 0x10010, UNWIND_F_EXACT), 0);
	s = finish(w, STACK_STOP_NO_FILE);
	assert_int_equal(s->n, 3);
	for (uint32_t i = 0; i < 2; i++)
		assert_string_equal(name_of(w, location(w, s, i)), "[unknown]");
	assert_non_null(strstr(module_of(w, location(w, s, 2)), "gone.so"));
	assert_non_null(strstr(name_of(w, location(w, s, 2)), "gone.so+0x3010"));
	space_free(replayed);
}

static void of_the_function_alone(void **state)
{
	struct world *w = *state;
	const struct profile_stack *s;

	stack_builder_begin(&w->b);
	assert_int_equal(stack_builder_text(&w->b, "[between]"), 0);
	assert_int_equal(stack_builder_function(&w->b, w->space, TGID, (uintptr_t)setup), 0);
	s = finish(w, STACK_STOP_NONE);
	assert_int_equal(s->n, 2);
	assert_string_equal(name_of(w, location(w, s, 0)), "[between]");
	assert_int_not_equal(frame(w, location(w, s, 0))->flags & PROFILE_FRAME_SYNTHETIC, 0);
	assert_string_equal(name_of(w, location(w, s, 1)), "setup");
	assert_int_equal(location(w, s, 1)->flags, PROFILE_LOCATION_FUNCTION);
	assert_int_equal(location(w, s, 1)->n_frames, 1);
}

static uint32_t n_kernel_frames(struct world *w, unsigned int flags, int syscall_nr)
{
	static const uint64_t kernel[] = {0xffffffff81000010, 0xffffffff81000020};
	struct wire_snapshot snapshot = {
		.flags = (uint16_t)flags, .syscall_nr = syscall_nr, .kernel_frames = 2};
	const struct event ev = {.snapshot = &snapshot, .kernel = kernel};

	stack_builder_begin(&w->b);
	assert_int_equal(stack_builder_kernel(&w->b, &ev), 0);
	return (uint32_t)w->b.locations.n;
}

/* The timer's way into the scheduler is none of the program's doing; a call's way is. */
static void kernel_frames(void **state)
{
	struct world *w = *state;

	assert_int_equal(n_kernel_frames(w, 0, 230), 2);
	assert_int_equal(n_kernel_frames(w, 0, -1), 2);
	assert_int_equal(n_kernel_frames(w, WIRE_SNAP_F_PREEMPTED, 230), 2);
	assert_int_equal(n_kernel_frames(w, WIRE_SNAP_F_PREEMPTED, -1), 0);
}

/* Nothing of the last one is left, and equal ones are one. */
static void one_after_another(void **state)
{
	struct world *w = *state;
	uint32_t first, second, third;

	stack_builder_begin(&w->b);
	assert_int_equal(stack_builder_text(&w->b, "a"), 0);
	assert_int_equal(stack_builder_finish(&w->b, STACK_STOP_NONE, &first), 0);
	stack_builder_begin(&w->b);
	assert_int_equal(stack_builder_text(&w->b, "b"), 0);
	assert_int_equal(stack_builder_finish(&w->b, STACK_STOP_NONE, &second), 0);
	stack_builder_begin(&w->b);
	assert_int_equal(stack_builder_text(&w->b, "a"), 0);
	assert_int_equal(stack_builder_finish(&w->b, STACK_STOP_NONE, &third), 0);
	assert_int_not_equal(first, second);
	assert_int_equal(first, third);
	assert_int_not_equal(first, 0);
}

/* Each way of ending early has words of its own; the complete ones and a bad number have none. */
static void why_frames_are_missing(void **state)
{
	for (int i = 0; i < STACK_STOP_MAX; i++) {
		const char *text = stack_builder_incomplete((enum stack_stop)i);
		bool plain = strcmp(text, "[incomplete]") == 0;

		assert_int_equal(strncmp(text, "[incomplete", 11), 0);
		assert_int_equal(plain, i == STACK_STOP_ENDPOINT || i == STACK_STOP_NONE);
		for (int k = 0; !plain && k < i; k++)
			assert_string_not_equal(text, stack_builder_incomplete((enum stack_stop)k));
	}
	assert_string_equal(stack_builder_incomplete(STACK_STOP_MAX), "[incomplete]");
	assert_string_equal(stack_builder_incomplete(STACK_STOP_TRUNCATED),
			    "[incomplete: window limit]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(places_and_return_addresses, setup, teardown),
		cmocka_unit_test_setup_teardown(what_no_module_has, setup, teardown),
		cmocka_unit_test_setup_teardown(of_the_function_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(kernel_frames, setup, teardown),
		cmocka_unit_test_setup_teardown(one_after_another, setup, teardown),
		cmocka_unit_test(why_frames_are_missing),
	};

	return cmocka_run_group_tests_name("stack_builder", tests, NULL, NULL);
}
