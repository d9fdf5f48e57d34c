/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/export_text.h"
#include "tests/unit/sample_profile.h"
#include "tests/unit/unit.h"

/* Reads the file as flame graph tools do: the last word of a line is its value. */
static uint64_t sum_of(const char *text, size_t *ret_lines)
{
	uint64_t sum = 0;
	size_t lines = 0;

	for (const char *end; *text; text = end + 1) {
		const char *space;

		end = strchr(text, '\n');
		assert_non_null(end);
		space = memrchr(text, ' ', end - text);
		assert_non_null(space);
		if (text[0] == '#') {
			/* The tools skip it, because it does not end in a number. */
			assert_false(end[-1] >= '0' && end[-1] <= '9');
			continue;
		}
		assert_int_equal(strspn(space + 1, "0123456789"), end - space - 1);
		sum += strtoull(space + 1, NULL, 10);
		lines++;
	}
	*ret_lines = lines;
	return sum;
}

static uint64_t wall_ns(const struct profile *p)
{
	uint64_t sum = 0;

	for (size_t i = 1; i < p->samples.n; i++)
		sum += p->samples.at[i].wall_ns;
	return sum;
}

static void turns_are_told(void **state)
{
	struct profile *p = sample_profile_orders();
	const struct export_options o = {};
	size_t n = 0, lines = 0;
	char *text;

	p->turns = (struct profile_turns){10000, 3, 2000000000, 30000000, 4000000000};
	text = export_text("folded", p, &o, &n);
	assert_non_null(strstr(
		text,
		"\n# probed for 2.000 of 30.000 s, in 3 turns, to stay below 1 % of the CPU time; cost 0.030 of 4.000 s\n"));
	assert_int_equal(sum_of(text, &lines), wall_ns(p) / 1000);
	free(text);
	profile_free(p);
}

static void totals_equal_the_samples(void **state)
{
	struct profile *all[] = {sample_profile_orders(), sample_profile_unfinished(),
				 sample_profile_deep(1024), sample_profile_hostile()};
	const struct export_options o = {};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		size_t n = 0, lines = 0;
		char *text = export_text("folded", all[i], &o, &n);

		assert_int_equal(sum_of(text, &lines), wall_ns(all[i]) / 1000);
		assert_true(lines > 0);
		free(text);
		profile_free(all[i]);
	}
}

static uint32_t stack_named(struct profile *p, const char *name)
{
	uint32_t exe = sample_module(p, "/bin/x", 1, 0x1000), stack = 0;
	uint32_t location = sample_location(p, exe, name, "f.c", 1, 0);

	assert_int_equal(profile_add_stack(p, &location, 1, STACK_STOP_ENDPOINT, &stack), 0);
	return stack;
}

/* 1 000 stacks of 1.4 us: rounding each alone would lose 400 us. */
static void rounding_does_not_lose_time(void **state)
{
	struct profile *p = sample_profile_bare();
	uint32_t ep = sample_endpoint(p, "e", 1, 1);
	const struct export_options o = {};
	size_t n = 0, lines = 0;
	char name[32], *text;

	sample_span(p, ep, "e", 1, 1);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		sample_wall(p, stack_named(p, name), SAMPLE_ONCPU, -1, 1);
		p->samples.at[p->samples.n - 1].wall_ns = 1400;
	}
	text = export_text("folded", p, &o, &n);
	assert_int_equal(sum_of(text, &lines), 1400);
	assert_int_equal(lines, 1000);
	free(text);
	profile_free(p);
}

static void time_below_a_microsecond_is_shown(void **state)
{
	struct profile *p = sample_profile_bare();
	uint32_t ep = sample_endpoint(p, "e", 1, 1);
	const struct export_options o = {};
	size_t n = 0, lines = 0;
	char *text;

	sample_span(p, ep, "e", 1, 1);
	sample_wall(p, stack_named(p, "f"), SAMPLE_ONCPU, -1, 1);
	p->samples.at[1].wall_ns = 3;
	text = export_text("folded", p, &o, &n);
	assert_int_equal(sum_of(text, &lines), 1);
	assert_int_equal(lines, 1);
	free(text);
	profile_free(p);
}

static void separators_in_names_are_replaced(void **state)
{
	struct profile *p = sample_profile_hostile();
	const struct export_options o = {};
	size_t n = 0;
	char *text = export_text("folded", p, &o, &n);

	assert_non_null(
		strstr(text, "\nsemi:colon and space;evil;semi:colon and space;[blocked: io] "));
	free(text);
	profile_free(p);
}

/* A name with a separator is one frame, and one with a line break one line: name, root, leaf, state. */
static void each_line_has_its_four_frames(void **state)
{
	struct profile *p = sample_profile_hostile();
	const struct export_options o = {};
	size_t n = 0, n_lines = 0;
	char *text = export_text("folded", p, &o, &n), *rest = NULL;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		size_t n_separators = 0;

		assert_harmless(line);
		if (line[0] == '#')
			continue;
		for (const char *c = line; *c; c++)
			n_separators += *c == ';';
		assert_int_equal(n_separators, 3);
		n_lines++;
	}
	assert_int_equal(n_lines, p->spans.n - 1);
	free(text);
	profile_free(p);
}

static void states_and_kinds_of_frames_are_marked(void **state)
{
	struct profile *p = sample_profile_orders();
	const struct export_options o = {};
	size_t n = 0;
	char *text = export_text("folded", p, &o, &n);

	assert_non_null(
		strstr(text, ";pthread_mutex_lock;futex_wait_queue_[k];[blocked: lock] 300100\n"));
	assert_non_null(
		strstr(text, ";pthread_mutex_lock;futex_wait_queue_[k];[run queue] 1200\n"));
	assert_non_null(strstr(text, ";parse_body;next_token_[i] 94500\n"));
	assert_non_null(strstr(
		text,
		";handle_request;[incomplete: no unwind information];jit:discount_rule 20500\n"));
	assert_non_null(
		strstr(text, ";handle_request;[before threshold];[blocked: lock] 100000\n"));
	free(text);
	profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(totals_equal_the_samples),
		cmocka_unit_test(turns_are_told),
		cmocka_unit_test(rounding_does_not_lose_time),
		cmocka_unit_test(time_below_a_microsecond_is_shown),
		cmocka_unit_test(separators_in_names_are_replaced),
		cmocka_unit_test(each_line_has_its_four_frames),
		cmocka_unit_test(states_and_kinds_of_frames_are_marked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
