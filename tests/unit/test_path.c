/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "export/path.h"
#include "tests/unit/sample_profile.h"
#include "tests/unit/unit.h"

/* The path of the i-th sample, joined. */
static const char *path_text(struct paths *ps, size_t i, char *buf, size_t n)
{
	size_t used = 0;

	assert_int_equal(paths_of(ps, &ps->p->samples.at[i]), 0);
	buf[0] = 0;
	for (size_t k = 0; k < ps->path.n; k++)
		used += snprintf(buf + used, n - used, "%s%s", k ? ">" : "",
				 paths_text(ps, &ps->path.at[k]));
	return buf;
}

static void paths_begin_in_the_endpoint(void **state)
{
	struct profile *p = sample_profile_orders();
	struct paths ps = {};
	char buf[256];

	assert_int_equal(paths_init(&ps, p), 0);
	assert_string_equal(path_text(&ps, 1, buf, sizeof(buf)),
			    "handle_request>[before threshold]");
	assert_string_equal(path_text(&ps, 2, buf, sizeof(buf)),
			    "handle_request>lock_order>pthread_mutex_lock>futex_wait_queue");
	assert_string_equal(path_text(&ps, 6, buf, sizeof(buf)),
			    "handle_request>parse_body>next_token");
	assert_string_equal(path_text(&ps, 17, buf, sizeof(buf)),
			    "handle_request>[incomplete: no_cfi]>jit:discount_rule");
	paths_deinit(&ps);
	profile_free(p);
}

/* Without any complete stack the endpoint's name stands for its function. */
static void name_stands_in_for_the_function(void **state)
{
	struct profile *p = sample_profile_bare();
	uint32_t ep = sample_endpoint(p, "handle", 1, 1), synthetic = 0, faulted = 0;
	struct paths ps = {};
	char buf[256];

	assert_int_equal(profile_synthetic_stack(p, "[before threshold]", &synthetic), 0);
	assert_int_equal(profile_add_stack(p, NULL, 0, STACK_STOP_NO_WINDOW, &faulted), 0);
	sample_span(p, ep, "handle", 1, 1);
	sample_wall(p, synthetic, SAMPLE_ONCPU, -1, 10);
	sample_wall(p, faulted, SAMPLE_ONCPU, -1, 10);
	assert_int_equal(paths_init(&ps, p), 0);
	assert_string_equal(path_text(&ps, 1, buf, sizeof(buf)), "handle>[before threshold]");
	assert_string_equal(path_text(&ps, 2, buf, sizeof(buf)), "handle>[incomplete: no_window]");
	paths_deinit(&ps);
	profile_free(p);
}

static void states_have_names(void **state)
{
	struct profile_sample s = {.kind = SAMPLE_ONCPU};

	assert_null(path_state(&s));
	s.kind = SAMPLE_RUNQ;
	assert_string_equal(path_state(&s), "[run queue]");
	s.kind = SAMPLE_BLOCKED;
	assert_string_equal(path_state(&s), "[blocked]");
	for (unsigned int c = BLOCK_NONE + 1; c < BLOCK_CAUSE_MAX; c++) {
		char expected[32];

		s.cause = c;
		snprintf(expected, sizeof(expected), "[blocked: %s]", block_cause_name(c));
		assert_string_equal(path_state(&s), expected);
	}
}

static void every_stop_but_two_is_incomplete(void **state)
{
	for (unsigned int i = 0; i < STACK_STOP_MAX; i++) {
		char expected[64];

		if (i == STACK_STOP_ENDPOINT || i == STACK_STOP_NONE) {
			assert_null(path_incomplete(i));
			continue;
		}
		snprintf(expected, sizeof(expected), "[incomplete: %s]", stack_stop_name(i));
		assert_string_equal(path_incomplete(i), expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_begin_in_the_endpoint),
		cmocka_unit_test(name_stands_in_for_the_function),
		cmocka_unit_test(states_have_names),
		cmocka_unit_test(every_stop_but_two_is_incomplete),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
