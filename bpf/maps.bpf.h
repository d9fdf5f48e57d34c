/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * maps.bpf.h: every map and knob, with who writes and who reads it.
 *
 * All are weak, so that the objects that include this share one of each when they are linked.
 * Sizes that depend on options are set by user space before the load.
 */
#ifndef SPANPROF_MAPS_BPF_H
#define SPANPROF_MAPS_BPF_H

#include "kernel.h"

#include "thread.bpf.h"
#include "wire.h"

/* Knobs: written by user space before the load. */
const volatile __u32 knob_max_window __weak = 0;    /* bytes of a window; 0: none are copied */
const volatile __u32 knob_kernel_stacks __weak = 0; /* kernel frames in snapshots */
const volatile __u32 knob_wake_bytes __weak = 0;    /* unread bytes that wake the reader */
const volatile __u32 knob_tick_bytes __weak = 0;    /* of each ring in tick_rings that are used */
const volatile __u32 knob_count_hits __weak = 0; /* function probes count how often they are met */
const volatile __u32 knob_count_threads __weak =
	0; /* and by how many threads functions are called */

/* Written by nobody. */
const volatile __u32 knob_never __weak = 0; /* see on_own_stack() */

/* Written by user space while running; read by BPF. */
__u32 members_gen __weak = 1;        /* changes with `members` */
__u32 gates_gen __weak = 1;          /* changes with `gates` */
__u32 sched_gen __weak = 1;          /* changes when the scheduler's programs are attached */
__u64 sched_since_ns __weak = NEVER; /* since then all switches are seen */

/* Written and read by BPF. */
__u32 always_zero __weak = 0; /* see forget() */
__u64 last_span_id __weak = 0;
__u32 last_as_id __weak = 1U << 31;
__u32 spare_taken __weak = 0; /* bit i: some thread has windows_spare[i]; cleared with sched_gen */

/* Records to user space. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} ring SEC(".maps") __weak;

/* Index: the CPU; those that are not there use `ring`. Written by the tick, read by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wire_tick_ring);
} tick_rings SEC(".maps") __weak;

/* State of threads that have entered an endpoint: written by all programs, made by `enter` only. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps") __weak;

/*
 * The user stack of such a thread at its last switch-out: written there, read at switch-in and by
 * the walk of stuck threads. The size of a task storage's value is part of its type, so there is
 * one map for each size, and those that knob_max_window rules out are not created. Few threads have
 * a deep stack: one gets the large size only after a switch-out for which the middle one was too
 * small, since nothing can be made there: until then it borrows a spare one while it is off CPU. Each
 * leaves room for the kernel's own header in a power of two.
 */
#define WINDOW_SMALL  (4096 - 256)
#define WINDOW_MIDDLE (32768 - 1024)
#define WINDOW_LARGE  (65536 - 1024)
#define WINDOW_MAP(map_name, bytes)                      \
	struct map_name##_value {                        \
		struct window head;                      \
		__u8 data[bytes];                        \
	};                                               \
	struct {                                         \
		__uint(type, BPF_MAP_TYPE_TASK_STORAGE); \
		__uint(map_flags, BPF_F_NO_PREALLOC);    \
		__type(key, int);                        \
		__type(value, struct map_name##_value);  \
	} map_name SEC(".maps") __weak

struct window {
	__u64 start;
	__u32 bytes;
	__u32 flags; /* enum wire_snapshot_flag */
	__u32 holes; /* as in struct wire_snapshot */
	__u32 pad;
};

WINDOW_MAP(windows_small, WINDOW_SMALL);
WINDOW_MAP(windows_middle, WINDOW_MIDDLE);
WINDOW_MAP(windows_large, WINDOW_LARGE);

#define WINDOWS_SPARE 16 /* of the large size; bits of spare_taken */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WINDOWS_SPARE);
	__type(key, __u32);
	__type(value, struct windows_large_value);
} windows_spare SEC(".maps") __weak;

/* Endpoint slots: written by user space, read by function probes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WIRE_EP_MAX);
	__type(key, __u32);
	__type(value, struct wire_endpoint);
} endpoints SEC(".maps") __weak;

/* tgid -> member: written by user space, at fork, exec and exit; read by `enter`. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct wire_member);
} members SEC(".maps") __weak;

/* Executables that make a member at exec: written by user space, read at exec. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct wire_file_key);
	__type(value, struct wire_member);
} watched SEC(".maps") __weak;

/* Call sites -> enum wire_site_state: written by user space, and by `enter` when it reports one. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct wire_site_key);
	__type(value, __u32);
} return_sites SEC(".maps") __weak;

/* What may be profiled: written by user space; read when a span opens or grows old. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct wire_gate_key);
	__type(value, struct wire_gate);
} gates SEC(".maps") __weak;

/* Counts of a gate: made by user space with the gate; written by BPF, read by both. */
struct gate_count {
	__u32 n_started;
	__u32 n_active;
	__u32 epoch; /* differs each time the gate is made */
	__u32 pad;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct wire_gate_key);
	__type(value, struct gate_count);
} gate_counts SEC(".maps") __weak;

/* Histograms: written at entry and when a span ends; read by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WIRE_EP_MAX);
	__type(key, __u32);
	__type(value, struct wire_latency);
} latency SEC(".maps") __weak;

/* enum wire_counter: written by count(), read by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WIRE_C_MAX);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps") __weak;

/* Threads with open spans that are off CPU, as a sum over the CPUs: written by `switch`. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __s64);
} n_waiting SEC(".maps") __weak;

#endif
