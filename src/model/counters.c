/* SPDX-License-Identifier: Apache-2.0 */
/*
 * counters.c: names and meanings of the counters, in the order of enum wire_counter and then of
 * enum counter. A counter that is added there and not here does not compile.
 */
#include "model/counters.h"

#include "base/cleanup.h"

struct counter_text {
	const char *name;
	const char *help;
	bool is_loss;
};

static const struct counter_text table[] = {
	{"ring_full_snapshot",
	 "snapshots not sent because the ring was full: use a larger ring or period", true},
	{"ring_full_promoted",
	 "slow spans not profiled because the ring was full: use a larger ring", true},
	{"ring_full_end", "ends of profiled spans not sent because the ring was full", true},
	{"ring_full_retsite",
	 "call sites not reported because the ring was full; they are reported again", false},
	{"ring_full_proc", "forks, execs or exits not reported because the ring was full", true},
	{"ring_full_slow", "slow spans not reported because the ring was full", true},
	{"no_storage", "calls not seen because the kernel had no memory for their thread's state",
	 true},
	{"nest_limit",
	 "calls nested deeper on their thread than are told apart: their end is not known", true},
	{"named_limit", "slow spans not profiled because of too many open spans around them", true},
	{"parallel_limit",
	 "slow spans not profiled because as many as allowed were open: --max-parallel", true},
	{"span_limit",
	 "slow spans not profiled because as many as allowed have been: --max-samples", false},
	{"slow_unseen", "slow spans not profiled because they were over before a snapshot was due",
	 false},
	{"window_fault",
	 "snapshots without a stack because it could not be read: its pages are swapped out or unmapped",
	 true},
	{"window_truncated",
	 "snapshots whose stack was larger than --max-window, or there was no room for it, and was cut",
	 true},
	{"foreign_stack",
	 "snapshots taken on another stack than their span's: coroutine or signal stack", true},
	{"name_fault", "parts of names whose memory could not be read", true},
	{"name_truncated", "names longer than the limit", false},
	{"unwound", "calls left by longjmp or an exception instead of a return", false},
	{"leave_unseen",
	 "calls whose end was not seen because their return site was not known in time", true},
	{"retsite_new", "call sites reported", false},
	{"condition_skip", "calls left out by their endpoint's condition", false},
	{"nested_skip", "calls left out because a span of their endpoint was open", false},
	{"short_wait", "short waits accounted for with a later one", false},
	{"wake_unseen", "waits whose wake-up was not seen: counted as blocked to their end", false},
	{"switch_unseen",
	 "waits whose end no program was told of: they end when the scheduler says so", false},
	{"member_full", "forked or exec'ed processes not followed because the table was full",
	 true},
	{"call_cut",
	 "calls that were still open when the probes rested for --max-overhead: their end is not known",
	 true},
	{"probe_hit", "probes met by programs, counted for --max-overhead", false},
	{"probe_hit_dear", "of those, on instructions that the kernel has to single-step", false},
	{"record_malformed", "records that could not be decoded", true},
	{"span_unknown", "snapshots and ends of spans whose start was lost", true},
	{"span_table_full", "spans dropped because too many were open", true},
	{"span_superseded", "open spans whose end was lost, as later ones show", true},
	{"name_mismatch", "profiled spans left out because their name is not the wanted one",
	 false},
	{"fast_discarded", "calls sampled from their start that then were not slow", false},
	{"seq_gap", "snapshots missing in the sequence of their span", true},
	{"snapshot_late",
	 "snapshots that came after a later one of their span: each is a seq_gap, too", false},
	{"snapshot_limit", "snapshots dropped because their span had reached its memory limit",
	 true},
	{"span_evicted", "finished spans whose samples were dropped at the profile's memory limit",
	 true},
	{"unwind_no_module", "stacks that stop at an address in no mapped file", true},
	{"unwind_no_file", "stacks that stop in a mapped file that is not there any more", true},
	{"unwind_no_cfi", "stacks that stop in code without unwind rules and frame pointers", true},
	{"unwind_bad_cfi", "stacks that stop at an unwind rule that cannot be evaluated", true},
	{"unwind_range", "stacks that stop because a rule needs memory outside the copied window",
	 true},
	{"unwind_depth", "stacks that stop at the depth limit", true},
	{"unwind_past", "stacks that pass their endpoint's frame without meeting it", true},
	{"unwind_fp", "stacks with frames found by frame pointer for want of unwind rules", false},
	{"module_unreadable", "mapped files that could not be opened or are not usable ELF", true},
	{"maps_unreadable", "processes that were gone before their mappings could be read", true},
	{"cache_evicted", "unwind rules thrown out of a full cache", false},
	{"strings_full", "names or symbols not kept because of the limit on string memory", true},
	{"retsite_refused", "call sites where no leave probe can be placed", true},
	{"retsite_dear", "leave probes on instructions that the kernel has to single-step", false},
	{"attach_failed", "probes that the kernel refused", true},
	{"fork_late",
	 "first children of processes, whose calls before their probes were there are not counted",
	 true},
	{"exec_late",
	 "programs that were met after their start (by --exe, or an exec of the command), whose calls before their probes were there are not counted",
	 true},
	{"debug_left_out",
	 "files without lines and inlined frames: their debug information is too large or takes too long",
	 false},
	{"debug_cut",
	 "source files, functions and places with some lines or inlined frames missing: too much debug information",
	 false},
};
_Static_assert(ARRAY_SIZE(table) == COUNTER_MAX, "each counter has a name");

const char *counter_name(unsigned int id)
{
	return id < COUNTER_MAX ? table[id].name : NULL;
}

const char *counter_help(unsigned int id)
{
	return id < COUNTER_MAX ? table[id].help : NULL;
}

bool counter_is_loss(unsigned int id)
{
	return id < COUNTER_MAX && table[id].is_loss;
}

void counters_add(struct counters *to, const struct counters *from)
{
	for (unsigned int i = 0; i < COUNTER_MAX; i++)
		to->v[i] += from->v[i];
}
