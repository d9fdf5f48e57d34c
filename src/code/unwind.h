/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unwind.h: walks a copied window of a stack with call frame rules. Pure: all memory it reads is
 * the window, all rules come from a callback. Input is hostile; it always ends.
 */
#ifndef SPANPROF_CODE_UNWIND_H
#define SPANPROF_CODE_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/wire.h"
#include "code/cfi.h"
#include "model/profile.h"

enum { UNWIND_DEPTH_MAX = 2048 };

enum unwind_frame_flag {
	UNWIND_F_FP = 1 << 0,     /* the caller of this frame was found by frame pointer */
	UNWIND_F_SIGNAL = 1 << 1, /* signal frame: the next PC is exact, not a return address */
	UNWIND_F_EXACT = 1 << 2,  /* look up pc itself: an interrupted instruction (leaf, or under a
				     signal frame) or the first one of a signal trampoline;
				     otherwise pc is a return address: look up pc - 1 */
};

struct unwind_frame {
	uint64_t pc;
	uint64_t cfa; /* canonical frame address; 0 when the walk stopped here */
	uint8_t flags;
};

struct unwind_input {
	const struct wire_regs *regs;
	const uint8_t *window;
	size_t window_bytes;
	uint64_t
		window_start; /* address of window[0]: regs->r[RSP] - WIRE_REDZONE as BPF copies it */
	uint32_t holes;       /* pages that are not in the window: see wire_snapshot */
	const struct wire_snap_span *spans; /* outermost first */
	size_t n_spans;
	uint16_t snap_flags; /* enum wire_snapshot_flag */
	/*
	 * The kernel has the thread, and not for a system call: perhaps for the breakpoint of a probe,
	 * behind which the PC then is by one. When the walk fails it is tried from there.
	 */
	bool may_trap;
};

struct unwind_stack {
	struct unwind_frame frames[UNWIND_DEPTH_MAX]; /* leaf first */
	size_t n;
	enum stack_stop stop; /* of the walk as a whole (towards the outermost span) */
	/* For spans[i]: number of frames up to and including its endpoint's frame; 0: not reached. */
	uint32_t span_depth[WIRE_NAMED_MAX];
	/*
	 * Bit per span: SP is just above its return address: its function has returned and its leave
	 * probe is about to fire, or it ends by another function. The walk then stops with STACK_STOP_PAST.
	 */
	uint32_t returned;
	/* Bit per span without frame: what called its begin function has returned before the walk. */
	uint32_t left;
};

/*
 * Finds the rule for pc. exact: pc is an instruction that was interrupted; otherwise it is a return
 * address and the rule wanted is that of the call before it. CFI_OK or another enum cfi_result
 * (-ENOMEM counts as CFI_E_BAD). The rule is borrowed until the next call.
 */
typedef int (*unwind_find_rule)(void *ctx, uint64_t pc, bool exact, const struct cfi_rule **ret);

/*
 * Walks from in->regs to the frame of the outermost span (without spans, or when that is one without
 * frame whose begin function's caller has returned: as far as it gets). When
 * outer spans are on another stack (coroutines), it ends with STACK_STOP_FOREIGN in the frame of the
 * outermost one that is on this stack. The first frame is always there; frames that the walk
 * stopped in are kept.
 */
void unwind_window(const struct unwind_input *in, unwind_find_rule find, void *ctx,
		   struct unwind_stack *ret);

/* How many frames belong to span number i, whether or not its own was reached. */
size_t unwind_span_frames(const struct unwind_stack *stack, const struct wire_snap_span *span,
			  size_t i);

#endif
