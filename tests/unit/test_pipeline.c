/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/pipeline.h"
#include "tests/unit/unit.h"

#define MS 1000000ULL

enum { LOW = 1, HIGH = 2 };

struct world {
	struct endpoint *ep;
	struct pipeline *p;
	uint64_t span_id;
};

static void set_gate(struct world *w, uint32_t instance_id, uint64_t threshold_ns,
		     uint64_t sample_after_ns)
{
	const struct pipeline_endpoint e = {.spec = w->ep,
					    .terms = {.threshold_ns = threshold_ns,
						      .sample_after_ns = sample_after_ns,
						      .period_ns = 10 * MS}};

	/* As the engine does it. */
	assert_int_equal(pipeline_set_endpoint(w->p, 0, &e), 0);
	assert_int_equal(pipeline_set_gate(w->p, &(struct wire_gate_key){0, instance_id}, &e.terms),
			 0);
}

static void begin(struct world *w, uint32_t instance_id, uint32_t tid)
{
	const struct wire_promoted b = {
		.h = {.size = sizeof(b), .kind = WIRE_K_PROMOTED, .tgid = tid, .tid = tid},
		.span_id = ++w->span_id,
		.start_ns = 1000 * MS,
		.promoted_ns = 1050 * MS,
		.entry_sp = 0x7000,
		.instance_id = instance_id,
		.promoted = {.oncpu_ns = 50 * MS},
	};

	assert_int_equal(pipeline_push(w->p, &b, sizeof(b)), 0);
}

static void end(struct world *w, uint32_t instance_id, uint32_t tid, uint64_t took_ns)
{
	const struct wire_end e = {
		.h = {.size = sizeof(e),
		      .kind = WIRE_K_END,
		      .mono_ns = 1000 * MS + took_ns,
		      .tgid = tid,
		      .tid = tid},
		.span_id = w->span_id,
		.start_ns = 1000 * MS,
		.wall = {.oncpu_ns = took_ns},
		.instance_id = instance_id,
		.reason = WIRE_END_RETURN,
	};

	assert_int_equal(pipeline_push(w->p, &e, sizeof(e)), 0);
}

static size_t n_spans(const struct world *w)
{
	return pipeline_profile(w->p)->spans.n - 1;
}

static void setup(struct world *w)
{
	const struct pipeline_options o = {.no_symbols = true};

	*w = (struct world){};
	assert_int_equal(parse_endpoint("work", &w->ep, NULL), 0);
	assert_int_equal(pipeline_new(&w->p, &o), 0);
}

static void teardown(struct world *w)
{
	pipeline_free(w->p);
	endpoint_free(w->ep);
}

/* The gate that was set last is another instance's: it says nothing about this one's spans. */
static void test_each_instance_has_its_own_threshold(void **state)
{
	struct world w;

	setup(&w);
	set_gate(&w, LOW, 50 * MS, 0);
	set_gate(&w, HIGH, 500 * MS, 0);
	begin(&w, LOW, 11);
	end(&w, LOW, 11, 100 * MS);
	assert_int_equal(n_spans(&w), 1);
	begin(&w, HIGH, 12);
	end(&w, HIGH, 12, 100 * MS);
	assert_int_equal(n_spans(&w), 1);
	assert_int_equal(pipeline_profile(w.p)->counters.v[COUNTER_FAST_DISCARDED], 1);
	teardown(&w);
}

/* A gate that changes is for the spans that begin then. */
static void test_terms_are_those_of_the_begin(void **state)
{
	struct world w;

	setup(&w);
	set_gate(&w, LOW, 50 * MS, 0);
	begin(&w, LOW, 11);
	set_gate(&w, LOW, 500 * MS, 500 * MS);
	end(&w, LOW, 11, 100 * MS);
	assert_int_equal(n_spans(&w), 1);
	/* Sampled from the start: nothing of it is "before the threshold". */
	assert_int_equal(pipeline_profile(w.p)->spans.at[1].n_samples, 1);
	teardown(&w);
}

/* Once its gate is closed, what is left is the endpoint's, as for a capture. */
static void test_closed_gate_is_forgotten(void **state)
{
	struct world w;

	setup(&w);
	set_gate(&w, LOW, 500 * MS, 0);
	set_gate(&w, HIGH, 50 * MS, 0);
	assert_int_equal(pipeline_finish_gate(w.p, 0, LOW, 2000 * MS), 0);
	begin(&w, LOW, 11);
	end(&w, LOW, 11, 100 * MS);
	assert_int_equal(n_spans(&w), 1);
	teardown(&w);
}

/* What is open when the probes rest ends there, and later calls are calls of their own. */
static void test_rest_cuts_what_is_open(void **state)
{
	const struct wire_header cut = {
		.size = sizeof(cut), .kind = WIRE_K_CUT, .mono_ns = 1300 * MS};
	struct profile_span *span;
	struct world w;

	setup(&w);
	set_gate(&w, LOW, 50 * MS, 50 * MS);
	begin(&w, LOW, 11);
	begin(&w, LOW, 12);
	assert_int_equal(pipeline_push(w.p, &cut, sizeof(cut)), 0);
	assert_int_equal(n_spans(&w), 2);
	span = &pipeline_profile(w.p)->spans.at[1];
	assert_int_equal(span->end_reason, WIRE_END_CUT);
	assert_int_equal(span->end_ns, 1300 * MS);
	assert_int_equal(span->oncpu_ns + span->runq_ns + span->blocked_ns, 300 * MS);
	assert_int_equal(pipeline_push(w.p, &cut, sizeof(cut)), 0);
	begin(&w, LOW, 11);
	end(&w, LOW, 11, 100 * MS);
	assert_int_equal(n_spans(&w), 3);
	assert_int_equal(pipeline_profile(w.p)->spans.at[3].end_reason, WIRE_END_RETURN);
	teardown(&w);
}

/* The end of a call was lost, that of its process was not. */
static void test_calls_end_with_their_process(void **state)
{
	struct wire_proc gone = {
		.h = {.size = sizeof(gone), .kind = WIRE_K_EXIT, .mono_ns = 1300 * MS, .tgid = 1}};
	struct world w;

	setup(&w);
	set_gate(&w, LOW, 50 * MS, 50 * MS);
	begin(&w, LOW, 11);
	assert_int_equal(pipeline_push(w.p, &gone, sizeof(gone)), 0);
	assert_int_equal(n_spans(&w), 0);
	gone.h.tgid = 11;
	assert_int_equal(pipeline_push(w.p, &gone, sizeof(gone)), 0);
	assert_int_equal(n_spans(&w), 1);
	assert_int_equal(pipeline_profile(w.p)->spans.at[1].end_reason, WIRE_END_PROCESS_EXIT);
	assert_int_equal(pipeline_profile(w.p)->spans.at[1].end_ns, 1300 * MS);
	teardown(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls_end_with_their_process),
		cmocka_unit_test(test_each_instance_has_its_own_threshold),
		cmocka_unit_test(test_terms_are_those_of_the_begin),
		cmocka_unit_test(test_closed_gate_is_forgotten),
		cmocka_unit_test(test_rest_cuts_what_is_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
