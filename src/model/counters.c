/* SPDX-License-Identifier: Apache-2.0 */
/*
 * counters.c: the name of every counter, whether it means lost data, and what to do about it.
 *
 * Names are part of the JSON format and do not change. The help is one line for people.
 */
#include "model/counters.h"

#include <stddef.h>

#include "base/cleanup.h"

struct counter_row {
	const char *name;
	bool loss;
	const char *help;
};

/* clang-format off */
static const struct counter_row rows[] = {
	[WIRE_C_RING_FULL_SNAPSHOT] = { "ring_full_snapshot", true, "snapshots not sent because the ring buffer was full; make it larger, or use a longer --period" },
	[WIRE_C_RING_FULL_PROMOTED] = { "ring_full_promoted", true, "slow spans not profiled because the ring buffer was full; make it larger" },
	[WIRE_C_RING_FULL_END] = { "ring_full_end", true, "ends of profiled spans not sent because the ring buffer was full; make it larger" },
	[WIRE_C_RING_FULL_RETSITE] = { "ring_full_retsite", false, "call sites reported late because the ring buffer was full" },
	[WIRE_C_RING_FULL_PROC] = { "ring_full_proc", true, "forks, execs or exits of processes missed because the ring buffer was full; make it larger" },
	[WIRE_C_RING_FULL_SLOW] = { "ring_full_slow", true, "slow spans not reported because the ring buffer was full; make it larger" },
	[WIRE_C_NO_STORAGE] = { "no_storage", true, "calls not seen because the kernel had no memory for a thread's state" },
	[WIRE_C_STORAGE_BUSY] = { "storage_busy", true, "ticks or switches skipped because a thread's state was in use" },
	[WIRE_C_NEST_LIMIT] = { "nest_limit", true, "calls not seen because a thread had too many open spans (deep recursion of an endpoint)" },
	[WIRE_C_NAMED_LIMIT] = { "named_limit", true, "slow spans not profiled because too many outer spans were open on their thread" },
	[WIRE_C_PARALLEL_LIMIT] = { "parallel_limit", true, "slow spans not profiled because enough others were being profiled; raise --max-parallel" },
	[WIRE_C_SPAN_LIMIT] = { "span_limit", true, "slow spans not profiled because enough had been profiled; raise --max-samples" },
	[WIRE_C_WINDOW_FAULT] = { "window_fault", true, "snapshots without a stack because the thread's stack could not be read" },
	[WIRE_C_WINDOW_TRUNCATED] = { "window_truncated", true, "snapshots with an incomplete stack because it was larger than the window limit" },
	[WIRE_C_FOREIGN_STACK] = { "foreign_stack", true, "snapshots without a stack because the thread ran on another one (coroutine, signal stack)" },
	[WIRE_C_NAME_FAULT] = { "name_fault", true, "names with a part that could not be read from the target's memory" },
	[WIRE_C_NAME_TRUNCATED] = { "name_truncated", false, "names cut because they were longer than the limit" },
	[WIRE_C_UNWOUND] = { "unwound", false, "spans left by longjmp or an exception instead of a return" },
	[WIRE_C_LEAVE_UNSEEN] = { "leave_unseen", true, "calls whose end was not seen because their call site was new; each site costs a few calls once" },
	[WIRE_C_RETSITE_NEW] = { "retsite_new", false, "call sites of endpoints found while running" },
	[WIRE_C_CONDITION_SKIP] = { "condition_skip", false, "calls left out by the endpoint's condition" },
	[WIRE_C_NESTED_SKIP] = { "nested_skip", false, "begin calls left out because a span of the endpoint was open" },
	[WIRE_C_SHORT_WAIT] = { "short_wait", false, "short waits whose time was merged into the next snapshot" },
	[WIRE_C_WAKE_UNSEEN] = { "wake_unseen", false, "waits whose wake-up was not seen: counted as blocked up to the switch-in" },
	[WIRE_C_MEMBER_FULL] = { "member_full", true, "processes not followed because the table of processes was full" },
	[COUNTER_RECORD_MALFORMED] = { "record_malformed", true, "records that could not be read; a bug, or a damaged capture file" },
	[COUNTER_SPAN_UNKNOWN] = { "span_unknown", true, "snapshots or ends of spans whose begin was lost" },
	[COUNTER_SPAN_TABLE_FULL] = { "span_table_full", true, "spans dropped because too many were open at once" },
	[COUNTER_SPAN_SUPERSEDED] = { "span_superseded", true, "spans whose end was lost; closed when a later one was seen on their thread" },
	[COUNTER_NAME_MISMATCH] = { "name_mismatch", false, "profiled spans left out because their name is not the one asked for" },
	[COUNTER_SEQ_GAP] = { "seq_gap", true, "snapshots missing from the sequence of their span" },
	[COUNTER_SNAPSHOT_LIMIT] = { "snapshot_limit", true, "snapshots dropped because their span had reached its memory limit; use a longer --period" },
	[COUNTER_SPAN_EVICTED] = { "span_evicted", true, "finished spans whose samples were dropped to stay within the memory limit" },
	[COUNTER_UNWIND_NO_MODULE] = { "unwind_no_module", true, "stacks that end early: code in no mapped file (JIT without frame pointers)" },
	[COUNTER_UNWIND_NO_CFI] = { "unwind_no_cfi", true, "stacks that end early: code without unwind information and without frame pointers" },
	[COUNTER_UNWIND_BAD_CFI] = { "unwind_bad_cfi", true, "stacks that end early: unwind information that cannot be evaluated" },
	[COUNTER_UNWIND_RANGE] = { "unwind_range", true, "stacks that end early: they needed memory outside the copied window" },
	[COUNTER_UNWIND_DEPTH] = { "unwind_depth", true, "stacks that end early: deeper than the limit" },
	[COUNTER_UNWIND_PAST] = { "unwind_past", true, "stacks that end early: they passed the endpoint's frame without meeting it" },
	[COUNTER_UNWIND_FP] = { "unwind_fp", false, "stacks with frames found by frame pointer, for want of unwind information" },
	[COUNTER_MODULE_UNREADABLE] = { "module_unreadable", true, "mapped files that could not be read: their frames have no names" },
	[COUNTER_MAPS_UNREADABLE] = { "maps_unreadable", true, "processes that were gone before their mappings could be read" },
	[COUNTER_CACHE_EVICTED] = { "cache_evicted", false, "unwind rules looked up again because their cache was full" },
	[COUNTER_STRINGS_FULL] = { "strings_full", true, "names or symbols not kept because the memory for strings was full" },
	[COUNTER_RETSITE_REFUSED] = { "retsite_refused", true, "call sites where the end of a call cannot be probed" },
	[COUNTER_RETSITE_DEAR] = { "retsite_dear", false, "call sites whose probe is single-stepped: slower for the target" },
	[COUNTER_ATTACH_FAILED] = { "attach_failed", true, "probes that the kernel refused" },
	[COUNTER_CAPTURE_DROPPED] = { "capture_dropped", true, "records not written to the capture file" },
};
/* clang-format on */
_Static_assert(ARRAY_SIZE(rows) == COUNTER_MAX, "rows");

const char *counter_name(unsigned int id)
{
	return id < COUNTER_MAX ? rows[id].name : NULL;
}

const char *counter_help(unsigned int id)
{
	return id < COUNTER_MAX ? rows[id].help : NULL;
}

bool counter_is_loss(unsigned int id)
{
	return id < COUNTER_MAX && rows[id].loss;
}

void counters_add(struct counters *to, const struct counters *from)
{
	for (unsigned int i = 0; i < COUNTER_MAX; i++)
		to->v[i] += from->v[i];
}
