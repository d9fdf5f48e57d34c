/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/stack_builder.h"

#include "base/cleanup.h"

void stack_builder_deinit(struct stack_builder *b)
{
	vec_free(&b->locations);
}

void stack_builder_begin(struct stack_builder *b)
{
	b->locations.n = 0;
}

static int push_location(struct stack_builder *b, const struct raw_location *l)
{
	uint32_t idx;
	int r = stacks_add_location(b->stacks, l, &idx);

	return r ? r : vec_push(&b->locations, idx);
}

int stack_builder_text(struct stack_builder *b, const char *text)
{
	return push_location(b, &(struct raw_location){.kind = RAW_SYNTHETIC, .text = text});
}

/* A PC of the target: l has what else is known of it. */
static int push_pc(struct stack_builder *b, struct space *space, uint32_t tgid, uint64_t pc,
		   struct raw_location l)
{
	l.kind = RAW_ANONYMOUS;
	l.pid = tgid;
	l.address = l.pc = pc;
	if (space && space_resolve(space, pc, &l.module, &l.address)) {
		l.kind = RAW_MODULE;
		l.pid = 0;
	} else if (space && space_locate(space, pc, &l.text, &l.address)) {
		l.kind = RAW_FILE;
		l.pid = 0;
	}
	return push_location(b, &l);
}

int stack_builder_pc(struct stack_builder *b, struct space *space, uint32_t tgid, uint64_t pc,
		     unsigned int unwind_flags)
{
	return push_pc(
		b, space, tgid, pc,
		(struct raw_location){
			.return_address = !(unwind_flags & UNWIND_F_EXACT),
			.flags = (unwind_flags & UNWIND_F_FP ? PROFILE_LOCATION_FP : 0) |
				 (unwind_flags & UNWIND_F_SIGNAL ? PROFILE_LOCATION_SIGNAL : 0),
		});
}

int stack_builder_function(struct stack_builder *b, struct space *space, uint32_t tgid,
			   uint64_t entry_pc)
{
	return push_pc(b, space, tgid, entry_pc,
		       (struct raw_location){.flags = PROFILE_LOCATION_FUNCTION});
}

int stack_builder_kernel(struct stack_builder *b, const struct event *ev)
{
	const struct wire_snapshot *w = ev->snapshot;
	int r = 0;

	/* The way of the timer interrupt that took the CPU away says nothing about the program. */
	if (w->flags & WIRE_SNAP_F_PREEMPTED && w->syscall_nr < 0)
		return 0;
	for (size_t i = 0; i < ev->snapshot->kernel_frames && !r; i++)
		r = push_location(b, &(struct raw_location){.kind = RAW_KERNEL,
							    .address = ev->kernel[i],
							    .pc = ev->kernel[i]});
	return r;
}

const char *stack_builder_incomplete(enum stack_stop stop)
{
	static const char *const texts[] = {
		[STACK_STOP_NO_WINDOW] = "[incomplete: stack not readable]",
		[STACK_STOP_FOREIGN] = "[incomplete: on another stack]",
		[STACK_STOP_TRUNCATED] = "[incomplete: window limit]",
		[STACK_STOP_NO_MODULE] = "[incomplete: unknown code]",
		[STACK_STOP_NO_FILE] = "[incomplete: file not available]",
		[STACK_STOP_NO_CFI] = "[incomplete: no unwind information]",
		[STACK_STOP_BAD_CFI] = "[incomplete: bad unwind information]",
		[STACK_STOP_RANGE] = "[incomplete: outside the window]",
		[STACK_STOP_DEPTH] = "[incomplete: too deep]",
		[STACK_STOP_PAST] = "[incomplete: endpoint's frame not met]",
	};

	if (stop < ARRAY_SIZE(texts) && texts[stop])
		return texts[stop];
	return "[incomplete]";
}

int stack_builder_finish(struct stack_builder *b, enum stack_stop stop, uint32_t *ret_stack)
{
	return stacks_add(b->stacks, b->locations.at, b->locations.n, stop, ret_stack);
}
