/* SPDX-License-Identifier: Apache-2.0 */
/* What golden files cannot say of the text format: it fits, and the numbers stay the same. */
#include <stdlib.h>
#include <string.h>

#include "export/escape.h"
#include "tests/unit/export_text.h"
#include "tests/unit/sample_profile.h"
#include "tests/unit/unit.h"

static char *write_text(struct profile *take_p, const struct export_options *o)
{
	size_t n = 0;
	char *text = export_text("text", take_p, o, &n);

	profile_free(take_p);
	return text;
}

static void assert_fits(char *text, unsigned int columns)
{
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		assert_true(escape_width(line, 10000) <= columns);
		assert_true(line[strlen(line) - 1] != ' ');
	}
	free(text);
}

static void every_line_fits_the_terminal(void **state)
{
	static const unsigned int widths[] = {1, 7, 20, 40, 60, 80, 100, 132, 250};

	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		const struct export_options o = {.columns = widths[i], .verbose = true};

		assert_fits(write_text(sample_profile_orders(), &o), widths[i]);
		assert_fits(write_text(sample_profile_hostile(), &o), widths[i]);
		assert_fits(write_text(sample_profile_deep(100), &o), widths[i]);
	}
}

static unsigned int tree_lines(const char *text)
{
	const char *p = strstr(text, "count  frame\n");
	unsigned int n = 0;

	assert_non_null(p);
	for (p = strchr(p, '\n') + 1; p[0] == ' ' && strncmp(p, "  not shown", 11); n++)
		p = strchr(p, '\n') + 1;
	return n;
}

static void rows_limit_the_tree(void **state)
{
	for (unsigned int rows = 1; rows < 12; rows++) {
		const struct export_options o = {.columns = 100, .rows = rows};
		char *text = write_text(sample_profile_orders(), &o);

		assert_in_range(tree_lines(text), 1, rows);
		assert_non_null(strstr(text, "not shown: "));
		free(text);
	}
}

static void colours_come_only_when_asked_for(void **state)
{
	const struct export_options plain = {.columns = 100}, color = {.color = true};
	char *text = write_text(sample_profile_orders(), &plain);

	assert_null(strchr(text, 0x1b));
	free(text);
	text = write_text(sample_profile_orders(), &color);
	assert_non_null(strstr(text, "\x1b[1mhandle_request\x1b[0m"));
	free(text);
}

static void long_chains_are_folded(void **state)
{
	const struct export_options o = {.columns = 140};
	char *text = write_text(sample_profile_deep(1024), &o);

	assert_int_equal(tree_lines(text), 3);
	assert_non_null(strstr(text, "level_1 (deep.c:2) > level_2 > "));
	assert_non_null(strstr(
		text, " > ... > level_1018 > level_1019 > level_1020 > level_1021 > level_1022\n"));
	free(text);
}

/* The shorter a line, the fewer of the last frames stay; the very last one always does. */
static void short_lines_keep_the_last_frame(void **state)
{
	const struct export_options o = {.columns = 80};
	char *text = write_text(sample_profile_deep(1024), &o);

	assert_non_null(strstr(text, "level_1 (deep.c:2) > level_2 > ... > level_1022\n"));
	free(text);
}

/* In a file nothing is left out for want of room. */
static void files_have_the_whole_chain(void **state)
{
	const struct export_options o = {};
	char *text = write_text(sample_profile_deep(200), &o);

	assert_non_null(strstr(text, " > level_42 > level_43 > "));
	assert_null(strstr(text, "..."));
	free(text);
}

/* A wait's reason is in the program's last frames, not in what the C library calls. */
static void the_programs_own_frames_stay(void **state)
{
	const struct export_options o = {.columns = 120};
	struct profile *p = sample_profile_bare();
	uint32_t ep = sample_endpoint(p, "handle", 1, 1), stack = 0;
	uint32_t exe = sample_module(p, "/bin/x", 1, 0x1000);
	uint32_t libc = sample_module(p, "/lib/libc.so.6", 2, 0x2000);
	uint32_t kernel = sample_module(p, "[kernel]", 0, 0);
	const uint32_t run[] = {
		sample_location(p, kernel, "futex_do_wait", "", 0, PROFILE_FRAME_KERNEL),
		sample_location(p, libc, "__futex_abstimed_wait_common64", "", 0, 0),
		sample_location(p, libc, "__futex_abstimed_wait_common", "", 0, 0),
		sample_location(p, libc, "__pthread_cond_wait_common", "", 0, 0),
		sample_location(p, libc, "pthread_cond_timedwait", "", 0, 0),
		sample_location(p, exe, "Item_func_sleep::val_int", "", 0, 0),
		sample_location(p, exe, "Item::send", "", 0, 0),
		sample_location(p, exe, "select_send::send_data", "", 0, 0),
		sample_location(p, exe, "handle", "", 0, 0),
	};
	char *text;

	assert_int_equal(profile_add_stack(p, run, 9, STACK_STOP_ENDPOINT, &stack), 0);
	sample_span(p, ep, "handle", 1, 2000);
	sample_wall(p, stack, SAMPLE_BLOCKED, 202, 250000);
	text = write_text(p, &o);
	assert_non_null(strstr(text, "select_send::send_data > ... > Item_func_sleep::val_int > "
				     "pthread_cond_timedwait > ...\n"));
	free(text);
}

static void short_names_are_apart_from_the_calls(void **state)
{
	const struct export_options o = {};
	struct profile *p = sample_profile_bare();
	char *text;

	sample_endpoint(p, "h", 11, 0);
	sample_endpoint(p, "no", 0, 0);
	text = write_text(p, &o);
	assert_non_null(strstr(text, "\nh   11 calls   "));
	assert_non_null(strstr(text, "\nno   no calls seen\n"));
	free(text);
}

/* What is in a table is in the line above it: calls that an exception ended, and open ones. */
static void header_agrees_with_the_tables(void **state)
{
	const struct export_options o = {};
	struct profile *p = sample_profile_orders();
	char *text;

	p->endpoints.at[1].latency.n_slow = 2;
	p->endpoints.at[1].latency.max_ns = 200000000;
	text = write_text(p, &o);
	assert_non_null(strstr(text, "   max 612.4 ms\n  3 slower than 100 ms   3 profiled"));
	assert_non_null(strstr(text, "   1 left by exception or longjmp   2 ends not seen\n"));
	assert_non_null(strstr(text, "   max 11.00 s (unfinished)\n  2 slower than 100 ms"));
	free(text);
}

/* Rates are those of the time in which calls were looked at. */
static void turns_are_told(void **state)
{
	const struct export_options o = {}, narrow = {.columns = 60};
	struct profile *p = sample_profile_orders();
	char *text;

	p->turns = (struct profile_turns){.share_ppm = 10000,
					  .n_turns = 4,
					  .probed_ns = p->duration_ns / 10,
					  .cost_ns = 12,
					  .cpu_ns = 1000};
	p->endpoints.at[1].latency.n_enter = p->duration_ns / 1000000;
	text = write_text(p, &o);
	assert_non_null(strstr(text, "\nprobed 10 % of the time, in 4 turns of "));
	assert_non_null(strstr(
		text,
		"   cost about 1.2 % of the CPU time (--max-overhead 1%)   calls of the other time were not seen\n"));
	assert_non_null(strstr(text, "   10000/s   "));
	assert_non_null(strstr(text, "   complete 88.2 % of what was probed"));
	assert_non_null(strstr(text, "\ncomplete 88.9 % of what was probed: "));
	free(text);
	p = sample_profile_orders();
	p->turns = (struct profile_turns){
		.share_ppm = 2500, .n_turns = 1, .probed_ns = p->duration_ns};
	text = write_text(p, &narrow);
	assert_non_null(strstr(text, "\nprobed all the time\n"));
	assert_null(strstr(text, "of what was probed"));
	free(text);
}

/* No name in the table is complete when calls were left out, whose names are not known. */
static void calls_left_out_are_in_the_table(void **state)
{
	const struct export_options o = {};
	struct profile *p = sample_profile_orders();
	char *text;

	p->endpoints.at[1].latency.n_slow = 20;
	p->counters.v[WIRE_C_PARALLEL_LIMIT] = 18;
	p->counters.v[COUNTER_NAME_MISMATCH] = 0;
	text = write_text(p, &o);
	assert_non_null(strstr(text, "   3 profiled   18 not profiled (--max-parallel)   "));
	assert_non_null(
		strstr(text, "POST:/orders\n           -       18          0  (not profiled)\n"));
	free(text);
	p = sample_profile_orders();
	p->endpoints.at[1].latency.n_slow = 20;
	p->counters.v[WIRE_C_PARALLEL_LIMIT] = 0;
	text = write_text(p, &o);
	assert_non_null(strstr(text, "   18 not profiled (over before a snapshot was taken)   "));
	free(text);
	p = sample_profile_orders();
	p->endpoints.at[1].latency.n_slow = 20;
	p->counters.v[WIRE_C_PARALLEL_LIMIT] = 0;
	p->counters.v[COUNTER_SPAN_TABLE_FULL] = 18;
	text = write_text(p, &o);
	assert_non_null(strstr(text, "   18 not profiled (too many profiled at a time)   "));
	free(text);
}

/* A name and a cause that do not fit beside the numbers have a line of their own, whole. */
static void narrow_terminals_keep_names_and_causes(void **state)
{
	const struct export_options o = {.columns = 60};
	char *text = write_text(sample_profile_orders(), &o);

	assert_non_null(
		strstr(text, "    4250\n            GET:/orders/{id}  lock 400.1, net 122.2\n"));
	assert_non_null(strstr(text, "  left by longjmp or exception, net 400.0\n"));
	assert_non_null(strstr(
		text,
		"    pthread_mutex_lock\n     301.3     301.3      1        futex_wait_queue     lock\n"));
	free(text);
}

static void much_time_before_the_threshold_gives_a_hint(void **state)
{
	const struct export_options o = {};
	struct profile *p = sample_profile_orders();
	char *text;

	text = write_text(p, &o);
	assert_non_null(strstr(text, "  [before threshold] is 26 % of the time: --from-start"));
	free(text);
	text = write_text(sample_profile_deep(10), &o);
	assert_null(strstr(text, "--from-start"));
	free(text);
}

/* Of the way through the kernel only the end is shown, and the run of user frames stops before it. */
static void kernel_frames_are_cut_to_the_last(void **state)
{
	const struct export_options o = {.columns = 100};
	struct profile *p = sample_profile_bare();
	uint32_t ep = sample_endpoint(p, "handle", 1, 1), stack = 0;
	uint32_t exe = sample_module(p, "/bin/x", 1, 0x1000);
	uint32_t kernel = sample_module(p, "[kernel]", 0, 0);
	const uint32_t run[] = {
		sample_location(p, kernel, "futex_do_wait", "", 0, PROFILE_FRAME_KERNEL),
		sample_location(p, kernel, "do_futex", "", 0, PROFILE_FRAME_KERNEL),
		sample_location(p, kernel, "do_syscall_64", "", 0, PROFILE_FRAME_KERNEL),
		sample_location(p, exe, "futex_wait", "", 0, 0),
		sample_location(p, exe, "lock", "", 0, 0),
		sample_location(p, exe, "save", "x.c", 7, 0),
		sample_location(p, exe, "handle", "x.c", 3, 0),
	};
	char *text;

	assert_int_equal(profile_add_stack(p, run, 7, STACK_STOP_ENDPOINT, &stack), 0);
	sample_span(p, ep, "handle", 1, 2000);
	sample_wall(p, stack, SAMPLE_BLOCKED, 202, 250000);
	text = write_text(p, &o);
	assert_int_equal(tree_lines(text), 3);
	assert_non_null(strstr(text, "    save (x.c:7) > lock > futex_wait\n"));
	assert_non_null(strstr(text, "      ... > futex_do_wait  [kernel]  blocked: lock\n"));
	assert_null(strstr(text, "do_syscall_64"));
	free(text);
}

static void statistics_are_shown_when_verbose(void **state)
{
	const struct export_options quiet = {}, verbose = {.verbose = true};
	char *text = write_text(sample_profile_orders(), &quiet);

	assert_null(strstr(text, "retsite_new"));
	assert_non_null(strstr(text, "parallel_limit"));
	free(text);
	text = write_text(sample_profile_orders(), &verbose);
	assert_non_null(strstr(text, "retsite_new"));
	free(text);
}

/* Nearly complete is not complete. */
static void completeness_is_not_rounded_up(void **state)
{
	const struct export_options o = {};
	struct profile *p = sample_profile_unfinished();
	char *text;

	p->spans.at[1].n_due = 1000000;
	p->spans.at[1].n_kept = 999999;
	text = write_text(p, &o);
	assert_non_null(strstr(text, "complete 99.9 %"));
	assert_null(strstr(text, "100 %"));
	free(text);
}

static void slowest_spans_are_as_many_as_asked_for(void **state)
{
	const struct export_options o = {.n_slowest = 1};
	char *text = write_text(sample_profile_orders(), &o);

	assert_non_null(strstr(text, "    4250  GET"));
	assert_null(strstr(text, "    4252  POST"));
	free(text);
}

/* 40 ways to two functions: none of the ways is worth a line, the functions are. */
static void scattered_time_is_shown_by_function(void **state)
{
	const struct export_options o = {.columns = 100, .rows = 8};
	struct profile *p = sample_profile_bare();
	uint32_t ep = sample_endpoint(p, "handle", 1, 1),
		 exe = sample_module(p, "/bin/x", 1, 0x1000);
	uint32_t leaf[] = {
		sample_location(p, exe, "compare", "sort.c", 7, 0),
		sample_location(p, exe, "hash_any", "", 0, 0),
	};
	uint32_t root = sample_location(p, exe, "handle", "", 0, 0);
	char name[16], *text;

	sample_span(p, ep, "handle", 1, 2000);
	for (int i = 0; i < 40; i++) {
		uint32_t run[3] = {leaf[i % 4 == 3], 0, root}, stack = 0;

		snprintf(name, sizeof(name), "way_%d", i);
		run[1] = sample_location(p, exe, name, "", 0, 0);
		assert_int_equal(profile_add_stack(p, run, 3, STACK_STOP_ENDPOINT, &stack), 0);
		sample_wall(p, stack, i % 2 ? SAMPLE_ONCPU : SAMPLE_RUNQ, -1, 10000);
	}
	text = write_text(p, &o);
	assert_non_null(strstr(
		text,
		"function, wherever it was called from\n"
		"     300.0    75.0 %  compare           run queue 200.0, on-CPU 100.0  (sort.c:7)\n"
		"     100.0    25.0 %  hash_any          on-CPU  (x)\n"));
	free(text);
	text = write_text(sample_profile_orders(), &(struct export_options){.columns = 100});
	assert_null(strstr(text, "wherever"));
	free(text);
}

/* The second part of a state gives way to a name, not the other way round. */
static void names_are_whole_beside_a_state(void **state)
{
	const struct export_options o = {.columns = 80};
	struct profile *p = sample_profile_bare();
	uint32_t ep = sample_endpoint(p, "handle", 1, 1), stack = 0;
	uint32_t exe = sample_module(p, "/bin/x", 1, 0x1000);
	const uint32_t run[] = {
		sample_location(p, exe, "a_function_of_28_letters_00", "a_long_file.c", 7, 0),
		sample_location(p, exe, "handle", "", 0, 0),
	};
	char *text;

	assert_int_equal(profile_add_stack(p, run, 2, STACK_STOP_ENDPOINT, &stack), 0);
	sample_span(p, ep, "handle", 1, 2000);
	sample_wall(p, stack, SAMPLE_RUNQ, -1, 1377600);
	sample_wall(p, stack, SAMPLE_ONCPU, -1, 639900);
	text = write_text(p, &o);
	assert_non_null(strstr(text, "  a_function_of_28_letters_00      run queue 1377.6\n"));
	free(text);
}

/* Three states have a function's time, of which two are shown: there is no other place where a reader sees that. */
static void states_that_are_left_out_are_told(void **state)
{
	const struct export_options wide = {}, narrow = {.columns = 60};
	struct profile *p[2];
	char *text;

	for (int i = 0; i < 2; i++) {
		uint32_t ep, exe, stack = 0, run[2];

		p[i] = sample_profile_bare();
		ep = sample_endpoint(p[i], "handle", 1, 1);
		exe = sample_module(p[i], "/bin/x", 1, 0x1000);
		run[0] = sample_location(p[i], exe, "mixed", "a.c", 7, 0);
		run[1] = sample_location(p[i], exe, "handle", "", 0, 0);
		assert_int_equal(profile_add_stack(p[i], run, 2, STACK_STOP_ENDPOINT, &stack), 0);
		sample_span(p[i], ep, "handle", 1, 2000);
		sample_wall(p[i], stack, SAMPLE_RUNQ, -1, 500000);
		sample_wall(p[i], stack, SAMPLE_ONCPU, -1, 400000);
		sample_wall(p[i], stack, SAMPLE_BLOCKED, 202, 300000);
	}
	text = write_text(p[0], &wide);
	assert_non_null(strstr(text, "  run queue 500.0, on-CPU 400.0, ...\n"));
	free(text);
	text = write_text(p[1], &narrow);
	assert_non_null(strstr(text, " run queue 500.0, ...\n"));
	free(text);
}

/* In a bucket of the histogram they would be anywhere between 144 and 152 ms. */
static void quantiles_are_exact_when_each_call_is_a_span(void **state)
{
	const struct export_options o = {};
	struct profile *p = sample_profile_bare();
	uint32_t ep = sample_endpoint(p, "handle", 3, 3), stack = 0;
	uint32_t exe = sample_module(p, "/bin/x", 1, 0x1000);
	uint32_t frame = sample_location(p, exe, "handle", "", 0, 0);
	char *text;

	assert_int_equal(profile_add_stack(p, &frame, 1, STACK_STOP_ENDPOINT, &stack), 0);
	for (int i = 0; i < 3; i++) {
		sample_span(p, ep, "handle", 1, 2000);
		sample_wall(p, stack, SAMPLE_BLOCKED, 202, 150100 + 100 * i);
	}
	text = write_text(p, &o);
	assert_non_null(strstr(text, "   p50 150.2 ms   p99 150.3 ms   "));
	free(text);
}

static void reasons_of_incomplete_stacks_are_whole(void **state)
{
	const struct export_options o = {.columns = 50};
	char *text = write_text(sample_profile_orders(), &o);

	assert_non_null(strstr(text, " snapshots kept; 1 stack\n  incomplete (no_cfi 1)\n"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_line_fits_the_terminal),
		cmocka_unit_test(rows_limit_the_tree),
		cmocka_unit_test(colours_come_only_when_asked_for),
		cmocka_unit_test(long_chains_are_folded),
		cmocka_unit_test(short_lines_keep_the_last_frame),
		cmocka_unit_test(files_have_the_whole_chain),
		cmocka_unit_test(the_programs_own_frames_stay),
		cmocka_unit_test(short_names_are_apart_from_the_calls),
		cmocka_unit_test(header_agrees_with_the_tables),
		cmocka_unit_test(turns_are_told),
		cmocka_unit_test(calls_left_out_are_in_the_table),
		cmocka_unit_test(narrow_terminals_keep_names_and_causes),
		cmocka_unit_test(much_time_before_the_threshold_gives_a_hint),
		cmocka_unit_test(kernel_frames_are_cut_to_the_last),
		cmocka_unit_test(statistics_are_shown_when_verbose),
		cmocka_unit_test(completeness_is_not_rounded_up),
		cmocka_unit_test(slowest_spans_are_as_many_as_asked_for),
		cmocka_unit_test(scattered_time_is_shown_by_function),
		cmocka_unit_test(names_are_whole_beside_a_state),
		cmocka_unit_test(states_that_are_left_out_are_told),
		cmocka_unit_test(reasons_of_incomplete_stacks_are_whole),
		cmocka_unit_test(quantiles_are_exact_when_each_call_is_a_span),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
