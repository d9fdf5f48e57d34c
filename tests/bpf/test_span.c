/* SPDX-License-Identifier: Apache-2.0 */
/* Enter and leave: every call is counted once, ends once, and leaves nothing open. */
#include <bpf/bpf.h>
#include <pthread.h>
#include <setjmp.h>
#include <unistd.h>

#include "base/clock.h"
#include "rig.h"
#include "tests/unit/unit.h"

#define MS 1000000ULL

#define ENDPOINT __attribute__((noinline, noclone))

long tail_first(void *arg);
ENDPOINT long tail_last(void *arg);

/* An endpoint that jumps to another one, which returns to its caller. */
__asm__(".text\n"
	".globl tail_first\n"
	".type tail_first, @function\n"
	"tail_first:\n"
	"	nop\n"
	"	jmp tail_last\n"
	".size tail_first, . - tail_first\n");

/* A function with a frame pointer whose SP says nothing at the place of its probe. */
long framed(void *arg);
extern const char framed_site[];

__asm__(".text\n"
	".globl framed, framed_site\n"
	".type framed, @function\n"
	"framed:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	sub $128, %rsp\n"
	"	and $-64, %rsp\n"
	"framed_site:\n"
	"	nop\n"
	"	mov %rdi, %rax\n"
	"	leave\n"
	"	ret\n"
	".size framed, . - framed\n");

ENDPOINT long tail_last(void *arg)
{
	__asm__ volatile("");
	return (long)arg;
}

static ENDPOINT long leaf(void *arg)
{
	__asm__ volatile("");
	return (long)arg + 1;
}

static ENDPOINT long outer(void *arg)
{
	return rig_call(leaf, arg) + 1;
}

static ENDPOINT long recurse(void *arg)
{
	long depth = (long)arg;

	return depth > 1 ? rig_call(recurse, (void *)(depth - 1)) + 1 : 1;
}

static ENDPOINT long jump_out(void *arg)
{
	jmp_buf *to = arg;

	longjmp(*to, 1);
}

static ENDPOINT long leave_thread(void *arg)
{
	pthread_exit(arg);
}

static ENDPOINT long spin(void *arg)
{
	rig_spin((uint64_t)(uintptr_t)arg);
	return 0;
}

static void assert_calls(const struct rig *rig, uint32_t ep_id, uint64_t enter, uint64_t leave)
{
	struct latency l = rig_latency(rig, ep_id);

	assert_int_equal(l.n_enter, enter);
	assert_int_equal(l.n_leave, leave);
	assert_int_equal(l.n_unknown, enter - leave);
}

static void counts_calls(void **state)
{
	struct rig rig;

	rig_open(&rig, NULL);
	rig_endpoint(&rig, 0, leaf, NULL);
	for (long i = 0; i < 1000; i++)
		assert_int_equal(rig_call(leaf, (void *)i), i + 1);
	assert_calls(&rig, 0, 1000, 1000);
	assert_true(rig_latency(&rig, 0).sum_ns > 0);
	rig_drain(&rig);
	assert_int_equal(rig.events.n, 0);
	rig_close(&rig);
}

static void *call_often(void *arg)
{
	for (long i = 0; i < 20000; i++)
		rig_call(leaf, arg);
	return NULL;
}

static void counts_calls_of_threads(void **state)
{
	enum { THREADS = 16 };
	const struct kern_options options = {.count_threads = true};
	pthread_t threads[THREADS];
	uint64_t n_threads;
	struct rig rig;

	rig_open(&rig, &options);
	rig_endpoint(&rig, 0, leaf, NULL);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, call_often, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(rig_counter(&rig, WIRE_C_NO_STORAGE), 0);
	assert_calls(&rig, 0, THREADS * 20000, THREADS * 20000);
	assert_int_equal(kern_n_threads(rig.kern, 0, &n_threads), 0);
	assert_int_equal(n_threads, THREADS);
	rig_close(&rig);
}

static void ignores_others(void **state)
{
	struct rig rig;

	rig_open(&rig, NULL);
	rig_endpoint(&rig, 0, leaf, NULL);
	assert_int_equal(kern_member_remove(rig.kern, getpid()), 0);
	rig_call(leaf, NULL);
	assert_calls(&rig, 0, 0, 0);
	rig_endpoint(&rig, 1, tail_last, NULL); /* a member again */
	rig_call(leaf, NULL);
	assert_calls(&rig, 0, 1, 1);
	assert_int_equal(kern_member_remove(rig.kern, getpid()), 0);
	rig_call(leaf, NULL);
	assert_calls(&rig, 0, 1, 1);
	rig_close(&rig);
}

static void nests(void **state)
{
	struct rig rig;

	rig_open(&rig, NULL);
	rig_endpoint(&rig, 0, outer, NULL);
	rig_endpoint(&rig, 1, leaf, NULL);
	assert_int_equal(rig_call(outer, NULL), 2);
	assert_calls(&rig, 0, 1, 1);
	assert_calls(&rig, 1, 1, 1);
	assert_true(rig_latency(&rig, 0).sum_ns > rig_latency(&rig, 1).sum_ns);
	rig_close(&rig);
}

static void recurses_200_deep(void **state)
{
	struct rig rig;

	rig_open(&rig, NULL);
	rig_endpoint(&rig, 0, recurse, NULL);
	assert_int_equal(rig_call(recurse, (void *)200L), 200);
	assert_calls(&rig, 0, 200, WIRE_SPANS_MAX);
	assert_int_equal(rig_counter(&rig, WIRE_C_NEST_LIMIT), 200 - WIRE_SPANS_MAX);
	rig_call(recurse, (void *)3L);
	assert_calls(&rig, 0, 203, WIRE_SPANS_MAX + 3);
	rig_close(&rig);
}

static void tail_calls_end_together(void **state)
{
	struct rig rig;

	rig_open(&rig, NULL);
	rig_endpoint(&rig, 0, tail_first, NULL);
	rig_endpoint(&rig, 1, tail_last, NULL);
	assert_int_equal(rig_call(tail_first, (void *)5L), 5);
	assert_calls(&rig, 0, 1, 1);
	assert_calls(&rig, 1, 1, 1);
	rig_close(&rig);
}

static ENDPOINT void call_jump_out(void)
{
	jmp_buf buf;

	if (!setjmp(buf))
		rig_call(jump_out, &buf);
}

static void longjmp_is_noticed_at_the_next_call(void **state)
{
	struct rig rig;

	rig_open(&rig, NULL);
	rig_endpoint(&rig, 0, jump_out, NULL);
	for (int i = 0; i < 10; i++)
		call_jump_out();
	assert_int_equal(rig_latency(&rig, 0).n_enter, 10);
	assert_int_equal(rig_latency(&rig, 0).n_unknown, 9);
	assert_int_equal(rig_latency(&rig, 0).n_unwound, 9);
	assert_int_equal(rig_counter(&rig, WIRE_C_UNWOUND), 9);
	rig_close(&rig);
}

/* What later calls do sooner or later: the slot of the return address gets another value. */
static ENDPOINT void overwrite_stack(void)
{
	volatile uint8_t below[4096];

	for (size_t i = 0; i < sizeof(below); i++)
		below[i] = 0;
}

static void longjmp_is_noticed_when_blocking(void **state)
{
	struct rig rig;

	rig_open(&rig, NULL);
	rig_gate(&rig, 0, 5 * MS, MS);
	rig_endpoint(&rig, 0, jump_out, NULL);
	call_jump_out();
	overwrite_stack();
	rig_sleep(20 * MS);
	rig_sleep(20 * MS);
	assert_calls(&rig, 0, 1, 0);
	rig_drain(&rig);
	assert_int_equal(rig.events.n, 0);
	rig_close(&rig);
}

/* A call from a site that is not known: reported, and counted as unknown at the next call. */
static void unknown_site_is_reported(void **state)
{
	const struct event *site;
	struct rig rig;

	rig_open(&rig, NULL);
	rig_endpoint(&rig, 0, leaf, NULL);
	rig_call_other(leaf, NULL);
	rig_call_other(leaf, NULL);
	rig_call(leaf, NULL);
	rig_drain(&rig);
	assert_int_equal(rig_count(&rig, WIRE_K_RETSITE), 1);
	site = rig_event(&rig, WIRE_K_RETSITE, 0);
	assert_int_equal(site->retsite->ret_addr, (uintptr_t)rig_site_other);
	assert_int_equal(site->retsite->entry_ip, (uintptr_t)leaf);
	assert_int_equal(site->retsite->as_id, RIG_AS);
	assert_int_equal(rig_counter(&rig, WIRE_C_LEAVE_UNSEEN), 2);
	assert_calls(&rig, 0, 3, 1);
	rig_close(&rig);
}

/* The leave probe comes while the call is under way: its end is seen after all. */
static ENDPOINT long attach_meanwhile(void *arg)
{
	struct rig *rig = arg;

	rig_attach(rig, rig->programs.leave_fd, rig_site_other, 0);
	return 0;
}

static void site_learned_during_the_call(void **state)
{
	struct rig rig;

	rig_open(&rig, NULL);
	rig_endpoint(&rig, 0, attach_meanwhile, NULL);
	rig_call_other(attach_meanwhile, &rig);
	assert_calls(&rig, 0, 1, 1);
	rig_close(&rig);
}

static void hopeless_site_is_not_reported(void **state)
{
	struct wire_site_key key = {.ret_addr = (uintptr_t)rig_site_other, .as_id = RIG_AS};
	uint32_t hopeless = WIRE_SITE_HOPELESS;
	struct rig rig;

	rig_open(&rig, NULL);
	rig_endpoint(&rig, 0, leaf, NULL);
	assert_int_equal(
		bpf_map_update_elem(rig.programs.return_sites_fd, &key, &hopeless, BPF_ANY), 0);
	rig_call_other(leaf, NULL);
	rig_call(leaf, NULL);
	rig_drain(&rig);
	assert_int_equal(rig_count(&rig, WIRE_K_RETSITE), 0);
	assert_calls(&rig, 0, 2, 1);
	rig_close(&rig);
}

static void begins_if_none(void **state)
{
	const struct wire_endpoint config = {.flags = WIRE_EP_F_BEGIN_IF_NONE};
	struct rig rig;

	rig_open(&rig, NULL);
	rig_endpoint(&rig, 0, recurse, &config);
	rig_call(recurse, (void *)10L);
	rig_call(recurse, (void *)10L);
	assert_calls(&rig, 0, 2, 2);
	assert_int_equal(rig_counter(&rig, WIRE_C_NESTED_SKIP), 18);
	rig_close(&rig);
}

/* A probe behind the prologue: SP at the entry, and the caller, are found through RBP. */
static void enters_behind_a_frame_pointer(void **state)
{
	struct rig rig;

	rig_open(&rig, NULL);
	rig_endpoint(&rig, 0, leaf, NULL);
	rig_attach(&rig, rig.programs.enter_fd, framed_site,
		   WIRE_COOKIE(0, 1, framed_site - (const char *)(uintptr_t)framed) |
			   WIRE_COOKIE_F_RBP | WIRE_COOKIE_F_WIDE);
	assert_int_equal(rig_call(framed, (void *)5L), 5);
	assert_calls(&rig, 0, 1, 1);
	rig_close(&rig);
}

/* Probed twice, each call is seen by one of the probes: whose it is says its process. */
static void own_probes_are_for_their_process_alone(void **state)
{
	struct wire_member m = {.instance_id = RIG_INSTANCE, .as_id = RIG_AS};
	struct rig rig;

	rig_open(&rig, NULL);
	rig_endpoint(&rig, 0, leaf, NULL);
	rig_attach(&rig, rig.programs.enter_fd, (const void *)(uintptr_t)leaf,
		   WIRE_COOKIE(0, 0, 0));
	rig_call(leaf, NULL);
	assert_int_equal(rig_latency(&rig, 0).n_enter, 1);
	m.own_eps = 1;
	assert_int_equal(kern_member_set(rig.kern, getpid(), &m), 0);
	rig_call(leaf, NULL);
	assert_int_equal(rig_latency(&rig, 0).n_enter, 2);
	assert_int_equal(rig_latency(&rig, 0).n_leave, 2);
	assert_int_equal(rig_latency(&rig, 0).n_unknown, 0);
	rig_close(&rig);
}

/* Begin and end are functions of their own: the span outlives the frame of the first. */
static void ends_by_an_end_function(void **state)
{
	const struct wire_endpoint config = {.flags = WIRE_EP_F_END_PROBE};
	const struct event *end;
	struct rig rig;

	rig_open(&rig, NULL);
	rig_gate(&rig, 0, 5 * MS, MS);
	rig_endpoint(&rig, 0, leaf, &config);
	rig_attach(&rig, rig.programs.end_fd, (const void *)(uintptr_t)tail_last,
		   WIRE_COOKIE(0, 0, 0) | WIRE_COOKIE_F_WIDE);
	rig_call(tail_last, NULL); /* an end without a begin */
	rig_call(leaf, NULL);
	rig_sleep(20 * MS);
	rig_call(tail_last, NULL);
	rig_call(leaf, NULL);
	rig_call(leaf, NULL); /* the end of the one before was missed */
	rig_call(tail_last, NULL);
	assert_calls(&rig, 0, 3, 2);
	rig_drain(&rig);
	end = rig_event(&rig, WIRE_K_END, 0);
	assert_non_null(end);
	assert_int_equal(end->end->reason, WIRE_END_END_PROBE);
	assert_true(rig_duration(end) >= 20 * MS);
	rig_close(&rig);
}

/* An end behind a frame pointer: SP is what it was at the first instruction, not what it is there. */
static void ends_behind_a_frame_pointer(void **state)
{
	struct wire_endpoint config = {
		.flags = WIRE_EP_F_END_PROBE | WIRE_EP_F_END_OPS,
		.n_leave_ops = 5,
		.leave_ops = {{.code = WIRE_OP_REG, .arg = WIRE_REG_RSP},
			      {.code = WIRE_OP_DEREF, .size = 8},
			      {.code = WIRE_OP_SAVE, .arg = 0},
			      {.code = WIRE_OP_IMM, .imm = (__s64)(uintptr_t)rig_site},
			      {.code = WIRE_OP_SUB, .arg = 0}},
	};
	struct rig rig;

	config.leave_ops[config.n_leave_ops++] = (struct wire_op){.code = WIRE_OP_IF_EQ};
	rig_open(&rig, NULL);
	rig_endpoint(&rig, 0, leaf, &config);
	rig_attach(&rig, rig.programs.end_fd, framed_site,
		   WIRE_COOKIE(0, 1, framed_site - (const char *)(uintptr_t)framed) |
			   WIRE_COOKIE_F_RBP | WIRE_COOKIE_F_WIDE);
	rig_call(leaf, NULL);
	rig_call(framed, NULL);
	assert_calls(&rig, 0, 1, 1);
	rig_close(&rig);
}

static void *exit_inside(void *arg)
{
	rig_call(leave_thread, arg);
	return NULL;
}

static void thread_exit_ends_spans(void **state)
{
	pthread_t thread;
	uint64_t deadline;
	struct rig rig;

	rig_open(&rig, NULL);
	rig_endpoint(&rig, 0, leave_thread, NULL);
	assert_int_equal(pthread_create(&thread, NULL, exit_inside, NULL), 0);
	pthread_join(thread, NULL);
	deadline = clock_mono_ns() + 5000 * MS;
	/* The join waits for the thread's memory; that is before the probe or after it, by the kernel. */
	while (!rig_latency(&rig, 0).n_unknown && clock_mono_ns() < deadline)
		rig_sleep(MS);
	assert_calls(&rig, 0, 1, 0);
	rig_close(&rig);
}

static void profiles_slow_call(void **state)
{
	const struct event *promoted, *end, *shot;
	struct rig rig;
	struct errmsg e;

	rig_open(&rig, NULL);
	rig_gate(&rig, 3, 5 * MS, MS);
	rig_endpoint(&rig, 3, spin, NULL);
	assert_int_equal(kern_sampling(rig.kern, MS, &e), 0);
	rig_call(spin, (void *)(uintptr_t)(100 * MS));
	rig_call(spin, NULL);
	rig_drain(&rig);
	assert_int_equal(rig_count(&rig, WIRE_K_PROMOTED), 1);
	promoted = rig_event(&rig, WIRE_K_PROMOTED, 0);
	end = rig_event(&rig, WIRE_K_END, 0);
	assert_non_null(end);
	assert_int_equal(promoted->promoted->span_id, end->end->span_id);
	assert_int_equal(promoted->promoted->entry_ip, (uintptr_t)spin);
	assert_int_equal(promoted->promoted->ret_addr, (uintptr_t)rig_site);
	assert_int_equal(promoted->promoted->instance_id, RIG_INSTANCE);
	assert_int_equal(promoted->promoted->as_id, RIG_AS);
	assert_int_equal(promoted->promoted->start_ns, end->end->start_ns);
	assert_int_equal(end->end->ep_id, 3);
	assert_int_equal(end->end->reason, WIRE_END_RETURN);
	assert_in_range(rig_duration(end), 100 * MS, 10000 * MS);
	assert_int_equal(rig_count(&rig, WIRE_K_SNAPSHOT), end->end->n_due);
	assert_true(end->end->n_due >= 5);
	assert_int_equal(end->end->n_lost, 0);
	for (uint32_t i = 0; (shot = rig_event(&rig, WIRE_K_SNAPSHOT, i)); i++) {
		const struct wire_snapshot *s = shot->snapshot;

		assert_int_equal(s->n_spans, 1);
		assert_int_equal(s->spans[0].seq, i);
		assert_int_equal(s->spans[0].span_id, end->end->span_id);
		assert_int_equal(s->flags & (WIRE_SNAP_F_FAULT | WIRE_SNAP_F_FOREIGN), 0);
		assert_int_equal(s->regs.r[WIRE_REG_RSP] - WIRE_REDZONE + s->window_bytes,
				 s->spans[0].entry_sp + 8);
		/* The window ends with the return address. */
		assert_memory_equal(shot->window + s->window_bytes - 8, &s->spans[0].ret_addr, 8);
	}
	assert_int_equal(rig_latency(&rig, 3).n_slow, 1);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_calls),
		cmocka_unit_test(counts_calls_of_threads),
		cmocka_unit_test(ignores_others),
		cmocka_unit_test(nests),
		cmocka_unit_test(recurses_200_deep),
		cmocka_unit_test(tail_calls_end_together),
		cmocka_unit_test(longjmp_is_noticed_at_the_next_call),
		cmocka_unit_test(longjmp_is_noticed_when_blocking),
		cmocka_unit_test(unknown_site_is_reported),
		cmocka_unit_test(site_learned_during_the_call),
		cmocka_unit_test(hopeless_site_is_not_reported),
		cmocka_unit_test(begins_if_none),
		cmocka_unit_test(enters_behind_a_frame_pointer),
		cmocka_unit_test(own_probes_are_for_their_process_alone),
		cmocka_unit_test(ends_by_an_end_function),
		cmocka_unit_test(ends_behind_a_frame_pointer),
		cmocka_unit_test(thread_exit_ends_spans),
		cmocka_unit_test(profiles_slow_call),
	};

	return cmocka_run_group_tests_name("span", tests, NULL, NULL);
}
