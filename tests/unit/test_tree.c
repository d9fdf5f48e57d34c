/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/tree.h"
#include "tests/unit/sample_profile.h"
#include "tests/unit/unit.h"

static const char *name_of(const struct profile *p, const struct tree_node *n)
{
	return strpool_get(p->strings, p->frames.at[n->frame].function);
}

/* The child of `node` with the function name; fails the test when there is none. */
static uint32_t child_named(const struct profile *p, const struct tree *t, uint32_t node,
			    const char *name)
{
	for (uint32_t c = t->nodes.at[node].first_child; c; c = t->nodes.at[c].next_sibling)
		if (!strcmp(name_of(p, &t->nodes.at[c]), name))
			return c;
	fail_msg("no child %s", name);
	return 0;
}

static bool keep_endpoint(const struct profile_span *span, void *ctx)
{
	return span->endpoint == *(uint32_t *)ctx;
}

static void empty_profile_has_a_root_only(void **state)
{
	struct profile *p = sample_profile_empty();
	struct tree t = {};

	assert_int_equal(tree_build(p, TREE_BY_FUNCTION, NULL, NULL, &t), 0);
	assert_int_equal(t.nodes.n, 1);
	assert_int_equal(t.hot_line.n, 1);
	assert_int_equal(t.nodes.at[0].total_ns, 0);
	tree_deinit(&t);
	profile_free(p);
}

static void root_total_is_the_duration(void **state)
{
	struct profile *p = sample_profile_orders();
	struct tree t = {};
	uint64_t sum = 0;

	assert_int_equal(tree_build(p, TREE_BY_LINE, NULL, NULL, &t), 0);
	for (size_t i = 1; i < p->spans.n; i++)
		sum += p->spans.at[i].end_ns - p->spans.at[i].start_ns;
	assert_int_equal(t.nodes.at[0].total_ns, sum);
	tree_deinit(&t);
	profile_free(p);
}

/* Of every node: total = self + children, and the kinds add up. */
static void totals_are_consistent(void **state)
{
	struct profile *p = sample_profile_orders();
	struct tree t = {};

	assert_int_equal(tree_build(p, TREE_BY_FUNCTION, NULL, NULL, &t), 0);
	for (size_t i = 0; i < t.nodes.n; i++) {
		const struct tree_node *n = &t.nodes.at[i];
		uint64_t sum = n->self_ns, kinds = 0, self_kinds = 0, causes = 0;

		for (uint32_t c = n->first_child; c; c = t.nodes.at[c].next_sibling) {
			assert_int_equal(t.nodes.at[c].parent, i);
			sum += t.nodes.at[c].total_ns;
		}
		for (unsigned int k = 0; k < SAMPLE_KIND_MAX; k++) {
			kinds += n->total_by_kind[k];
			self_kinds += n->self_by_kind[k];
		}
		for (unsigned int k = 0; k < BLOCK_CAUSE_MAX; k++)
			causes += n->self_by_cause[k];
		assert_int_equal(n->total_ns, sum);
		assert_int_equal(n->total_ns, kinds);
		assert_int_equal(n->self_ns, self_kinds);
		assert_int_equal(n->self_ns, causes);
	}
	tree_deinit(&t);
	profile_free(p);
}

static void only_kept_spans_are_merged(void **state)
{
	struct profile *p = sample_profile_orders();
	uint32_t ep = 2, job;
	struct tree t = {};

	assert_int_equal(tree_build(p, TREE_BY_FUNCTION, keep_endpoint, &ep, &t), 0);
	assert_int_equal(t.nodes.at[0].total_ns, 11000000000);
	job = child_named(p, &t, 0, "run_job");
	assert_int_equal(t.nodes.at[job].total_ns, 11000000000);
	assert_int_equal(t.nodes.at[job].count, 1);
	tree_deinit(&t);
	profile_free(p);
}

static void children_are_ordered_by_total(void **state)
{
	struct profile *p = sample_profile_orders();
	struct tree t = {};

	assert_int_equal(tree_build(p, TREE_BY_FUNCTION, NULL, NULL, &t), 0);
	for (size_t i = 0; i < t.nodes.n; i++) {
		uint64_t last = UINT64_MAX;

		for (uint32_t c = t.nodes.at[i].first_child; c; c = t.nodes.at[c].next_sibling) {
			assert_true(t.nodes.at[c].total_ns <= last);
			last = t.nodes.at[c].total_ns;
		}
	}
	tree_deinit(&t);
	profile_free(p);
}

static void inlined_frames_are_nodes(void **state)
{
	struct profile *p = sample_profile_orders();
	struct tree t = {};
	uint32_t handle, parse, token;

	assert_int_equal(tree_build(p, TREE_BY_FUNCTION, NULL, NULL, &t), 0);
	handle = child_named(p, &t, 0, "handle_request");
	parse = child_named(p, &t, handle, "parse_body");
	token = child_named(p, &t, parse, "next_token");
	assert_int_equal(t.nodes.at[parse].self_ns, 0);
	assert_int_equal(t.nodes.at[token].self_ns, 94500000);
	assert_int_equal(t.nodes.at[token].self_by_kind[SAMPLE_ONCPU], 94500000);
	assert_int_equal(t.nodes.at[token].count, 9);
	tree_deinit(&t);
	profile_free(p);
}

static void incomplete_stacks_are_counted(void **state)
{
	struct profile *p = sample_profile_orders();
	struct tree t = {};
	uint32_t handle, cut, jit, before;

	assert_int_equal(tree_build(p, TREE_BY_FUNCTION, NULL, NULL, &t), 0);
	handle = child_named(p, &t, 0, "handle_request");
	cut = child_named(p, &t, handle, "[incomplete: no unwind information]");
	jit = child_named(p, &t, cut, "jit:discount_rule");
	before = child_named(p, &t, handle, "[before threshold]");
	assert_int_equal(t.nodes.at[handle].incomplete_ns, 20500000);
	assert_int_equal(t.nodes.at[cut].incomplete_ns, 20500000);
	assert_int_equal(t.nodes.at[jit].self_ns, 20500000);
	assert_int_equal(t.nodes.at[before].incomplete_ns, 0);
	tree_deinit(&t);
	profile_free(p);
}

/* Two lines of one function: one node by function, which shows the hotter line; two by line. */
static void lines_are_merged_by_function(void **state)
{
	struct profile *p = sample_profile_bare();
	uint32_t exe = sample_module(p, "/bin/x", 1, 0x1000), stack = 0;
	uint32_t a = sample_location(p, exe, "f", "f.c", 11, 0);
	uint32_t b = sample_location(p, exe, "f", "f.c", 12, 0);
	struct tree t = {};

	sample_span(p, 0, "f", 1, 1);
	assert_int_equal(profile_add_stack(p, &a, 1, STACK_STOP_ENDPOINT, &stack), 0);
	sample_wall(p, stack, SAMPLE_ONCPU, -1, 10);
	assert_int_equal(profile_add_stack(p, &b, 1, STACK_STOP_ENDPOINT, &stack), 0);
	sample_wall(p, stack, SAMPLE_ONCPU, -1, 20);
	assert_int_equal(tree_build(p, TREE_BY_FUNCTION, NULL, NULL, &t), 0);
	assert_int_equal(t.nodes.n, 2);
	assert_int_equal(t.nodes.at[1].total_ns, 30000);
	assert_int_equal(p->frames.at[t.hot_line.at[1]].line, 12);
	tree_deinit(&t);
	assert_int_equal(tree_build(p, TREE_BY_LINE, NULL, NULL, &t), 0);
	assert_int_equal(t.nodes.n, 3);
	assert_int_equal(t.nodes.at[t.nodes.at[0].first_child].total_ns, 20000);
	tree_deinit(&t);
	profile_free(p);
}

static void deep_stacks_are_kept_whole(void **state)
{
	struct profile *p = sample_profile_deep(1024);
	struct tree t = {};

	assert_int_equal(tree_build(p, TREE_BY_FUNCTION, NULL, NULL, &t), 0);
	assert_int_equal(t.nodes.n, 1025);
	assert_int_equal(t.nodes.at[1024].self_ns, 250000000);
	assert_int_equal(t.nodes.at[1024].total_ns, 250000000);
	tree_deinit(&t);
	profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_profile_has_a_root_only),
		cmocka_unit_test(root_total_is_the_duration),
		cmocka_unit_test(totals_are_consistent),
		cmocka_unit_test(only_kept_spans_are_merged),
		cmocka_unit_test(children_are_ordered_by_total),
		cmocka_unit_test(inlined_frames_are_nodes),
		cmocka_unit_test(incomplete_stacks_are_counted),
		cmocka_unit_test(lines_are_merged_by_function),
		cmocka_unit_test(deep_stacks_are_kept_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
