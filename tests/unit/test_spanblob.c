/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/tree.h"
#include "task/spanblob.h"
#include "tests/unit/unit.h"

static const struct task task = {.threshold_ns = 7, .period_ns = 8};

static uint32_t text(struct profile *p, const char *s)
{
	uint32_t id;

	assert_int_equal(strpool_add(p->strings, s, &id), 0);
	return id;
}

static uint32_t location(struct profile *p, const char *function, uint64_t off)
{
	struct profile_module m = {.path = text(p, "/bin/x"), .build_id_bytes = 3, .start = 0x1000};
	struct profile_frame f = {
		.function = text(p, function), .file = text(p, "x.c"), .line = off};
	struct profile_location l = {.module_off = off, .address = 0x1000 + off};
	uint32_t frame, idx;

	f.system_name = f.function;
	assert_int_equal(profile_add_module(p, &m, &l.module), 0);
	assert_int_equal(profile_add_frame(p, &f, &frame), 0);
	assert_int_equal(profile_add_location(p, &l, &frame, 1, &idx), 0);
	return idx;
}

/* Two spans; the second has stacks that the first does not have. */
static struct profile *make(void)
{
	struct profile *p;
	uint32_t locations[2], stack, synthetic;

	assert_int_equal(profile_new(&p), 0);
	p->start_mono_ns = 1000;
	p->start_real_ns = 5000001000;
	p->hostname = text(p, "h");
	vec_push(&p->endpoints, (struct profile_endpoint){.spec = text(p, "f(str(arg0))"),
							  .name = text(p, "f"),
							  .threshold_ns = 7,
							  .period_ns = 8});
	for (uint32_t i = 0; i < 2; i++) {
		struct profile_span s = {.span_id = 100 + i,
					 .endpoint = 1,
					 .name = text(p, i ? "GET /b" : "GET /a"),
					 .tgid = 10,
					 .tid = 11,
					 .comm = text(p, "worker"),
					 .start_ns = 2000,
					 .end_ns = 2100,
					 .oncpu_ns = 60,
					 .blocked_ns = 40,
					 .end_reason = WIRE_END_RETURN,
					 .n_due = 2,
					 .n_kept = 2,
					 .first_sample = p->samples.n,
					 .n_samples = 2};

		locations[0] = location(p, i ? "leaf_b" : "leaf_a", 1 + i);
		locations[1] = location(p, "root", 50);
		assert_int_equal(profile_add_stack(p, locations, 2, STACK_STOP_ENDPOINT, &stack),
				 0);
		assert_int_equal(profile_synthetic_stack(p, "[before threshold]", &synthetic), 0);
		vec_push(&p->spans, s);
		vec_push(&p->samples, (struct profile_sample){.span = p->spans.n - 1,
							      .stack = stack,
							      .kind = SAMPLE_ONCPU,
							      .count = 1,
							      .syscall_nr = -1,
							      .wall_ns = 60,
							      .start_ns = 2050,
							      .end_ns = 2050});
		vec_push(&p->samples, (struct profile_sample){.span = p->spans.n - 1,
							      .stack = synthetic,
							      .kind = SAMPLE_BLOCKED,
							      .cause = BLOCK_LOCK,
							      .syscall_nr = 202,
							      .seq = UINT32_MAX,
							      .wall_ns = 40,
							      .start_ns = 2000,
							      .end_ns = 2040});
	}
	return p;
}

static void test_round_trip(void **state)
{
	struct profile *from = make(), *to;
	struct profile_span *s;
	struct profile_sample *m;
	uint8_t *blob = NULL;
	uint32_t span;
	size_t n;

	assert_int_equal(encode_spanblob(from, 2, &task, &blob, &n), 0);
	profile_new(&to);
	assert_int_equal(decode_spanblob(blob, n, to, &span), 0);
	s = &to->spans.at[span];
	assert_int_equal(to->start_real_ns, 5000001000);
	assert_string_equal(strpool_get(to->strings, s->name), "GET /b");
	assert_string_equal(strpool_get(to->strings, to->endpoints.at[s->endpoint].spec),
			    "f(str(arg0))");
	assert_int_equal(s->span_id, 101);
	assert_int_equal(s->end_ns - s->start_ns, 100);
	assert_int_equal(s->n_samples, 2);
	m = &to->samples.at[s->first_sample];
	assert_int_equal(m[0].syscall_nr, -1);
	assert_int_equal(m[1].syscall_nr, 202);
	assert_int_equal(m[1].seq, UINT32_MAX);
	assert_int_equal(m[1].cause, BLOCK_LOCK);
	assert_int_equal(to->stacks.at[m[0].stack].n, 2);
	/* only what the span uses: reserved + two stacks; "leaf_a" is not there */
	assert_int_equal(to->stacks.n, 3);
	for (uint32_t i = 0; i < strpool_count(to->strings); i++)
		assert_string_not_equal(strpool_get(to->strings, i), "leaf_a");
	free(blob);
	profile_free(from);
	profile_free(to);
}

static void test_blobs_merge(void **state)
{
	struct profile *from = make(), *to;
	struct tree tree = {};
	uint8_t *blob;
	uint32_t span;
	size_t n;

	profile_new(&to);
	for (uint32_t i = 1; i <= 2; i++) {
		/* the second run of the agent has another monotonic clock */
		from->start_mono_ns = i * 1000;
		from->start_real_ns = 5000000000 + i * 500;
		assert_int_equal(encode_spanblob(from, i, &task, &blob, &n), 0);
		assert_int_equal(decode_spanblob(blob, n, to, &span), 0);
		free(blob);
	}
	assert_int_equal(to->spans.n, 3);
	assert_int_equal(to->endpoints.n, 2);
	assert_int_equal(to->spans.at[1].start_ns, 2000);
	assert_int_equal(to->spans.at[2].start_ns, 1500);
	assert_int_equal(tree_build(to, TREE_BY_FUNCTION, NULL, NULL, &tree), 0);
	assert_int_equal(tree.nodes.at[0].total_ns, 200);
	tree_deinit(&tree);
	profile_free(from);
	profile_free(to);
}

static void test_every_cut_and_flip_is_refused_or_harmless(void **state)
{
	struct profile *from = make(), *to;
	uint8_t *blob;
	uint32_t span;
	size_t n;

	assert_int_equal(encode_spanblob(from, 1, &task, &blob, &n), 0);
	profile_new(&to);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(decode_spanblob(blob, i, to, &span), -EINVAL);
	for (size_t i = 0; i < n; i++) {
		blob[i] ^= 0x10;
		decode_spanblob(blob, n, to, &span);
		blob[i] ^= 0x10;
	}
	free(blob);
	profile_free(from);
	profile_free(to);
}

/* The threshold is that of the task, and of several tasks the least. */
static void test_thresholds(void **state)
{
	static const struct task tasks[] = {{.threshold_ns = 120, .period_ns = 10},
					    {.threshold_ns = 100, .period_ns = 20}};
	struct profile *from = make(), *to;

	profile_new(&to);
	for (int i = 0; i < 2; i++) {
		uint8_t *blob = NULL;
		uint32_t span;
		size_t n;

		assert_int_equal(encode_spanblob(from, 1, &tasks[i], &blob, &n), 0);
		assert_int_equal(decode_spanblob(blob, n, to, &span), 0);
		assert_int_equal(to->endpoints.n, 2);
		assert_int_equal(to->endpoints.at[1].threshold_ns, tasks[i].threshold_ns);
		assert_int_equal(to->endpoints.at[1].period_ns, 10);
		free(blob);
	}
	profile_free(to);
	profile_free(from);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_thresholds),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_blobs_merge),
		cmocka_unit_test(test_every_cut_and_flip_is_refused_or_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
