/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/cleanup.h"
#include "net/snapshots.h"
#include "tests/unit/oap_analysis.h"
#include "tests/unit/unit.h"

#define MS 1000000ULL

enum { PERIOD_MS = 10, REAL_MS = 1700000000 };

/* --- the server's analysis against its published vectors ---------------------------------- */

struct vector {
	const char *stacks[12];     /* one letter a frame, outermost first */
	struct oap_range ranges[3]; /* in dump indexes; the first all-zero one after [0] ends */
	int n_ranges;
	const char *want; /* "path count total:self" of each node, in order of appearance */
};

static const char *letter(char c)
{
	static const char *const letters[] = {"A", "B", "C", "D", "E"};

	return letters[c - 'A'];
}

static void node_path(const struct oap_tree *t, size_t i, char *buf)
{
	if (t->nodes.at[i].parent)
		node_path(t, t->nodes.at[i].parent, buf);
	strcat(buf, t->nodes.at[i].text);
}

static void check_vector(const struct vector *v)
{
	const char *frames[12][8];
	struct oap_dump dumps[12];
	struct oap_range ranges[3];
	struct oap_tree t;
	char got[512] = "";
	size_t n = 0;

	for (; n < ARRAY_SIZE(v->stacks) && v->stacks[n]; n++) {
		size_t depth = strlen(v->stacks[n]);

		for (size_t i = 0; i < depth; i++)
			frames[n][i] = letter(v->stacks[n][i]);
		dumps[n] = (struct oap_dump){(int64_t)n * 10, (int)n, frames[n], depth};
	}
	for (int i = 0; i < v->n_ranges; i++)
		ranges[i] =
			(struct oap_range){v->ranges[i].start_ms * 10, v->ranges[i].end_ms * 10};
	oap_analyse(dumps, n, ranges, (size_t)v->n_ranges, 10, &t);
	for (size_t i = 1; i < t.nodes.n; i++) {
		const struct oap_node *node = &t.nodes.at[i];
		char path[16] = "";

		node_path(&t, i, path);
		snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%s %d %lld:%lld",
			 i > 1 ? ", " : "", path, node->count, (long long)node->duration_ms,
			 (long long)node->self_ms);
	}
	vec_free(&t.nodes);
	assert_string_equal(got, v->want);
}

static void test_analysis_vectors(void **state)
{
	static const struct vector vectors[] = {
		{{"ABC", "AB", "ABCD"}, {{0, 2}}, 1, "A 3 20:0, AB 3 20:20, ABC 2 0:0, ABCD 1 0:0"},
		{{"ABC", "BCD"},
		 {{0, 1}},
		 1,
		 "A 1 0:0, AB 1 0:0, ABC 1 0:0, B 1 0:0, BC 1 0:0, BCD 1 0:0"},
		{{"ABCD", "AB", "ABC", "AB", "ABCD"},
		 {{0, 4}},
		 1,
		 "A 5 40:0, AB 5 40:40, ABC 3 0:0, ABCD 2 0:0"},
		{{"ABC", "ABCA", "ACA", "ABCB"},
		 {{0, 3}},
		 1,
		 "A 4 30:20, AB 3 10:0, ABC 3 10:10, ABCA 1 0:0, AC 1 0:0, ACA 1 0:0, ABCB 1 0:0"},
		{{"ABC", "ABBC", "ABBB", "ACB"},
		 {{0, 3}},
		 1,
		 "A 4 30:10, AB 3 20:10, ABC 1 0:0, ABB 2 10:10, ABBC 1 0:0, ABBB 1 0:0, AC 1 0:0, ACB 1 0:0"},
		{{"ABC", "AB", "DE"},
		 {{0, 2}},
		 1,
		 "A 2 10:0, AB 2 10:10, ABC 1 0:0, D 1 0:0, DE 1 0:0"},
		{{"A", "A", "A", "A", "A", "A", "A", "A", "A", "A", "A"},
		 {{0, 10}},
		 1,
		 "A 10 90:90"},
		{{"A", "A", "A", "AC", "A", "A", "AD"}, {{0, 2}, {4, 5}}, 2, "A 5 30:30"},
		{{"A", "A", "A", "A", "B", "A", "A"}, {{0, 2}, {1, 3}, {5, 6}}, 3, "A 6 40:40"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(vectors); i++)
		check_vector(&vectors[i]);
}

/* --- making profiles ----------------------------------------------------------------------- */

static uint32_t add_string(struct profile *p, const char *s)
{
	uint32_t id;

	assert_int_equal(strpool_add(p->strings, s, &id), 0);
	return id;
}

/* A stack of one-letter functions, outermost first, as ABC: C is the leaf, on line `line`. */
static uint32_t add_stack(struct profile *p, const char *letters, uint32_t line,
			  enum stack_stop stop)
{
	uint32_t locations[1024], idx, n = (uint32_t)strlen(letters);

	for (uint32_t i = 0; i < n; i++) {
		char name[2] = {letters[n - 1 - i]};
		struct profile_frame f = {.function = add_string(p, name),
					  .line = i ? 7 : line,
					  .system_name = add_string(p, name)};
		struct profile_location l = {.module_off = (uint64_t)name[0] << 16 | f.line};
		uint32_t frame;

		assert_int_equal(profile_add_frame(p, &f, &frame), 0);
		assert_int_equal(profile_add_location(p, &l, &frame, 1, &locations[i]), 0);
	}
	assert_int_equal(profile_add_stack(p, locations, n, stop, &idx), 0);
	return idx;
}

static void add_sample(struct profile *p, uint32_t stack, enum sample_kind kind, uint64_t wall_ns)
{
	struct profile_span *span = &p->spans.at[1];
	struct profile_sample s = {.span = 1,
				   .stack = stack,
				   .kind = kind,
				   .count = 1,
				   .wall_ns = wall_ns,
				   .start_ns = span->end_ns,
				   .end_ns = span->end_ns + wall_ns};

	/* On CPU, a sample is a tick: a point in the middle of what it stands for. */
	if (kind == SAMPLE_ONCPU)
		s.start_ns = s.end_ns = span->end_ns + wall_ns / 2;
	assert_int_equal(vec_push(&p->samples, s), 0);
	span->end_ns += wall_ns;
	span->n_samples++;
}

static struct profile *new_profile(uint64_t start_offset_ns)
{
	struct profile *p;
	struct profile_span span = {.span_id = 1, .endpoint = 1, .first_sample = 1};

	assert_int_equal(profile_new(&p), 0);
	p->start_mono_ns = 5000;
	p->start_real_ns = REAL_MS * MS;
	span.start_ns = span.end_ns = 5000 + start_offset_ns;
	assert_int_equal(
		vec_push(&p->endpoints, (struct profile_endpoint){.name = add_string(p, "E")}), 0);
	assert_int_equal(vec_push(&p->spans, span), 0);
	return p;
}

static void convert(const struct profile *p, struct snapshots *ret)
{
	struct snapshots_options o = {.period_ns = PERIOD_MS * MS};

	assert_int_equal(snapshots_of_span(p, 1, &o, ret), 0);
}

static void path_text(const struct snapshots *s, uint32_t path, char *buf, size_t n)
{
	*buf = '\0';
	for (uint32_t i = 0; i < s->paths.at[path].n; i++)
		snprintf(buf + strlen(buf), n - strlen(buf), "%s%s", i ? ">" : "",
			 snapshots_text(s, path, i));
}

/* "time path" of each snapshot, time relative to the segment. */
static void assert_snapshots(const struct snapshots *s, const char *want)
{
	char got[4096] = "", path[512];

	for (size_t i = 0; i < s->list.n; i++) {
		path_text(s, s->list.at[i].path, path, sizeof(path));
		snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%lld %s", i ? ", " : "",
			 (long long)(s->list.at[i].time_ms - s->start_ms), path);
	}
	assert_string_equal(got, want);
}

/* --- conversion ---------------------------------------------------------------------------- */

static void test_blocked_interval_has_a_dump_per_period(void **state)
{
	struct profile *p = new_profile(0);
	struct snapshots s;

	add_sample(p, add_stack(p, "AB", 3, STACK_STOP_ENDPOINT), SAMPLE_BLOCKED, 40 * MS);
	convert(p, &s);
	assert_int_equal(s.start_ms, REAL_MS);
	assert_int_equal(s.end_ms, REAL_MS + 40);
	assert_snapshots(&s, "0 A>B:3, 10 A>B:3, 20 A>B:3, 30 A>B:3, 40 A>B:3");
	snapshots_deinit(&s);
	profile_free(p);
}

static void test_runs_open_and_close(void **state)
{
	struct profile *p = new_profile(0);
	struct snapshots s;

	add_sample(p, add_stack(p, "AB", 1, STACK_STOP_ENDPOINT), SAMPLE_ONCPU, 10 * MS);
	add_sample(p, add_stack(p, "ACD", 2, STACK_STOP_ENDPOINT), SAMPLE_ONCPU, 10 * MS);
	add_sample(p, add_stack(p, "ACD", 2, STACK_STOP_ENDPOINT), SAMPLE_RUNQ, 5 * MS);
	convert(p, &s);
	assert_snapshots(&s, "0 A>B:1, 10 A>B:1, 10 A>C:7>D:2, 17 A>C:7>D:2, 25 A>C:7>D:2");
	snapshots_deinit(&s);
	profile_free(p);
}

static void test_incomplete_and_made_up_stacks_keep_the_root(void **state)
{
	struct profile *p = new_profile(0);
	struct snapshots s;
	uint32_t before;

	assert_int_equal(profile_synthetic_stack(p, "[before threshold]", &before), 0);
	add_sample(p, before, SAMPLE_ONCPU, 50 * MS);
	add_sample(p, add_stack(p, "AB", 1, STACK_STOP_ENDPOINT), SAMPLE_ONCPU, 10 * MS);
	add_sample(p, add_stack(p, "XY", 1, STACK_STOP_NO_CFI), SAMPLE_ONCPU, 10 * MS);
	convert(p, &s);
	assert_snapshots(&s,
			 "0 A>[before threshold], 50 A>[before threshold], 50 A>B:1, 60 A>B:1, "
			 "60 A>[incomplete: no_cfi]>X:7>Y:1, 70 A>[incomplete: no_cfi]>X:7>Y:1");
	snapshots_deinit(&s);
	profile_free(p);
}

/* As the pipeline makes them: what is incomplete ends in the endpoint's frame, too. */
static void test_rooted_stacks_are_not_rooted_twice(void **state)
{
	struct profile *p = new_profile(0);
	struct snapshots s;

	add_sample(p, add_stack(p, "AXB", 4, STACK_STOP_NO_CFI), SAMPLE_ONCPU, 10 * MS);
	add_sample(p, add_stack(p, "AB", 1, STACK_STOP_ENDPOINT), SAMPLE_ONCPU, 10 * MS);
	convert(p, &s);
	assert_snapshots(&s, "0 A>X:7>B:4, 10 A>X:7>B:4, 10 A>B:1, 20 A>B:1");
	snapshots_deinit(&s);
	profile_free(p);
}

static void test_without_complete_stack_the_endpoint_is_the_root(void **state)
{
	struct profile *p = new_profile(0);
	struct snapshots s;

	add_sample(p, add_stack(p, "X", 1, STACK_STOP_NO_WINDOW), SAMPLE_ONCPU, 10 * MS);
	convert(p, &s);
	assert_snapshots(&s, "0 E>[incomplete: no_window]>X:1, 10 E>[incomplete: no_window]>X:1");
	snapshots_deinit(&s);
	profile_free(p);
}

static void test_shortest_spans_have_sequence_zero(void **state)
{
	struct profile *p = new_profile(300000);
	struct snapshots s;

	convert(p, &s);
	assert_snapshots(&s, "0 E");
	snapshots_deinit(&s);
	add_sample(p, add_stack(p, "AB", 1, STACK_STOP_ENDPOINT), SAMPLE_ONCPU, 1000);
	convert(p, &s);
	assert_snapshots(&s, "0 A>B:1");
	assert_int_equal(s.end_ms, s.start_ms);
	snapshots_deinit(&s);
	profile_free(p);
}

static void test_deep_stack_keeps_both_ends(void **state)
{
	struct profile *p = new_profile(0);
	struct snapshots_options o = {.period_ns = PERIOD_MS * MS, .max_depth = 6};
	struct snapshots s;

	add_sample(p, add_stack(p, "ABCDEFGH", 1, STACK_STOP_ENDPOINT), SAMPLE_BLOCKED, MS);
	assert_int_equal(snapshots_of_span(p, 1, &o, &s), 0);
	assert_snapshots(&s, "0 A>B:7>C:7>[frames left out]>G:7>H:1, "
			     "1 A>B:7>C:7>[frames left out]>G:7>H:1");
	assert_int_equal(s.n_deep, 1);
	snapshots_deinit(&s);
	profile_free(p);
}

static void test_frame_texts(void **state)
{
	struct profile *p = new_profile(0);
	struct profile_module m = {.path = add_string(p, "/usr/lib/libx.so.1")};
	struct profile_frame f = {.function = add_string(p, "read")};
	struct profile_frame u = {.function = add_string(p, "libx.so.1+0x12"),
				  .flags = PROFILE_FRAME_UNKNOWN};
	struct profile_frame bad = {.function = add_string(p, "f\xff\ng"), .line = 4};
	struct profile_frame root = {.function = add_string(p, "main"), .line = 9};
	uint32_t module, frames[4], locations[4], stack;
	struct snapshots s;

	assert_int_equal(profile_add_module(p, &m, &module), 0);
	assert_int_equal(profile_add_frame(p, &bad, &frames[0]), 0);
	assert_int_equal(profile_add_frame(p, &u, &frames[1]), 0);
	assert_int_equal(profile_add_frame(p, &f, &frames[2]), 0);
	assert_int_equal(profile_add_frame(p, &root, &frames[3]), 0);
	for (uint32_t i = 0; i < 4; i++) {
		struct profile_location l = {.module = module, .module_off = i};

		assert_int_equal(profile_add_location(p, &l, &frames[i], 1, &locations[i]), 0);
	}
	assert_int_equal(profile_add_stack(p, locations, 4, STACK_STOP_ENDPOINT, &stack), 0);
	add_sample(p, stack, SAMPLE_BLOCKED, MS);
	convert(p, &s);
	assert_snapshots(&s, "0 main>libx.so.1.read>libx.so.1+0x12>f??g:4, "
			     "1 main>libx.so.1.read>libx.so.1+0x12>f??g:4");
	snapshots_deinit(&s);
	profile_free(p);
}

/* --- the server's tree against ours -------------------------------------------------------- */

static void analyse(const struct snapshots *s, struct oap_tree *ret)
{
	struct oap_dump *dumps = calloc(s->list.n, sizeof(*dumps));
	const char **texts = calloc(s->texts.n, sizeof(*texts));

	assert_non_null(dumps);
	assert_non_null(texts);
	for (size_t i = 0; i < s->texts.n; i++)
		texts[i] = strpool_get(s->strings, s->texts.at[i]);
	for (size_t i = 0; i < s->list.n; i++) {
		const struct snapshot_path *path = &s->paths.at[s->list.at[i].path];

		dumps[i] = (struct oap_dump){s->list.at[i].time_ms, (int)i, texts + path->first,
					     path->n};
		assert_in_range(dumps[i].time_ms, s->start_ms, s->end_ms);
		if (i)
			assert_true(dumps[i].time_ms >= dumps[i - 1].time_ms);
	}
	oap_analyse(dumps, s->list.n, NULL, 0, 0, ret);
	free(dumps);
	free(texts);
}

/* Exact wall time below every path that begins with the node's, from the samples themselves. */
static uint64_t exact_ns(const struct profile *p, const struct oap_tree *t, size_t node)
{
	const char *path[64];
	uint64_t sum = 0;
	size_t n = 0;

	for (size_t i = node; i; i = t->nodes.at[i].parent)
		path[n++] = t->nodes.at[i].text;
	for (uint32_t i = 0; i < p->spans.at[1].n_samples; i++) {
		const struct profile_sample *s = &p->samples.at[p->spans.at[1].first_sample + i];
		const struct profile_stack *stack = &p->stacks.at[s->stack];
		bool same = stack->n >= n;

		/* The root's text has no line. */
		for (uint32_t j = 1; j < n && same; j++) {
			const struct profile_location *l =
				&p->locations.at[p->stack_runs.at[stack->first + stack->n - 1 - j]];
			const struct profile_frame *f =
				&p->frames.at[p->frame_runs.at[l->first_frame]];
			char text[32];

			snprintf(text, sizeof(text), "%s:%u", strpool_get(p->strings, f->function),
				 f->line);
			same = strcmp(text, path[n - 1 - j]) == 0;
		}
		if (same)
			sum += s->wall_ns;
	}
	return sum;
}

static void assert_tree_is_near(const struct profile *p, uint64_t period_ns)
{
	struct snapshots_options o = {.period_ns = period_ns};
	struct snapshots s;
	struct oap_tree t;

	assert_int_equal(snapshots_of_span(p, 1, &o, &s), 0);
	assert_int_equal(s.period_ns, period_ns);
	analyse(&s, &t);
	for (size_t i = 1; i < t.nodes.n; i++) {
		int64_t want = (int64_t)exact_ns(p, &t, i);
		int64_t error = t.nodes.at[i].duration_ms * (int64_t)MS - want;

		if (error > (int64_t)period_ns || error < -(int64_t)period_ns)
			fail_msg("node %zu \"%s\": %lld ms, exactly %.3f ms", i, t.nodes.at[i].text,
				 (long long)t.nodes.at[i].duration_ms, (double)want / 1e6);
	}
	vec_free(&t.nodes);
	snapshots_deinit(&s);
}

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/* Bursts of ticks and waits of every length, over stacks that share some of their frames. */
static void test_random_spans_are_within_a_period(void **state)
{
	static const char *const stacks[] = {"AB",  "ABC",  "ABCD", "ABD", "ABDE", "AC",
					     "ACB", "ACBD", "AD",   "ADE", "ADEB", "A"};

	for (uint32_t round = 0; round < 200; round++) {
		uint32_t seed = round, n = 1 + next_random(&seed) % 300;
		struct profile *p = new_profile(next_random(&seed) % MS);

		for (uint32_t i = 0; i < n; i++) {
			uint32_t stack =
				add_stack(p, stacks[next_random(&seed) % ARRAY_SIZE(stacks)],
					  1 + next_random(&seed) % 2, STACK_STOP_ENDPOINT);
			enum sample_kind kind = next_random(&seed) % SAMPLE_KIND_MAX;
			uint64_t wall = round % 3 == 0 ? next_random(&seed) % (30 * MS)
						       : next_random(&seed) % (3 * MS);

			add_sample(p, stack, kind, wall);
		}
		assert_tree_is_near(p, PERIOD_MS * MS);
		profile_free(p);
	}
}

/* What rounding alone would lose: a frame that always runs for less than a millisecond. */
static void test_many_short_runs_add_up(void **state)
{
	struct profile *p = new_profile(0);
	uint32_t a = add_stack(p, "AB", 1, STACK_STOP_ENDPOINT);
	uint32_t b = add_stack(p, "AC", 1, STACK_STOP_ENDPOINT);

	for (int i = 0; i < 3000; i++) {
		add_sample(p, a, SAMPLE_ONCPU, 200000);
		add_sample(p, b, SAMPLE_BLOCKED, 800000);
	}
	assert_tree_is_near(p, PERIOD_MS * MS);
	profile_free(p);
}

static void test_too_many_dumps_double_the_period(void **state)
{
	struct profile *p = new_profile(0);
	struct snapshots_options o = {.period_ns = PERIOD_MS * MS, .max_snapshots = 100};
	struct snapshots s;
	struct oap_tree t;

	for (int i = 0; i < 500; i++)
		add_sample(p, add_stack(p, i % 2 ? "AB" : "AC", 1, STACK_STOP_ENDPOINT),
			   SAMPLE_ONCPU, 10 * MS);
	assert_int_equal(snapshots_of_span(p, 1, &o, &s), 0);
	assert_true(s.list.n <= 100);
	assert_true(s.period_ns > o.period_ns);
	analyse(&s, &t);
	assert_int_equal(t.nodes.at[1].duration_ms, 5000);
	assert_true(labs((long)t.nodes.at[2].duration_ms - 2500) <= (long)(s.period_ns / MS));
	vec_free(&t.nodes);
	snapshots_deinit(&s);
	profile_free(p);
}

/* A 15-minute span at the shortest period of a server's task stays within what a server analyses. */
static void test_longest_span(void **state)
{
	struct profile *p = new_profile(0);
	struct snapshots s;

	for (int i = 0; i < 900; i++)
		add_sample(p, add_stack(p, i % 2 ? "AB" : "AC", 1, STACK_STOP_ENDPOINT),
			   SAMPLE_BLOCKED, 1000 * MS);
	convert(p, &s);
	assert_true(s.list.n <= 12000);
	assert_true(s.list.n > 3000);
	assert_int_equal(s.list.at[s.list.n - 1].time_ms, s.end_ms);
	snapshots_deinit(&s);
	profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_analysis_vectors),
		cmocka_unit_test(test_blocked_interval_has_a_dump_per_period),
		cmocka_unit_test(test_runs_open_and_close),
		cmocka_unit_test(test_incomplete_and_made_up_stacks_keep_the_root),
		cmocka_unit_test(test_rooted_stacks_are_not_rooted_twice),
		cmocka_unit_test(test_without_complete_stack_the_endpoint_is_the_root),
		cmocka_unit_test(test_shortest_spans_have_sequence_zero),
		cmocka_unit_test(test_deep_stack_keeps_both_ends),
		cmocka_unit_test(test_frame_texts),
		cmocka_unit_test(test_random_spans_are_within_a_period),
		cmocka_unit_test(test_many_short_runs_add_up),
		cmocka_unit_test(test_too_many_dumps_double_the_period),
		cmocka_unit_test(test_longest_span),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
