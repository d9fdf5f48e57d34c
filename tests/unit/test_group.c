/* SPDX-License-Identifier: Apache-2.0 */
#include "export/group.h"
#include "tests/unit/sample_profile.h"
#include "tests/unit/unit.h"

static void no_samples_make_no_groups(void **state)
{
	struct profile *p = sample_profile_empty();
	struct groups g = {};

	assert_int_equal(groups_init(&g, p), 0);
	assert_int_equal(g.at.n, 0);
	groups_deinit(&g);
	profile_free(p);
}

static void samples_of_a_span_and_stack_are_together(void **state)
{
	struct profile *p = sample_profile_orders();
	struct groups g = {};
	uint64_t wall_ns = 0;
	uint32_t n = 0;

	assert_int_equal(groups_init(&g, p), 0);
	for (size_t i = 0; i < g.at.n; i++) {
		const struct group *one = &g.at.at[i];
		uint64_t sum = 0, count = 0, last_ns = 0;

		assert_int_equal(one->first, n);
		for (uint32_t k = 0; k < one->n; k++) {
			const struct profile_sample *s = &p->samples.at[g.members[one->first + k]];

			assert_int_equal(s->span, one->span);
			assert_int_equal(s->stack, one->stack);
			assert_int_equal(s->kind, one->kind);
			assert_int_equal(s->cause, one->cause);
			assert_true(s->start_ns >= last_ns);
			last_ns = s->start_ns;
			sum += s->wall_ns;
			count += s->count;
		}
		assert_int_equal(sum, one->wall_ns);
		assert_int_equal(count, one->count);
		wall_ns += sum;
		n += one->n;
	}
	assert_int_equal(n, p->samples.n - 1);
	for (size_t i = 1; i < p->samples.n; i++)
		wall_ns -= p->samples.at[i].wall_ns;
	assert_int_equal(wall_ns, 0);
	/* Eight ticks in one stack, after five other stacks or states. */
	assert_int_equal(g.at.at[5].n, 8);
	groups_deinit(&g);
	profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_samples_make_no_groups),
		cmocka_unit_test(samples_of_a_span_and_stack_are_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
