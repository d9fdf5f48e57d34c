/* SPDX-License-Identifier: Apache-2.0 */
/*
 * account.h: distributes the wall time of one span over its snapshots. Pure.
 *
 * Off CPU, time is exact: each interval goes to the stack that was copied at its switch-out; waits
 * too short to have a record of their own go to the next one that has. On CPU, the time between
 * ticks is split half and half between the two ticks' stacks, measured on the thread's own on-CPU
 * clock; what is out of their reach was in the frames that the snapshots around it share. What no snapshot covers (before the threshold, around lost snapshots, ...) becomes items
 * that say so. Invariants, whatever the input says: the items add up to the span's duration exactly,
 * and their counts to the number of snapshots.
 */
#ifndef SPANPROF_PIPE_ACCOUNT_H
#define SPANPROF_PIPE_ACCOUNT_H

#include <stdint.h>

#include "base/vec.h"
#include "bpf/wire.h"
#include "model/profile.h"

/* One snapshot as seen by one span. */
struct observation {
	uint32_t seq;
	uint32_t stack; /* the caller's name for the stack; passed through */
	uint16_t kind;  /* enum wire_snapshot_kind */
	uint16_t flags; /* enum wire_snapshot_flag */
	int32_t syscall_nr;
	uint32_t prev_state;
	uint32_t waker_tgid;
	uint32_t waker_tid;
	uint64_t mono_ns;
	uint64_t out_ns;
	uint64_t wake_ns;
	struct wire_wall wall; /* of the thread, as in struct wire_snapshot */
};

struct account_input {
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t period_ns;
	uint64_t sample_after_ns;
	struct wire_wall start;        /* of the thread */
	struct wire_wall promoted;     /* of the thread */
	struct wire_wall total;        /* of the span */
	const struct observation *obs; /* ordered by seq */
	size_t n_obs;
	/*
	 * The caller's name for a stack that says "between ticks" in the frames that two stacks share, or
	 * ACCOUNT_NO_TICK when there are none. May be NULL.
	 */
	uint32_t (*shared)(void *ctx, uint32_t a, uint32_t b);
	void *ctx;
};

/* Stacks of items that have no snapshot: ACCOUNT_FIRST + enum profile_gap. */
enum account_stack {
	ACCOUNT_FIRST = UINT32_MAX - PROFILE_GAP_MAX,
	ACCOUNT_BEFORE = ACCOUNT_FIRST + PROFILE_GAP_BEFORE,
	ACCOUNT_LOST = ACCOUNT_FIRST + PROFILE_GAP_LOST,
	ACCOUNT_SHORT = ACCOUNT_FIRST + PROFILE_GAP_SHORT,
	ACCOUNT_NO_TICK = ACCOUNT_FIRST + PROFILE_GAP_TICKS,
};

struct account_item {
	uint32_t stack; /* observation.stack, what `shared` has returned, or enum account_stack */
	uint32_t obs;   /* index into obs; UINT32_MAX: none */
	uint8_t kind;   /* enum sample_kind */
	uint16_t count; /* snapshots that it stands for */
	uint64_t wall_ns;
	uint64_t start_ns;
	uint64_t end_ns;
};

struct account {
	VEC(struct account_item) items; /* by start_ns */
	uint32_t n_missing;             /* holes in the sequence numbers */
	struct wire_wall total;         /* as used: adds up to end_ns - start_ns */
};

/* 0 or -ENOMEM. ret is emptied first; its memory is kept from call to call. */
int account_span(const struct account_input *in, struct account *ret);
void account_deinit(struct account *a);

#endif
