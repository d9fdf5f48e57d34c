/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_builder.h: one stack under construction, leaf first, frame by frame. Borrows the table of
 * stacks that the result goes into.
 */
#ifndef SPANPROF_PIPE_STACK_BUILDER_H
#define SPANPROF_PIPE_STACK_BUILDER_H

#include <stdint.h>

#include "base/vec.h"
#include "code/space.h"
#include "model/decode.h"
#include "pipe/stacks.h"

struct stack_builder {
	struct stacks *stacks;   /* borrowed */
	VEC(uint32_t) locations; /* scratch */
};

void stack_builder_deinit(struct stack_builder *b);
/* Starts anew. */
void stack_builder_begin(struct stack_builder *b);

/* All return 0, -ENOMEM or -ENOSPC. text must live as long as the table: a constant, or interned. */
int stack_builder_text(struct stack_builder *b, const char *text);
/* space may be NULL; unwind_flags: enum unwind_frame_flag. */
int stack_builder_pc(struct stack_builder *b, struct space *space, uint32_t tgid, uint64_t pc,
		     unsigned int unwind_flags);
/*
 * The function that begins at entry_pc, for time that is in it as a whole: what is inlined at its first
 * instruction is no part of that.
 */
int stack_builder_function(struct stack_builder *b, struct space *space, uint32_t tgid,
			   uint64_t entry_pc);
/* The kernel frames of a snapshot, unless they only show how the CPU was taken away. */
int stack_builder_kernel(struct stack_builder *b, const struct event *ev);
int stack_builder_finish(struct stack_builder *b, enum stack_stop stop, uint32_t *ret_stack);

/* "[incomplete: window limit]": the frame that stands for the missing ones. */
const char *stack_builder_incomplete(enum stack_stop stop);

#endif
