/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile.h: the result of a run: spans, their samples, and the tables that the samples point into.
 *
 * A sample says: this span spent wall_ns in this stack, in this state. The samples of a span add up
 * to its duration exactly; time that no snapshot covers is in samples of a kind that says so.
 * Everything is plain data with 32-bit indexes, so that exporters need nothing else. Index 0 of
 * every table is reserved and means "none".
 */
#ifndef SPANPROF_MODEL_PROFILE_H
#define SPANPROF_MODEL_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/strpool.h"
#include "base/vec.h"
#include "model/counters.h"
#include "model/latency.h"

enum { BUILD_ID_MAX = 20 };

struct profile_module {
	uint32_t path; /* string: as the process sees it, "[vdso]", "[kernel]", "[jit]" */
	uint8_t build_id_bytes;
	uint8_t build_id[BUILD_ID_MAX];
	uint64_t start; /* lowest mapped address seen, end and file offset of that mapping */
	uint64_t limit;
	uint64_t offset;
};

enum profile_frame_flag {
	PROFILE_FRAME_INLINED = 1 << 0, /* inlined into the next frame of its location */
	PROFILE_FRAME_KERNEL = 1 << 1,
	PROFILE_FRAME_SYNTHETIC = 1 << 2, /* made up by spanprof: "[before threshold]" */
	PROFILE_FRAME_UNKNOWN = 1 << 3,   /* no symbol: the function is "module+0x1234" */
};

/* A source-level frame: distinct (function, file, line, flags). */
struct profile_frame {
	uint32_t function; /* string, demangled */
	uint32_t
		system_name; /* string, as in the symbol table; equal to function when not mangled */
	uint32_t file;       /* string, "" when unknown */
	uint32_t line;       /* 0 when unknown */
	uint32_t start_line; /* of the function, 0 when unknown */
	uint32_t flags;      /* enum profile_frame_flag */
};

enum profile_location_flag {
	PROFILE_LOCATION_FP = 1 << 0, /* its caller was found by frame pointer, for want of CFI */
	PROFILE_LOCATION_SIGNAL = 1 << 1,    /* signal frame */
	PROFILE_LOCATION_SYNTHETIC = 1 << 2, /* profile_synthetic_stack: module_off is its frame */
	PROFILE_LOCATION_FUNCTION = 1 << 3,  /* the function alone, not what is inlined there */
};

/* A distinct (module, address). Its frames are a run in frame_runs, innermost inlined one first. */
struct profile_location {
	uint32_t module;
	uint32_t flags; /* enum profile_location_flag */
	uint64_t
		address; /* run-time address as first seen (kernel: 0 unless addresses are shown) */
	uint64_t module_off;  /* ELF virtual address inside the module: stable between runs */
	uint32_t first_frame; /* index into frame_runs */
	uint32_t n_frames;    /* at least 1 once symbolized */
};

/* Why a stack ends where it ends. */
enum stack_stop {
	STACK_STOP_ENDPOINT,  /* complete: it ends in the endpoint's frame */
	STACK_STOP_NO_WINDOW, /* no window could be copied (fault) */
	STACK_STOP_FOREIGN,   /* SP is on another stack than the span's (coroutine, signal stack) */
	STACK_STOP_TRUNCATED, /* the window was larger than the limit */
	STACK_STOP_NO_MODULE,
	STACK_STOP_NO_CFI,
	STACK_STOP_BAD_CFI,
	STACK_STOP_RANGE,
	STACK_STOP_DEPTH,
	STACK_STOP_PAST,    /* it walked past the endpoint's frame without meeting it */
	STACK_STOP_NONE,    /* synthetic: no stack was taken */
	STACK_STOP_NO_FILE, /* the file that is mapped there cannot be read */
	STACK_STOP_MAX
};

/* "complete", "no_window", ... */
const char *stack_stop_name(enum stack_stop stop);

/*
 * A distinct stack: a run in stack_runs of location indexes, leaf first. The last one is the
 * endpoint's function, always: below a stack that ends early there is a synthetic frame that says
 * why ("[incomplete: window limit]"), and time without a snapshot is in a synthetic frame.
 */
struct profile_stack {
	uint32_t first;
	uint32_t n;
	uint8_t stop; /* enum stack_stop */
	uint64_t hash;
};

enum sample_kind {
	SAMPLE_ONCPU,
	SAMPLE_RUNQ,    /* runnable, waiting for a CPU */
	SAMPLE_BLOCKED, /* asleep: see cause */
	SAMPLE_KIND_MAX
};

/* What a blocked thread waits for, from the system call (or its absence) and the task state. */
enum block_cause {
	BLOCK_NONE,
	BLOCK_LOCK,      /* futex */
	BLOCK_SLEEP,     /* nanosleep, clock_nanosleep, select/poll with no descriptors */
	BLOCK_POLL,      /* poll, epoll_wait, select */
	BLOCK_NET,       /* recv, send, accept, connect, and read/write of sockets when known */
	BLOCK_FILE,      /* read, write ... of a pipe, terminal, socket or file: "io" */
	BLOCK_DISK,      /* I/O wait, or uninterruptible in a call on files */
	BLOCK_FAULT,     /* uninterruptible, not in a system call: page fault */
	BLOCK_CHILD,     /* wait4, waitid */
	BLOCK_OTHER,     /* any other system call */
	BLOCK_CONDITION, /* futex of a condition variable: profile_wait_cause */
	BLOCK_CAUSE_MAX
};

/* "on-cpu", "run-queue", "blocked" */
const char *sample_kind_name(enum sample_kind kind);

/* "lock", "sleep" ...: one word; "" for BLOCK_NONE. */
const char *block_cause_name(enum block_cause cause);
/* prev_state and syscall_nr as in struct wire_snapshot (x86-64 numbers). Pure. */
enum block_cause block_cause_of(int syscall_nr, uint32_t prev_state, unsigned int flags);
/* "futex", "read" ...; NULL when unknown. x86-64 numbers. */
const char *syscall_name(int nr);

struct profile;

/*
 * The cause, made more exact by the functions that wait: a futex may be a lock or a condition
 * variable. stack: index into stacks, symbolized.
 */
enum block_cause profile_wait_cause(const struct profile *p, enum block_cause cause,
				    uint32_t stack);

struct profile_sample {
	uint32_t span;  /* index into spans */
	uint32_t stack; /* index into stacks */
	uint8_t kind;   /* enum sample_kind */
	uint8_t cause;  /* enum block_cause */
	uint16_t count; /* snapshots this stands for: 1, or 0 for time that has none of its own */
	int32_t syscall_nr; /* -1: none */
	uint32_t seq;       /* the snapshot's sequence number in its span; UINT32_MAX: none */
	uint32_t waker_tid; /* blocked: who woke it, 0 when unknown */
	uint32_t waker_tgid;
	uint64_t wall_ns;
	uint64_t start_ns; /* monotonic: the tick, or the begin of the interval */
	uint64_t end_ns;   /* monotonic: the tick, or the end of the interval */
};

struct profile_span {
	uint64_t span_id;
	uint32_t endpoint; /* index into endpoints */
	uint32_t name;     /* string: the endpoint's name for this span, escaped, normalised */
	uint32_t tgid;
	uint32_t tid;
	uint32_t comm; /* string */
	uint32_t instance_id;
	uint64_t start_ns; /* monotonic */
	uint64_t end_ns;   /* monotonic; of an unfinished span: the end of the run */
	uint64_t oncpu_ns; /* the three add up to end_ns - start_ns */
	uint64_t runq_ns;
	uint64_t blocked_ns;
	uint16_t end_reason;   /* enum wire_end_reason */
	uint32_t n_due;        /* snapshots that were due */
	uint32_t n_kept;       /* of those, in samples and with a complete stack or a named stop */
	uint32_t n_incomplete; /* of the kept ones, those whose stack is not complete */
	uint32_t first_sample; /* samples of one span are contiguous */
	uint32_t n_samples;
};

/* It returned or came to its end probe: then it is in its endpoint's histogram. */
bool profile_span_returned(const struct profile_span *s);

/* "return", "thread_exit", "unfinished" ...: enum wire_end_reason; "unknown" for a bad one. */
const char *end_reason_name(unsigned int reason);

struct profile_endpoint {
	uint32_t spec; /* string: as given by the user */
	uint32_t name; /* string: display name, the function or the preset's name */
	uint64_t threshold_ns;
	uint64_t period_ns;
	bool absent;   /* it was in none of the processes: a preset's variant for another build */
	bool unprobed; /* it was in none of the processes, and the user named it */
	struct latency latency;
};

/* Functions were probed in turns, so that this cost less than a share of the processes' CPU time. */
struct profile_turns {
	uint32_t share_ppm; /* of the CPU time: the limit; 0: they were probed all the time */
	uint64_t n_turns;
	uint64_t probed_ns; /* calls that began in this time were looked at */
	uint64_t cost_ns;   /* an estimate */
	uint64_t cpu_ns;    /* that the processes used */
};

struct profile {
	struct strpool *strings; /* owned */
	VEC(struct profile_module) modules;
	VEC(struct profile_frame) frames;
	VEC(uint32_t) frame_runs;
	VEC(struct profile_location) locations;
	VEC(uint32_t) stack_runs;
	VEC(struct profile_stack) stacks;
	VEC(struct profile_endpoint) endpoints;
	VEC(struct profile_span) spans;
	VEC(struct profile_sample) samples;
	struct counters counters;
	uint64_t start_mono_ns;
	uint64_t start_real_ns; /* CLOCK_REALTIME at start_mono_ns */
	uint64_t duration_ns;   /* of the run */
	struct profile_turns turns;
	uint32_t hostname; /* string */
	bool only_kept; /* read from a store: how many calls there were is not known, only these spans */
	uint32_t kernel_release; /* string */
	struct profile_index
		*index; /* owned; private to profile.c: look-up tables of the interning */
};

/* An empty profile with every table's reserved index 0 in place. */
int profile_new(struct profile **ret);
struct profile *profile_free(struct profile *p);

/* Whether there was time in which nothing was probed, worth a word. */
bool profile_rested(const struct profile *p);
/* For how long calls that began were counted: divisor of rates. */
uint64_t profile_probed_ns(const struct profile *p);

/*
 * Interning: the index of the equal entry, which is added when there is none yet. 0, -ENOMEM or
 * -ENOSPC (a table is full). Modules are equal by path and build ID, frames by all members.
 */
int profile_add_module(struct profile *p, const struct profile_module *m, uint32_t *ret_idx);
int profile_add_frame(struct profile *p, const struct profile_frame *f, uint32_t *ret_idx);

/*
 * Locations are equal by (module, module_off, flags). Look before symbolizing: 0 when there is no
 * such location yet. profile_add_location copies the frames (indexes into frames, innermost inlined
 * one first) and ignores l->first_frame and l->n_frames; an existing location keeps its frames.
 */
uint32_t profile_find_location(const struct profile *p, uint32_t module, uint64_t module_off,
			       uint32_t flags);
int profile_add_location(struct profile *p, const struct profile_location *l,
			 const uint32_t *frames, size_t n_frames, uint32_t *ret_idx);

int profile_add_stack(struct profile *p, const uint32_t *locations, size_t n, enum stack_stop stop,
		      uint32_t *ret_idx);

/* A one-frame stack of a synthetic frame: "[before threshold]". */
int profile_synthetic_stack(struct profile *p, const char *text, uint32_t *ret_idx);

/* Why time has no snapshot's stack but a synthetic frame. */
enum profile_gap {
	PROFILE_GAP_BEFORE, /* before the first snapshot could be due */
	PROFILE_GAP_LOST,   /* snapshots that should cover it were lost */
	PROFILE_GAP_SHORT,  /* waits too short for a snapshot */
	PROFILE_GAP_TICKS,  /* on CPU, but no tick fell into it */
	PROFILE_GAP_MEMORY, /* snapshots were given up: memory limit */
	PROFILE_GAP_MAX
};

/* "[before threshold]", ...: the function of the synthetic frame. */
const char *profile_gap_text(enum profile_gap gap);
bool profile_frame_is_gap(const struct profile *p, uint32_t frame, enum profile_gap gap);

/* Snapshots kept / due over all spans, in 0..1; 1 when none were due. */
double profile_completeness(const struct profile *p);
double profile_span_completeness(const struct profile_span *s);

/*
 * Drops all spans and samples, for a daemon that has exported them. The tables that they point into
 * stay, so that indexes held elsewhere (stacks of open spans, symbol caches) remain valid; so do
 * endpoints and counters.
 */
void profile_clear_spans(struct profile *p);

/* Roughly the heap bytes of the profile: its tables, look-up tables and strings. */
size_t profile_bytes(const struct profile *p);

#endif
