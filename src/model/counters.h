/* SPDX-License-Identifier: Apache-2.0 */
/*
 * counters.h: every loss and give-up of a run, by name.
 *
 * The first WIRE_C_MAX counters are counted by the BPF programs (bpf/wire.h), the rest by user
 * space. A counter that is not in the name table does not compile.
 */
#ifndef SPANPROF_MODEL_COUNTERS_H
#define SPANPROF_MODEL_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/wire.h"

enum counter {
	COUNTER_USER_FIRST = WIRE_C_MAX,
	COUNTER_RECORD_MALFORMED = COUNTER_USER_FIRST, /* record that decode refuses */
	COUNTER_SPAN_UNKNOWN,    /* snapshot or end of a span whose start was lost */
	COUNTER_SPAN_TABLE_FULL, /* span dropped: too many open in user space */
	COUNTER_SPAN_SUPERSEDED, /* open span whose end was lost, found by a later one */
	COUNTER_NAME_MISMATCH,   /* profiled span left out: its name is not what match= asks for */
	COUNTER_FAST_DISCARDED,  /* snapshots of a call that then was not slow (--from-start) */
	COUNTER_SEQ_GAP,         /* snapshots missing in the sequence of their span */
	COUNTER_SNAPSHOT_LATE,   /* snapshot of a stuck thread that came after a later one */
	COUNTER_SNAPSHOT_LIMIT,  /* snapshot dropped: the span's memory limit was reached */
	COUNTER_SPAN_EVICTED, /* finished span whose samples were dropped: profile memory limit */
	COUNTER_UNWIND_NO_MODULE, /* stack stopped: PC in no mapped file */
	COUNTER_UNWIND_NO_FILE,   /* stack stopped: the mapped file cannot be read */
	COUNTER_UNWIND_NO_CFI,    /* stack stopped: no unwind rule and no frame pointer */
	COUNTER_UNWIND_BAD_CFI,   /* stack stopped: rule cannot be evaluated */
	COUNTER_UNWIND_RANGE,     /* stack stopped: rule needs memory outside the window */
	COUNTER_UNWIND_DEPTH,     /* stack stopped: depth limit */
	COUNTER_UNWIND_PAST, /* stack stopped: walked past the endpoint's frame without meeting it */
	COUNTER_UNWIND_FP,   /* stacks that contain frames found by frame pointer */
	COUNTER_MODULE_UNREADABLE, /* mapped file that could not be opened or is not usable ELF */
	COUNTER_MAPS_UNREADABLE,   /* /proc/PID/maps could not be read: the process is gone */
	COUNTER_CACHE_EVICTED,     /* unwind rules thrown out of a full cache */
	COUNTER_STRINGS_FULL,      /* name or symbol not kept: string memory limit */
	COUNTER_RETSITE_REFUSED,   /* call site where no leave probe can be placed */
	COUNTER_RETSITE_DEAR,      /* leave probe on a single-stepped instruction */
	COUNTER_ATTACH_FAILED,     /* probe that the kernel refused */
	COUNTER_FORK_LATE,         /* first child of a process that was probed alone */
	COUNTER_EXEC_LATE,      /* program of a watched file that was probed only after its start */
	COUNTER_DEBUG_LEFT_OUT, /* file without lines: its DWARF is over the limit of memory */
	COUNTER_DEBUG_CUT, /* unit or function whose DWARF is read in part: limits of its own */
	COUNTER_MAX
};

struct counters {
	uint64_t v[COUNTER_MAX];
};

/* "ring_full_snapshot": stable, used as key in JSON. NULL for a bad id. */
const char *counter_name(unsigned int id);
/* One line that says what it means and what to do: for the text output and the docs. */
const char *counter_help(unsigned int id);
/* True for counters that mean lost data (shown by default), false for plain statistics. */
bool counter_is_loss(unsigned int id);

void counters_add(struct counters *to, const struct counters *from);

#endif
