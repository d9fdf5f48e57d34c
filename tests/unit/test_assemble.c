/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "pipe/assemble.h"
#include "tests/unit/unit.h"

static struct wire_promoted span(uint64_t id, uint32_t tid, uint64_t start_ns, uint64_t entry_sp)
{
	return (struct wire_promoted){
		.h = {.tgid = 10, .tid = tid},
		.span_id = id,
		.start_ns = start_ns,
		.entry_sp = entry_sp,
	};
}

static void begin(struct assemble *a, struct wire_promoted p)
{
	assert_int_equal(assemble_begin(a, &p), 0);
}

static void test_spans_are_found_and_taken(void **state)
{
	struct assemble *a = NULL;
	struct open_span *s;

	assert_int_equal(assemble_new(&a, 10), 0);
	begin(a, span(1, 11, 100, 0x7000));
	begin(a, span(2, 11, 200, 0x6000));
	assert_int_equal(assemble_n_open(a), 2);
	assert_non_null(assemble_find(a, 1));
	s = assemble_take(a, 1);
	assert_int_equal(s->begin.span_id, 1);
	open_span_free(s);
	assert_null(assemble_find(a, 1));
	assert_null(assemble_take(a, 1));
	assert_int_equal(assemble_any(a, 10), 2);
	assert_int_equal(assemble_any(a, 99), 0);
	assemble_free(a);
}

static void test_first_that_began_in_between(void **state)
{
	struct assemble *a = NULL;

	assert_int_equal(assemble_new(&a, 10), 0);
	assert_null(assemble_first(a, 0, UINT64_MAX));
	begin(a, span(1, 11, 100, 0x7000));
	begin(a, span(2, 12, 300, 0x7000));
	begin(a, span(3, 13, 200, 0x7000));
	assert_int_equal(assemble_first(a, 0, 1000)->begin.span_id, 1);
	assert_int_equal(assemble_first(a, 100, 1000)->begin.span_id, 3);
	assert_int_equal(assemble_first(a, 200, 300)->begin.span_id, 2);
	assert_null(assemble_first(a, 200, 299));
	assert_null(assemble_first(a, 300, 1000));
	assemble_free(a);
}

static void test_full_table_and_double_id_are_refused(void **state)
{
	struct wire_promoted third = span(3, 13, 1, 1), again = span(1, 14, 1, 1);
	struct assemble *a = NULL;

	assert_int_equal(assemble_new(&a, 2), 0);
	begin(a, span(1, 11, 1, 1));
	assert_int_equal(assemble_begin(a, &again), -EEXIST);
	begin(a, span(2, 12, 1, 1));
	assert_int_equal(assemble_begin(a, &third), -ENOSPC);
	assemble_free(a);
}

static void test_later_call_at_the_same_place_supersedes(void **state)
{
	struct wire_promoted later = span(3, 11, 300, 0x6000);
	struct assemble *a = NULL;

	assert_int_equal(assemble_new(&a, 10), 0);
	begin(a, span(1, 11, 100, 0x7000));
	begin(a, span(2, 11, 200, 0x6000));
	assert_int_equal(assemble_superseded(a, &later), 2);
	open_span_free(assemble_take(a, 2));
	assert_int_equal(assemble_superseded(a, &later), 0);
	assemble_free(a);
}

static void test_what_does_not_supersede(void **state)
{
	struct wire_promoted outer = span(3, 11, 50, 0x7800);  /* outer call, promoted late */
	struct wire_promoted tail = span(4, 11, 300, 0x7000);  /* tail call: same frame */
	struct wire_promoted above = span(5, 11, 300, 0x7800); /* a coroutine's stack, perhaps */
	struct wire_promoted elsewhere = span(6, 11, 300, 0x7000 + WIRE_STACK_SPREAD);
	struct wire_promoted other_thread = span(7, 12, 300, 0x7800);
	struct assemble *a = NULL;

	tail.ep_id = 1;
	assert_int_equal(assemble_new(&a, 10), 0);
	begin(a, span(1, 11, 100, 0x7000));
	assert_int_equal(assemble_superseded(a, &outer), 0);
	assert_int_equal(assemble_superseded(a, &tail), 0);
	assert_int_equal(assemble_superseded(a, &above), 0);
	assert_int_equal(assemble_superseded(a, &elsewhere), 0);
	assert_int_equal(assemble_superseded(a, &other_thread), 0);
	assemble_free(a);
}

/* php_request_startup ... php_request_shutdown, and between them php_execute_script, all called by main. */
static void test_a_call_without_a_frame_goes_on(void **state)
{
	struct wire_promoted pair = span(1, 11, 100, 0x7000), inner = span(2, 11, 200, 0x7000);
	struct wire_promoted next = span(3, 11, 300, 0x7000), again = span(4, 11, 400, 0x7000);
	struct assemble *a = NULL;

	inner.ep_id = next.ep_id = 1;
	inner.ret_addr = 0x401000;
	next.ret_addr = 0x402000;
	assert_int_equal(assemble_new(&a, 10), 0);
	begin(a, pair);
	assert_int_equal(assemble_superseded(a, &inner), 0);
	begin(a, inner);
	assert_int_equal(assemble_superseded(a, &next), 2);
	open_span_free(assemble_take(a, 2));
	assert_int_equal(assemble_superseded(a, &again), 1);
	assemble_free(a);
}

static void test_reused_thread_id_supersedes(void **state)
{
	struct wire_promoted p = span(2, 11, 300, 0x1000);
	struct assemble *a = NULL;

	assert_int_equal(assemble_new(&a, 10), 0);
	begin(a, span(1, 11, 100, 0x7000));
	p.h.tgid = 20;
	assert_int_equal(assemble_superseded(a, &p), 1);
	assemble_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spans_are_found_and_taken),
		cmocka_unit_test(test_first_that_began_in_between),
		cmocka_unit_test(test_full_table_and_double_id_are_refused),
		cmocka_unit_test(test_later_call_at_the_same_place_supersedes),
		cmocka_unit_test(test_what_does_not_supersede),
		cmocka_unit_test(test_a_call_without_a_frame_goes_on),
		cmocka_unit_test(test_reused_thread_id_supersedes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
