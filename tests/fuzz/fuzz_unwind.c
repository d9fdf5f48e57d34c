/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_unwind.c: a snapshot (registers, spans, flags, window) and the unwind tables of its code.
 *
 * The input is a struct head, WINDOW bytes of stack, and .eh_frame_hdr and .eh_frame in one piece.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "code/cfi_eval.h"
#include "code/unwind.h"
#include "fuzz.h"

enum { WINDOW = 512, STACK = 0x7000, CODE = 0x10000, CODE_BYTES = 0x400, SPANS = 4 };

struct head {
	uint64_t r[WIRE_REG_MAX];
	uint8_t slots[SPANS]; /* the word of the stack that holds a span's return address */
	uint8_t span_flags[SPANS];
	uint8_t n_spans;
	uint8_t snap_flags;
	uint16_t holes;
	uint32_t window_bytes;
};

struct input {
	struct head head;
	uint8_t window[WINDOW];
	const uint8_t *cfi;
	size_t cfi_bytes;
	struct cfi_table *table;
	struct cfi_buf rule;
};

static size_t read_cfi(void *ctx, uint64_t addr, void *buf, size_t n)
{
	struct input *in = ctx;

	if (addr >= in->cfi_bytes)
		return 0;
	n = n < in->cfi_bytes - addr ? n : in->cfi_bytes - addr;
	memcpy(buf, in->cfi + addr, n);
	return n;
}

/* All PCs are in the one piece of code, so that a walk goes on whatever the stack holds. */
static int find(void *ctx, uint64_t pc, bool exact, const struct cfi_rule **ret)
{
	struct input *in = ctx;

	if (pc % 64 == 63)
		return CFI_E_NO_CFI;
	*ret = &in->rule.rule;
	return cfi_table_find(in->table, CODE + (pc - !exact) % CODE_BYTES, &in->rule);
}

static void check(const struct unwind_stack *s, size_t n_spans)
{
	uint64_t low = 0;

	assert(s->n >= 1 && s->n <= UNWIND_DEPTH_MAX && s->stop < STACK_STOP_MAX);
	for (size_t i = 0; i < s->n; i++) {
		const struct unwind_frame *f = &s->frames[i];

		if (f->flags & UNWIND_F_SIGNAL)
			low = 0;
		else if (f->cfa)
			assert(f->cfa > low);
		if (f->cfa && !(f->flags & UNWIND_F_SIGNAL))
			low = f->cfa;
	}
	for (size_t i = 0; i < n_spans; i++)
		assert(s->span_depth[i] <= s->n);
	if (s->stop == STACK_STOP_ENDPOINT)
		assert(s->span_depth[0] == s->n);
}

static void walk(struct input *in, struct unwind_stack *stack)
{
	struct wire_snap_span spans[SPANS] = {};
	struct wire_regs regs;
	struct unwind_input u = {
		.regs = &regs,
		.window = in->window,
		.window_bytes = in->head.window_bytes % (WINDOW + 1),
		.window_start = STACK,
		.holes = in->head.holes,
		.spans = spans,
		.n_spans = in->head.n_spans % (SPANS + 1),
		.snap_flags = in->head.snap_flags,
		.may_trap = in->head.snap_flags & WIRE_SNAP_F_KERNEL,
	};

	memcpy(regs.r, in->head.r, sizeof(regs.r));
	for (size_t i = 0; i < u.n_spans; i++) {
		spans[i].entry_sp = STACK + in->head.slots[i] * 8ULL;
		spans[i].flags = in->head.span_flags[i];
	}
	unwind_window(&u, find, in, stack);
	check(stack, u.n_spans);
	for (size_t i = 0; i < u.n_spans; i++)
		assert(unwind_span_frames(stack, &spans[i], i) <= stack->n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct input in = {};
	struct cfi_source source = {.read = read_cfi, .ctx = &in};
	struct unwind_stack *stack;

	if (n < sizeof(in.head) + WINDOW)
		return 0;
	memcpy(&in.head, data, sizeof(in.head));
	memcpy(in.window, data + sizeof(in.head), WINDOW);
	in.cfi = data + sizeof(in.head) + WINDOW;
	in.cfi_bytes = n - sizeof(in.head) - WINDOW;
	source.hdr_bytes = source.frame_bytes = in.cfi_bytes;
	stack = calloc(1, sizeof(*stack));
	if (stack && !cfi_table_new(&in.table, &source)) {
		walk(&in, stack);
		cfi_table_free(in.table);
	}
	free(stack);
	return 0;
}
