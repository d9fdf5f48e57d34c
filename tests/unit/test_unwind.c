/* SPDX-License-Identifier: Apache-2.0 */
#include <dwarf.h>
#include <string.h>

#include "base/cleanup.h"
#include "code/unwind.h"
#include "tests/unit/unit.h"

enum { STACK = 0x7000, N_WORDS = 64 };

/* What a test says is known of a PC. */
struct known {
	uint64_t pc;
	int result;
	const struct cfi_rule *rule;
};

struct walk {
	uint64_t words[N_WORDS]; /* the stack from STACK on */
	struct wire_regs regs;
	struct wire_snap_span spans[WIRE_NAMED_MAX];
	size_t n_spans;
	uint16_t snap_flags;
	bool may_trap;
	uint32_t holes;
	size_t n_words;
	const struct known *known;
	size_t n_known;
	struct unwind_stack stack;
	size_t n_exact; /* look-ups of interrupted instructions */
};

/* CFA = RSP + off, RIP at CFA - 8, RBX at CFA - 16 when saved. */
#define FRAME(bytes)                                                                           \
	{                                                                                      \
		.cfa = {.kind = CFI_REG, .base = WIRE_REG_RSP, .off = (bytes)}, .n_values = 2, \
		.values = {{.reg = WIRE_REG_RIP, .kind = CFI_AT_CFA, .off = -8},               \
			   {.reg = WIRE_REG_RSP, .kind = CFI_CFA}},                            \
	}

static const struct cfi_rule frame8 = FRAME(8);
static const struct cfi_rule frame16 = FRAME(16);
static const struct cfi_rule no_progress = FRAME(0);
/* vfork(): the return address is in RDI, and no longer on the stack. */
static const struct cfi_rule link_in_rdi = {
	.cfa = {.kind = CFI_REG, .base = WIRE_REG_RSP},
	.n_values = 2,
	.values = {{.reg = WIRE_REG_RIP, .kind = CFI_REG, .base = WIRE_REG_RDI},
		   {.reg = WIRE_REG_RSP, .kind = CFI_CFA}},
};
static const struct cfi_rule by_rbx = {
	.cfa = {.kind = CFI_REG, .base = WIRE_REG_RBX, .off = 8},
	.n_values = 2,
	.values = {{.reg = WIRE_REG_RIP, .kind = CFI_AT_CFA, .off = -8},
		   {.reg = WIRE_REG_RSP, .kind = CFI_CFA}},
};
static const struct cfi_rule saves_rbx_far = {
	.cfa = {.kind = CFI_REG, .base = WIRE_REG_RSP, .off = 8},
	.n_values = 3,
	.values = {{.reg = WIRE_REG_RIP, .kind = CFI_AT_CFA, .off = -8},
		   {.reg = WIRE_REG_RSP, .kind = CFI_CFA},
		   {.reg = WIRE_REG_RBX, .kind = CFI_AT_CFA, .off = 0x100000}},
};
static const struct cfi_rule loses_rbx = {
	.cfa = {.kind = CFI_REG, .base = WIRE_REG_RSP, .off = 8},
	.undefined = 1U << WIRE_REG_RBX,
	.n_values = 2,
	.values = {{.reg = WIRE_REG_RIP, .kind = CFI_AT_CFA, .off = -8},
		   {.reg = WIRE_REG_RSP, .kind = CFI_CFA}},
};
static const struct cfi_rule first_frame = {
	.cfa = {.kind = CFI_REG, .base = WIRE_REG_RSP, .off = 8},
	.undefined = 1U << WIRE_REG_RIP,
};
/* A trampoline that has the interrupted RSP at [RSP] and RIP at [RSP + 8]. */
static const struct cfi_op at_rsp[] = {{.code = DW_OP_bregx, .reg = WIRE_REG_RSP},
				       {.code = DW_OP_deref_size, .imm = 8},
				       {.code = DW_OP_bregx, .reg = WIRE_REG_RSP, .imm = 8}};
static const struct cfi_rule signal_frame = {
	.cfa = {.kind = CFI_EXPR, .n_ops = 2},
	.signal = true,
	.n_values = 2,
	.values = {{.reg = WIRE_REG_RIP, .kind = CFI_AT_EXPR, .off = 2, .n_ops = 1},
		   {.reg = WIRE_REG_RSP, .kind = CFI_CFA}},
	.n_ops = 3,
	.ops = at_rsp,
};

static const struct known usual[] = {
	{0x100, CFI_OK, &frame8},       {0x200, CFI_OK, &frame16},
	{0x300, CFI_OK, &frame8},       {0x400, CFI_OK, &no_progress},
	{0x500, CFI_OK, &by_rbx},       {0x600, CFI_OK, &saves_rbx_far},
	{0x700, CFI_OK, &loses_rbx},    {0x800, CFI_OK, &first_frame},
	{0x900, CFI_OK, &signal_frame}, {0xa00, CFI_E_NO_CFI, NULL},
	{0xb00, CFI_E_ANONYMOUS, NULL}, {0xc00, CFI_E_TRAMPOLINE, NULL},
	{0xd00, CFI_E_BAD, NULL},       {0xe00, CFI_E_NO_MODULE, NULL},
	{0x1000, CFI_OK, &link_in_rdi},
};

static int find(void *ctx, uint64_t pc, bool exact, const struct cfi_rule **ret)
{
	struct walk *w = ctx;

	w->n_exact += exact;
	for (size_t i = 0; i < w->n_known; i++) {
		if (w->known[i].pc != pc)
			continue;
		*ret = w->known[i].rule;
		return w->known[i].result;
	}
	return CFI_E_NO_MODULE;
}

static void walk_init(struct walk *w, uint64_t pc)
{
	*w = (struct walk){.known = usual, .n_known = ARRAY_SIZE(usual), .n_words = N_WORDS};
	w->regs.r[WIRE_REG_RSP] = STACK;
	w->regs.r[WIRE_REG_RIP] = pc;
}

/* The outermost span's return address is in word `slot`. */
static void add_span(struct walk *w, size_t slot, uint64_t ret_addr)
{
	w->spans[w->n_spans++] =
		(struct wire_snap_span){.entry_sp = STACK + 8 * slot, .ret_addr = ret_addr};
}

static void run(struct walk *w)
{
	struct unwind_input in = {
		.regs = &w->regs,
		.window = (const uint8_t *)w->words,
		.window_bytes = w->n_words * 8,
		.window_start = STACK,
		.spans = w->spans,
		.n_spans = w->n_spans,
		.snap_flags = w->snap_flags,
		.may_trap = w->may_trap,
		.holes = w->holes,
	};

	unwind_window(&in, find, w, &w->stack);
}

static void check_pcs(const struct walk *w, enum stack_stop stop, size_t n, const uint64_t *pcs)
{
	assert_int_equal(w->stack.stop, stop);
	assert_int_equal(w->stack.n, n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(w->stack.frames[i].pc, pcs[i]);
}

#define CHECK(w, stop, ...)                                 \
	do {                                                \
		const uint64_t pcs_[] = {__VA_ARGS__};      \
		check_pcs(w, stop, ARRAY_SIZE(pcs_), pcs_); \
	} while (0)

static void test_to_endpoint(void **state)
{
	struct walk w;

	walk_init(&w, 0x100);
	w.words[0] = 0x200; /* returns into 0x200, whose frame has two words */
	w.words[2] = 0x300;
	w.words[3] = 0x999;
	add_span(&w, 3, 0);
	run(&w);
	CHECK(&w, STACK_STOP_ENDPOINT, 0x100, 0x200, 0x300);
	assert_int_equal(w.stack.span_depth[0], 3);
	assert_int_equal(w.stack.frames[0].flags, UNWIND_F_EXACT);
	assert_int_equal(w.stack.frames[1].flags, 0);
	assert_int_equal(w.stack.frames[0].cfa, STACK + 8);
	assert_int_equal(w.stack.frames[2].cfa, STACK + 32);
	assert_int_equal(w.n_exact, 1);
}

static void test_return_address_in_a_register(void **state)
{
	struct walk w;

	walk_init(&w, 0x1000);
	w.regs.r[WIRE_REG_RDI] = 0x200;
	w.words[1] = 0x300;
	add_span(&w, 2, 0);
	run(&w);
	CHECK(&w, STACK_STOP_ENDPOINT, 0x1000, 0x200, 0x300);
	/* Only the innermost function can have it there: else this would have no end. */
	walk_init(&w, 0x100);
	w.regs.r[WIRE_REG_RDI] = 0x1000;
	w.words[0] = 0x1000;
	add_span(&w, 5, 0);
	run(&w);
	CHECK(&w, STACK_STOP_BAD_CFI, 0x100, 0x1000);
}

/* The kernel has not put the PC back yet: it is behind a breakpoint in place of a push. */
static void test_behind_a_breakpoint(void **state)
{
	struct walk w;

	walk_init(&w, 0x201); /* 0x201 is in no module */
	w.words[1] = 0x300;
	add_span(&w, 2, 0);
	run(&w);
	CHECK(&w, STACK_STOP_NO_MODULE, 0x201);
	w.may_trap = true;
	run(&w);
	CHECK(&w, STACK_STOP_ENDPOINT, 0x200, 0x300);
	/* The same in a coroutine, whose outer span is on another stack. */
	add_span(&w, 2, 0);
	w.spans[0].entry_sp = 0x100;
	run(&w);
	CHECK(&w, STACK_STOP_FOREIGN, 0x200, 0x300);
	assert_int_equal(w.stack.span_depth[1], 2);
	w.n_spans = 1;
	w.spans[0] = w.spans[1];
	/* It does not help: the stack is what the PC says. */
	w.words[1] = 0xe00;
	run(&w);
	CHECK(&w, STACK_STOP_NO_MODULE, 0x201);
}

static void test_nested_spans(void **state)
{
	struct walk w;

	walk_init(&w, 0x100);
	w.words[0] = 0x200;
	w.words[2] = 0x300;
	add_span(&w, 3, 0);
	add_span(&w, 1, 0); /* of a frame that is not there */
	add_span(&w, 0, 0);
	run(&w);
	assert_int_equal(w.stack.stop, STACK_STOP_ENDPOINT);
	assert_int_equal(w.stack.span_depth[0], 3);
	assert_int_equal(w.stack.span_depth[1], 0);
	assert_int_equal(w.stack.span_depth[2], 1);
}

/* The tick came between the return and the leave probe. */
static void test_returned(void **state)
{
	struct walk w;

	walk_init(&w, 0x100);
	add_span(&w, 5, 0);
	add_span(&w, 0, 0);
	w.spans[1].entry_sp = STACK - 8;
	w.words[0] = 0x200;
	w.words[2] = 0x300;
	w.words[3] = 0x200;
	run(&w);
	CHECK(&w, STACK_STOP_ENDPOINT, 0x100, 0x200, 0x300, 0x200);
	assert_int_equal(w.stack.returned, 1U << 1);
	assert_int_equal(w.stack.span_depth[1], 0);
}

/* The outer span began on another stack, above or below: the inner one is complete. */
static void test_coroutine(void **state)
{
	static const uint64_t other_stacks[] = {0x100, STACK + 0x10000000};

	for (size_t i = 0; i < ARRAY_SIZE(other_stacks); i++) {
		struct walk w;

		walk_init(&w, 0x100);
		w.words[0] = 0x200;
		w.words[2] = 0x300;
		add_span(&w, 0, 0);
		w.spans[0].entry_sp = other_stacks[i];
		add_span(&w, 3, 0);
		add_span(&w, 0, 0);
		run(&w);
		CHECK(&w, STACK_STOP_FOREIGN, 0x100, 0x200, 0x300);
		assert_int_equal(w.stack.span_depth[0], 0);
		assert_int_equal(w.stack.span_depth[1], 3);
		assert_int_equal(w.stack.span_depth[2], 1);
	}
}

/* The outer span's frame is beyond what was copied: the inner one is complete. */
static void test_truncated_outer(void **state)
{
	struct walk w;

	walk_init(&w, 0x100);
	w.words[0] = 0x200;
	w.words[2] = 0x300;
	w.n_words = 3;
	w.snap_flags = WIRE_SNAP_F_TRUNCATED;
	add_span(&w, 40, 0);
	add_span(&w, 2, 0);
	run(&w);
	CHECK(&w, STACK_STOP_TRUNCATED, 0x100, 0x200, 0x300);
	assert_int_equal(w.stack.span_depth[0], 0);
	assert_int_equal(w.stack.span_depth[1], 2);
}

static void test_past(void **state)
{
	struct walk w;

	walk_init(&w, 0x100);
	w.words[0] = 0x200;
	add_span(&w, 1, 0); /* inside the second frame */
	run(&w);
	CHECK(&w, STACK_STOP_PAST, 0x100, 0x200);
	assert_int_equal(w.stack.span_depth[0], 0);

	walk_init(&w, 0x800);
	add_span(&w, 40, 0);
	run(&w);
	CHECK(&w, STACK_STOP_PAST, 0x800);

	/* a return address of zero: the first frame, too */
	walk_init(&w, 0x100);
	add_span(&w, 40, 0);
	run(&w);
	CHECK(&w, STACK_STOP_PAST, 0x100);
}

static void test_range(void **state)
{
	struct walk w;

	walk_init(&w, 0x100);
	w.words[0] = 0x200;
	w.n_words = 2;
	add_span(&w, 40, 0);
	run(&w);
	CHECK(&w, STACK_STOP_RANGE, 0x100, 0x200);
	w.snap_flags = WIRE_SNAP_F_TRUNCATED;
	run(&w);
	CHECK(&w, STACK_STOP_TRUNCATED, 0x100, 0x200);
	w.n_words = 0;
	run(&w);
	CHECK(&w, STACK_STOP_TRUNCATED, 0x100);
}

/* The window is the first words of a page. */
static void test_holes(void **state)
{
	struct walk w;

	walk_init(&w, 0x100);
	w.words[0] = 0x200;
	w.words[2] = 0x300;
	w.words[3] = 0x400;
	add_span(&w, 3, 0);
	w.holes = 2;
	run(&w);
	CHECK(&w, STACK_STOP_ENDPOINT, 0x100, 0x200, 0x300);
	w.holes = 1;
	run(&w);
	CHECK(&w, STACK_STOP_RANGE, 0x100);
}

static void test_without_window(void **state)
{
	struct walk w;

	walk_init(&w, 0x100);
	add_span(&w, 40, 0);
	w.n_words = 0;
	w.snap_flags = WIRE_SNAP_F_FAULT;
	run(&w);
	CHECK(&w, STACK_STOP_NO_WINDOW, 0x100);
	w.snap_flags = WIRE_SNAP_F_FOREIGN;
	run(&w);
	CHECK(&w, STACK_STOP_FOREIGN, 0x100);
}

static void test_stops(void **state)
{
	static const struct {
		uint64_t pc;
		enum stack_stop stop;
	} cases[] = {
		{0x400, STACK_STOP_BAD_CFI},   {0xa00, STACK_STOP_NO_CFI},
		{0xb00, STACK_STOP_NO_CFI},    {0xc00, STACK_STOP_NO_MODULE},
		{0xd00, STACK_STOP_BAD_CFI},   {0xe00, STACK_STOP_NO_MODULE},
		{0xf00, STACK_STOP_NO_MODULE},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct walk w;

		walk_init(&w, 0x100);
		w.words[0] = cases[i].pc;
		add_span(&w, 40, 0);
		run(&w);
		CHECK(&w, cases[i].stop, 0x100, cases[i].pc);
		assert_int_equal(w.stack.frames[1].cfa, 0);
	}
}

/* A register that is saved outside the window matters only to a frame that needs it. */
static void test_lost_registers(void **state)
{
	struct walk w;

	walk_init(&w, 0x600);
	w.words[0] = 0x100;
	w.words[1] = 0x500;
	add_span(&w, 40, 0);
	run(&w);
	CHECK(&w, STACK_STOP_RANGE, 0x600, 0x100, 0x500);
	w.regs.r[WIRE_REG_RIP] = 0x700;
	run(&w);
	CHECK(&w, STACK_STOP_BAD_CFI, 0x700, 0x100, 0x500);
	w.words[1] = 0x300;
	w.spans[0].entry_sp = STACK + 16;
	run(&w);
	CHECK(&w, STACK_STOP_ENDPOINT, 0x700, 0x100, 0x300);
}

static void test_register_as_base(void **state)
{
	struct walk w;

	walk_init(&w, 0x500);
	w.regs.r[WIRE_REG_RBX] = STACK + 24;
	w.words[3] = 0x100;
	add_span(&w, 4, 0);
	run(&w);
	CHECK(&w, STACK_STOP_ENDPOINT, 0x500, 0x100);
}

/* The begin function has returned: the frame around its old slot is the last one. */
static void test_no_frame(void **state)
{
	struct walk w;

	walk_init(&w, 0x100);
	w.words[0] = 0x200; /* its frame has words 1 and 2 */
	add_span(&w, 1, 0xdead);
	w.spans[0].flags = WIRE_SPAN_F_NO_FRAME;
	run(&w);
	CHECK(&w, STACK_STOP_ENDPOINT, 0x100, 0x200);
	w.spans[0].flags = 0;
	run(&w);
	CHECK(&w, STACK_STOP_PAST, 0x100, 0x200);
}

/* What called the begin function has returned as well: the whole stack, to the thread's first frame. */
static void test_left(void **state)
{
	struct walk w;

	walk_init(&w, 0x100);
	w.words[0] = 0x200;
	add_span(&w, 0, 0xdead);
	w.spans[0].flags = WIRE_SPAN_F_NO_FRAME;
	w.spans[0].entry_sp -= 16;
	run(&w);
	CHECK(&w, STACK_STOP_PAST, 0x100, 0x200);
	w.words[2] = 0x300;
	w.words[3] = 0x100;
	run(&w);
	CHECK(&w, STACK_STOP_PAST, 0x100, 0x200, 0x300, 0x100);
	assert_int_equal(unwind_span_frames(&w.stack, &w.spans[0], 0), 4);
}

static void test_depth(void **state)
{
	static const struct known endless[] = {{0x100, CFI_OK, &frame8}};
	static uint64_t words[UNWIND_DEPTH_MAX + 10];
	static struct unwind_stack stack;
	struct wire_snap_span span = {.entry_sp = STACK + sizeof(words) - 8};
	struct walk w = {.known = endless, .n_known = 1};
	struct unwind_input in = {.regs = &w.regs,
				  .window = (const uint8_t *)words,
				  .window_bytes = sizeof(words),
				  .window_start = STACK,
				  .spans = &span,
				  .n_spans = 1};

	w.regs.r[WIRE_REG_RSP] = STACK;
	w.regs.r[WIRE_REG_RIP] = 0x100;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		words[i] = 0x100;
	unwind_window(&in, find, &w, &stack);
	assert_int_equal(stack.stop, STACK_STOP_DEPTH);
	assert_int_equal(stack.n, UNWIND_DEPTH_MAX);
	span.entry_sp = STACK + 8 * 1500;
	unwind_window(&in, find, &w, &stack);
	assert_int_equal(stack.stop, STACK_STOP_ENDPOINT);
	assert_int_equal(stack.n, 1501);
}

/* A uretprobe has put its trampoline into the slot of an inner span. */
static void test_replaced_return_address(void **state)
{
	struct walk w;

	walk_init(&w, 0x100);
	w.words[0] = 0xc00;
	w.words[2] = 0x300;
	add_span(&w, 3, 0xc00);
	add_span(&w, 0, 0x200);
	run(&w);
	CHECK(&w, STACK_STOP_ENDPOINT, 0x100, 0x200, 0x300);
	/* of somebody else's probe nothing is known */
	w.n_spans = 1;
	run(&w);
	CHECK(&w, STACK_STOP_NO_MODULE, 0x100, 0xc00);
}

static void test_frame_pointer(void **state)
{
	struct walk w;

	walk_init(&w, 0xb00);
	w.regs.r[WIRE_REG_RBP] = STACK + 16;
	w.words[2] = STACK + 48; /* saved RBP */
	w.words[3] = 0xa00;
	w.words[6] = 0;
	w.words[7] = 0x300;
	add_span(&w, 8, 0);
	run(&w);
	CHECK(&w, STACK_STOP_ENDPOINT, 0xb00, 0xa00, 0x300);
	assert_int_equal(w.stack.frames[0].flags, UNWIND_F_EXACT | UNWIND_F_FP);
	assert_int_equal(w.stack.frames[1].flags, UNWIND_F_FP);
	assert_int_equal(w.stack.frames[2].flags, 0);
}

static void test_bad_frame_pointer(void **state)
{
	static const uint64_t pointers[] = {
		0, STACK + 3, STACK - 16, STACK + 8 * N_WORDS - 8, UINT64_MAX - 7, 0xdeadbeef};

	for (size_t i = 0; i < ARRAY_SIZE(pointers); i++) {
		struct walk w;

		walk_init(&w, 0xb00);
		w.regs.r[WIRE_REG_RBP] = pointers[i];
		add_span(&w, 40, 0);
		run(&w);
		CHECK(&w, STACK_STOP_NO_CFI, 0xb00);
	}
}

/* Frame pointers that lead back end the walk. */
static void test_frame_pointer_loop(void **state)
{
	struct walk w;

	walk_init(&w, 0xb00);
	w.regs.r[WIRE_REG_RBP] = STACK + 16;
	w.words[2] = STACK + 16;
	w.words[3] = 0xb00;
	add_span(&w, 40, 0);
	run(&w);
	CHECK(&w, STACK_STOP_NO_CFI, 0xb00, 0xb00);
}

/* Registers other than RBP and RSP are not known behind code without rules. */
static void test_after_frame_pointer(void **state)
{
	struct walk w;

	walk_init(&w, 0xb00);
	w.regs.r[WIRE_REG_RBX] = STACK + 40;
	w.regs.r[WIRE_REG_RBP] = STACK;
	w.words[1] = 0x500;
	add_span(&w, 40, 0);
	run(&w);
	CHECK(&w, STACK_STOP_BAD_CFI, 0xb00, 0x500);
}

static void test_signal_frame(void **state)
{
	struct walk w;

	walk_init(&w, 0x100);
	w.words[0] = 0x900;      /* the handler returns to the trampoline */
	w.words[1] = STACK + 32; /* interrupted RSP */
	w.words[2] = 0x200;      /* interrupted RIP: exact */
	w.words[5] = 0x300;
	add_span(&w, 6, 0);
	run(&w);
	CHECK(&w, STACK_STOP_ENDPOINT, 0x100, 0x900, 0x200, 0x300);
	assert_int_equal(w.stack.frames[1].flags, UNWIND_F_SIGNAL | UNWIND_F_EXACT);
	assert_int_equal(w.stack.frames[2].flags, UNWIND_F_EXACT);
	assert_int_equal(w.stack.frames[3].flags, 0);
	assert_int_equal(w.n_exact, 2);
}

static void test_signal_on_other_stack(void **state)
{
	struct walk w;

	walk_init(&w, 0x900);
	w.words[0] = 0x1000; /* interrupted RSP: below, not in the window */
	w.words[1] = 0x200;
	add_span(&w, 40, 0);
	run(&w);
	CHECK(&w, STACK_STOP_RANGE, 0x900, 0x200);
}

/* Signal frames that lead back to themselves end at the depth limit. */
static void test_signal_loop(void **state)
{
	struct walk w;

	walk_init(&w, 0x900);
	w.words[0] = STACK;
	w.words[1] = 0x900;
	add_span(&w, 40, 0);
	run(&w);
	assert_int_equal(w.stack.stop, STACK_STOP_DEPTH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_to_endpoint),
		cmocka_unit_test(test_return_address_in_a_register),
		cmocka_unit_test(test_behind_a_breakpoint),
		cmocka_unit_test(test_nested_spans),
		cmocka_unit_test(test_returned),
		cmocka_unit_test(test_coroutine),
		cmocka_unit_test(test_truncated_outer),
		cmocka_unit_test(test_past),
		cmocka_unit_test(test_range),
		cmocka_unit_test(test_holes),
		cmocka_unit_test(test_without_window),
		cmocka_unit_test(test_stops),
		cmocka_unit_test(test_lost_registers),
		cmocka_unit_test(test_register_as_base),
		cmocka_unit_test(test_no_frame),
		cmocka_unit_test(test_left),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_replaced_return_address),
		cmocka_unit_test(test_frame_pointer),
		cmocka_unit_test(test_bad_frame_pointer),
		cmocka_unit_test(test_frame_pointer_loop),
		cmocka_unit_test(test_after_frame_pointer),
		cmocka_unit_test(test_signal_frame),
		cmocka_unit_test(test_signal_on_other_stack),
		cmocka_unit_test(test_signal_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
