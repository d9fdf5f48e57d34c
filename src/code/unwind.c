/* SPDX-License-Identifier: Apache-2.0 */
#include "code/unwind.h"

#include <string.h>

#include "base/arch.h"
#include "code/cfi_eval.h"

struct walk {
	const struct unwind_input *in;
	struct cfi_memory memory;
	struct cfi_frame frame;  /* registers of the frame that the walk is at */
	struct cfi_frame caller; /* of the next one, while a step is under way */
	size_t goal;             /* index of the span that the walk can reach: see find_goal */
	uint64_t rip_slot;       /* where the caller's PC was saved; 0: not in memory */
	uint64_t low;            /* the frame's CFA must be above this */
	bool exact;              /* the frame's PC was interrupted; it is not a return address */
	struct unwind_stack *ret;
};

/* The stops that end a step; STACK_STOP_MAX: go on. */
#define GO_ON STACK_STOP_MAX

static enum stack_stop stop_of_rule(int r)
{
	switch (r) {
	case CFI_E_NO_CFI:
	case CFI_E_ANONYMOUS:
		return STACK_STOP_NO_CFI;
	case CFI_E_NO_MODULE:
	case CFI_E_TRAMPOLINE:
		return STACK_STOP_NO_MODULE;
	case CFI_E_NO_FILE:
		return STACK_STOP_NO_FILE;
	default:
		return STACK_STOP_BAD_CFI;
	}
}

static enum stack_stop stop_of_range(const struct walk *w)
{
	return w->in->snap_flags & WIRE_SNAP_F_TRUNCATED ? STACK_STOP_TRUNCATED : STACK_STOP_RANGE;
}

static enum stack_stop stop_of_eval(const struct walk *w, enum cfi_eval_result r)
{
	return r == CFI_EVAL_E_RANGE ? stop_of_range(w) : STACK_STOP_BAD_CFI;
}

/*
 * Walks come to an end because the CFA grows from frame to frame. The innermost function may have
 * taken its return address off the stack into a register, as vfork() does: its CFA is SP.
 */
static bool is_progress(const struct walk *w, const struct cfi_rule *rule, uint64_t cfa)
{
	/* A signal frame's CFA is the interrupted SP, which may be on another stack. */
	if (rule->signal || cfa > w->low)
		return true;
	for (unsigned int i = 0; cfa == w->low && w->ret->n == 1 && i < rule->n_values; i++)
		if (rule->values[i].reg == ARCH_PC)
			return rule->values[i].kind == CFI_REG;
	return false;
}

static enum stack_stop step_by_rule(struct walk *w, const struct cfi_rule *rule,
				    struct unwind_frame *at)
{
	uint64_t cfa;
	enum cfi_eval_result r = cfi_eval_cfa(rule, &w->frame, &w->memory, &cfa);

	if (r)
		return stop_of_eval(w, r);
	if (!is_progress(w, rule, cfa))
		return STACK_STOP_BAD_CFI;
	cfi_eval_step(rule, &w->frame, &w->memory, cfa, &w->caller, &w->rip_slot);
	at->cfa = cfa;
	w->exact = rule->signal;
	w->low = rule->signal ? 0 : cfa;
	if (rule->signal)
		at->flags |= UNWIND_F_SIGNAL | UNWIND_F_EXACT;
	return GO_ON;
}

/* For want of a rule: RBP points to the saved RBP, the return address is above it. */
static enum stack_stop step_by_frame_pointer(struct walk *w, enum stack_stop otherwise,
					     struct unwind_frame *at)
{
	uint64_t rbp = w->frame.r[ARCH_FP], cfa = rbp + ARCH_FRAME_BYTES;
	struct cfi_frame *caller = &w->caller;

	if (!(w->frame.known & (1U << ARCH_FP)) || rbp % 8 || cfa <= w->low ||
	    rbp < w->frame.r[ARCH_SP])
		return otherwise;
	if (!cfi_memory_read(&w->memory, rbp, 8, &caller->r[ARCH_FP]) ||
	    !cfi_memory_read(&w->memory, rbp + 8, 8, &caller->r[ARCH_PC]))
		return otherwise;
	caller->r[ARCH_SP] = cfa;
	caller->known = 1U << ARCH_FP | 1U << ARCH_PC | 1U << ARCH_SP;
	caller->outside = 0;
	w->rip_slot = rbp + 8;
	w->exact = false;
	w->low = cfa;
	at->cfa = cfa;
	at->flags |= UNWIND_F_FP;
	return GO_ON;
}

/* Notes the spans whose frame this is; says whether the walk has arrived or gone too far. */
static enum stack_stop check_spans(struct walk *w, const struct unwind_frame *at)
{
	const struct wire_snap_span *spans = w->in->spans;

	for (size_t i = 0; i < w->in->n_spans && i < WIRE_NAMED_MAX; i++) {
		bool encloses = (spans[i].flags & WIRE_SPAN_F_NO_FRAME) && !w->ret->span_depth[i] &&
				at->cfa > spans[i].entry_sp + 8 && !(w->ret->left & 1U << i);

		if (at->cfa == spans[i].entry_sp + 8 || encloses)
			w->ret->span_depth[i] = w->ret->n;
	}
	if (!w->in->n_spans)
		return GO_ON;
	if (w->ret->span_depth[w->goal])
		return w->goal ? STACK_STOP_FOREIGN : STACK_STOP_ENDPOINT;
	return at->cfa > spans[w->goal].entry_sp + 8 && !(w->ret->left & 1U << w->goal)
		       ? STACK_STOP_PAST
		       : GO_ON;
}

/*
 * The outermost span on the stack that the thread is on: a coroutine's outer spans may be on
 * another one. The window reaches as far as such a span, unless it was cut.
 */
static size_t find_goal(const struct unwind_input *in)
{
	for (size_t i = 0; i < in->n_spans; i++) {
		uint64_t slot = in->spans[i].entry_sp;
		bool above = slot >= in->regs->r[ARCH_SP];

		if (slot - in->window_start < in->window_bytes ||
		    (above && in->snap_flags & WIRE_SNAP_F_TRUNCATED))
			return i;
	}
	return 0;
}

/* A uretprobe that is under way has replaced the return address of a span; put the true one back. */
static void restore_return_address(struct walk *w)
{
	for (size_t i = 0; w->rip_slot && i < w->in->n_spans && i < WIRE_NAMED_MAX; i++)
		if (w->in->spans[i].entry_sp == w->rip_slot && w->in->spans[i].ret_addr)
			w->caller.r[ARCH_PC] = w->in->spans[i].ret_addr;
}

static enum stack_stop enter_caller(struct walk *w)
{
	uint32_t bit = 1U << ARCH_PC;

	if (w->caller.outside & bit)
		return stop_of_range(w);
	/* RIP undefined, or zero: the first frame of the thread. */
	if (!(w->caller.known & bit))
		return STACK_STOP_PAST;
	restore_return_address(w);
	if (!w->caller.r[ARCH_PC])
		return STACK_STOP_PAST;
	w->frame = w->caller;
	return GO_ON;
}

static enum stack_stop step(struct walk *w, unwind_find_rule find, void *ctx)
{
	struct unwind_frame *at;
	const struct cfi_rule *rule;
	enum stack_stop stop;
	int r;

	if (w->ret->n == UNWIND_DEPTH_MAX)
		return STACK_STOP_DEPTH;
	at = &w->ret->frames[w->ret->n++];
	*at = (struct unwind_frame){.pc = w->frame.r[ARCH_PC],
				    .flags = w->exact ? UNWIND_F_EXACT : 0};
	if (w->in->snap_flags & WIRE_SNAP_F_FAULT)
		return STACK_STOP_NO_WINDOW;
	if (w->in->snap_flags & WIRE_SNAP_F_FOREIGN)
		return STACK_STOP_FOREIGN;
	r = find(ctx, at->pc, w->exact, &rule);
	if (!r)
		stop = step_by_rule(w, rule, at);
	else if (r == CFI_E_NO_CFI || r == CFI_E_ANONYMOUS)
		stop = step_by_frame_pointer(w, stop_of_rule(r), at);
	else
		stop = stop_of_rule(r);
	if (stop == GO_ON)
		stop = check_spans(w, at);
	return stop == GO_ON ? enter_caller(w) : stop;
}

static uint32_t find_returned(const struct unwind_input *in)
{
	uint32_t returned = 0;

	for (size_t i = 0; i < in->n_spans && i < WIRE_NAMED_MAX; i++)
		if (in->regs->r[ARCH_SP] == in->spans[i].entry_sp + 8)
			returned |= 1U << i;
	return returned;
}

/* Where the stack of such a span ends is not known: it is taken to be all of the thread's. */
static uint32_t find_left(const struct unwind_input *in)
{
	uint32_t left = 0;

	for (size_t i = 0; i < in->n_spans && i < WIRE_NAMED_MAX; i++)
		if ((in->spans[i].flags & WIRE_SPAN_F_NO_FRAME) &&
		    in->regs->r[ARCH_SP] > in->spans[i].entry_sp + 8)
			left |= 1U << i;
	return left;
}

static void walk_from(const struct unwind_input *in, uint64_t pc, unwind_find_rule find, void *ctx,
		      struct unwind_stack *ret)
{
	struct walk w = {
		.in = in,
		.memory = {.bytes = in->window,
			   .n = in->window_bytes,
			   .start = in->window_start,
			   .holes = in->holes},
		.low = in->regs->r[ARCH_SP],
		.goal = find_goal(in),
		.exact = true,
		.ret = ret,
	};
	enum stack_stop stop;

	memcpy(w.frame.r, in->regs->r, sizeof(w.frame.r));
	w.frame.r[ARCH_PC] = pc;
	w.frame.known = (1U << WIRE_REG_MAX) - 1;
	w.frame.outside = 0;
	ret->n = 0;
	memset(ret->span_depth, 0, sizeof(ret->span_depth));
	do
		stop = step(&w, find, ctx);
	while (stop == GO_ON);
	ret->stop = stop;
}

static bool has_arrived(const struct unwind_stack *s)
{
	return s->stop == STACK_STOP_ENDPOINT || s->stop == STACK_STOP_FOREIGN;
}

void unwind_window(const struct unwind_input *in, unwind_find_rule find, void *ctx,
		   struct unwind_stack *ret)
{
	const uint64_t pc = in->regs->r[ARCH_PC];

	ret->returned = find_returned(in);
	ret->left = find_left(in);
	walk_from(in, pc, find, ctx, ret);
	if (has_arrived(ret) || !in->may_trap || !in->n_spans)
		return;
	walk_from(in, pc - 1, find, ctx, ret);
	/* Neither arrives, which is rare: to walk anew costs less than a second stack's memory. */
	if (!has_arrived(ret))
		walk_from(in, pc, find, ctx, ret);
}

size_t unwind_span_frames(const struct unwind_stack *stack, const struct wire_snap_span *span,
			  size_t i)
{
	size_t n = 0;

	if (stack->span_depth[i])
		return stack->span_depth[i];
	if (stack->left & 1U << i)
		return stack->n;
	while (n < stack->n && stack->frames[n].cfa <= span->entry_sp)
		n++;
	return n;
}
