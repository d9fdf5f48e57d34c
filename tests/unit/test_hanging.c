/* SPDX-License-Identifier: Apache-2.0 */
/* test_hanging.c: which of the open calls is told of, and that its name is safe to print. */
#include <string.h>

#include "pipe/hanging.h"
#include "tests/unit/unit.h"

#define MS 1000000ULL

struct world {
	struct endpoint *ep;
	struct pipeline *p;
};

/* With a name that steers a terminal and is no UTF-8, as the target's memory had it. */
static void begin(struct world *w, uint64_t span_id, uint64_t start_ns)
{
	const struct wire_field field = {.type = WIRE_FIELD_STR, .bytes = 7};
	struct wire_promoted b = {
		.h = {.size = sizeof(b), .kind = WIRE_K_PROMOTED, .tgid = 10, .tid = 10 + span_id},
		.span_id = span_id,
		.start_ns = start_ns,
		.promoted_ns = start_ns + 50 * MS,
		.entry_sp = 0x7000,
		.instance_id = 1,
		.promoted = {.oncpu_ns = 50 * MS},
		.name_bytes = sizeof(field) + 8,
	};

	memcpy(b.name, &field, sizeof(field));
	memcpy(b.name + sizeof(field),
	       "a\x1b\xe2\x80\xae"
	       "b\xff",
	       7);
	assert_int_equal(pipeline_push(w->p, &b, sizeof(b)), 0);
}

static void end(struct world *w, uint64_t span_id, uint64_t start_ns)
{
	const struct wire_end e = {
		.h = {.size = sizeof(e),
		      .kind = WIRE_K_END,
		      .mono_ns = start_ns + 100 * MS,
		      .tgid = 10,
		      .tid = 10 + span_id},
		.span_id = span_id,
		.start_ns = start_ns,
		.wall = {.oncpu_ns = 100 * MS},
		.instance_id = 1,
		.reason = WIRE_END_RETURN,
	};

	assert_int_equal(pipeline_push(w->p, &e, sizeof(e)), 0);
}

static void setup(struct world *w)
{
	const struct pipeline_options o = {.no_symbols = true};
	struct pipeline_endpoint e = {.terms = {.threshold_ns = 50 * MS, .period_ns = 10 * MS}};
	struct errmsg why = {""};

	*w = (struct world){};
	if (parse_endpoint("work;name=str(arg0)", &w->ep, &why))
		fail_msg("%s", why.text);
	e.spec = w->ep;
	assert_int_equal(pipeline_new(&w->p, &o), 0);
	assert_int_equal(pipeline_set_endpoint(w->p, 0, &e), 0);
	assert_int_equal(pipeline_set_gate(w->p, &(struct wire_gate_key){0, 1}, &e.terms), 0);
}

static void teardown(struct world *w)
{
	pipeline_free(w->p);
	endpoint_free(w->ep);
}

/* tid of the call that is found; 0: none. */
static uint32_t look(struct world *w, uint64_t after_ns, uint64_t until_ns)
{
	struct hanging h = {.tid = 99};

	return hanging_find(w->p, after_ns, until_ns, &h) ? h.tid : 0;
}

/* Each is told once: the next look begins after the one that was told. */
static void the_first_within_the_time(void **state)
{
	struct world w;

	setup(&w);
	assert_int_equal(look(&w, 0, UINT64_MAX), 0);
	begin(&w, 1, 3000 * MS);
	begin(&w, 2, 1000 * MS);
	begin(&w, 3, 2000 * MS);
	assert_int_equal(look(&w, 0, UINT64_MAX), 12);
	assert_int_equal(look(&w, 1000 * MS - 1, UINT64_MAX), 12);
	assert_int_equal(look(&w, 1000 * MS, UINT64_MAX), 13);
	assert_int_equal(look(&w, 2000 * MS, UINT64_MAX), 11);
	assert_int_equal(look(&w, 3000 * MS, UINT64_MAX), 0);
	assert_int_equal(look(&w, 0, 1000 * MS - 1), 0);
	assert_int_equal(look(&w, 0, 1000 * MS), 12);
	assert_int_equal(look(&w, 1000 * MS, 2000 * MS - 1), 0);
	teardown(&w);
}

static void those_that_have_ended_are_none(void **state)
{
	struct world w;

	setup(&w);
	begin(&w, 1, 1000 * MS);
	begin(&w, 2, 2000 * MS);
	end(&w, 1, 1000 * MS);
	assert_int_equal(look(&w, 0, UINT64_MAX), 12);
	end(&w, 2, 2000 * MS);
	assert_int_equal(look(&w, 0, UINT64_MAX), 0);
	teardown(&w);
}

static void what_is_told(void **state)
{
	struct hanging h;
	struct world w;

	setup(&w);
	begin(&w, 1, 1000 * MS);
	assert_true(hanging_find(w.p, 0, UINT64_MAX, &h));
	assert_int_equal(h.ep_id, 0);
	assert_int_equal(h.tgid, 10);
	assert_int_equal(h.tid, 11);
	assert_int_equal(h.start_ns, 1000 * MS);
	assert_string_equal(h.name, "a\\x1b?b\\xff");
	assert_string_equal(h.where, ""); /* no snapshot yet */
	teardown(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_within_the_time),
		cmocka_unit_test(those_that_have_ended_are_none),
		cmocka_unit_test(what_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
