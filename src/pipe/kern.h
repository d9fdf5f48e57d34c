/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kern.h: the loaded BPF programs and their maps: the only user of the skeleton.
 *
 * Knows how to load, configure, read and detach them; knows nothing of endpoints' texts, symbols or
 * stacks. Function probes are attached by src/probe through the file descriptors of kern_programs.
 * The scheduler's tracepoints are attached while at least one enabled gate exists, the CPU clock
 * while kern_sampling is on, the process tracepoints always. Everything is detached by kern_free,
 * and by the kernel when the program dies.
 */
#ifndef SPANPROF_PIPE_KERN_H
#define SPANPROF_PIPE_KERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/errmsg.h"
#include "bpf/wire.h"
#include "model/counters.h"
#include "model/latency.h"
#include "pipe/bpftime.h"
#include "probe/probes.h"

#define KERN_RING_DEFAULT   (2U << 20)      /* bytes; they count twice as resident */
#define KERN_WINDOW_DEFAULT (65536U - 1024) /* leaves room for a header in 64 KiB */

struct kern;

/* All-zero means defaults. */
struct kern_options {
	size_t ring_bytes; /* rounded up to a power of two of at least one page */
	bool lazy_ring;    /* mapped only from kern_ring_map on: an idle daemon saves its memory */
	uint32_t max_window;  /* bytes, rounded up to 64; 0, or too many: KERN_WINDOW_DEFAULT */
	uint32_t max_members; /* processes followed at a time; default 16384 */
	bool multi_uprobes;   /* programs for uprobe_multi links: see probe/multi.h */
	bool without_end; /* end probes and uretprobes are not needed: loading takes less time */
	bool without_uret;
	bool without_plain; /* one of the two enter programs, the one that must not sleep */
	bool without_sleepable;
	bool end_sleeps; /* what is read when a call ends may be in pages that are not mapped yet */
	bool want_kernel_stacks; /* kernel frames in snapshots of blocked threads and kernel mode */
	bool may_rest;           /* kern_rest() will be used; hits of function probes are counted */
	bool count_threads;      /* for kern_n_threads() */
};

/*
 * Loads the programs and attaches the process tracepoints. When the kernel refuses, the message
 * says which capability, kernel feature or limit is missing.
 */
int kern_new(struct kern **ret, const struct kern_options *options, struct errmsg *e);
struct kern *kern_free(struct kern *k);

/* Borrowed descriptors, valid until kern_free. */
void kern_programs(const struct kern *k, struct probe_programs *ret);

/*
 * Members: the processes that probes look at. as_id of entries made by user space must be below
 * KERN_AS_ID_BPF; those that BPF makes (exec) are from there up. remove: -ENOENT when not there.
 */
#define KERN_AS_ID_BPF (1U << 31)
int kern_member_set(struct kern *k, pid_t tgid, const struct wire_member *member);
int kern_member_get(const struct kern *k, pid_t tgid, struct wire_member *ret);
int kern_member_remove(struct kern *k, pid_t tgid);

/*
 * Executables whose processes become members at exec, and are reported with WIRE_K_EXEC. member
 * gives instance_id and flags; as_id is made up by BPF for each exec.
 */
int kern_watch_exe(struct kern *k, const struct wire_file_key *file,
		   const struct wire_member *member);
int kern_unwatch_exe(struct kern *k, const struct wire_file_key *file);
/* The key of an open file as BPF sees it (st_dev in the kernel's encoding). */
int kern_file_key(int fd, struct wire_file_key *ret);

/*
 * Gates: what may be profiled. Setting one again changes its parameters and keeps n_started and
 * n_active (those of `gate` are ignored). Once a gate is cleared, or set with enabled == 0, no
 * record of its open spans is sent any more: the caller drains the ring and ends them itself. get
 * fills in the counts; -ENOENT when there is no such gate.
 */
int kern_gate_set(struct kern *k, const struct wire_gate_key *key, const struct wire_gate *gate,
		  struct errmsg *e);
int kern_gate_get(const struct kern *k, const struct wire_gate_key *key, struct wire_gate *ret);
int kern_gate_clear(struct kern *k, const struct wire_gate_key *key);

/* Sums over the CPUs since kern_new. */
int kern_latency(const struct kern *k, uint32_t ep_id, struct latency *ret);
/* The threads that called it; the endpoint must be the first one in its slot. */
int kern_n_threads(const struct kern *k, uint32_t ep_id, uint64_t *ret);
/* Sets the first WIRE_C_MAX counters of ret; the others are left as they are. */
int kern_counters(const struct kern *k, struct counters *ret);

/*
 * Records. fn gets one record at a time, valid during the call; a negative return ends the poll
 * with that error. Waits at most timeout_ms for data and then takes all there is: small records of
 * little urgency do not wake the waiter, so call it at least every 100 ms. What comes while fn works is
 * left for the next call: it may come as fast as it is taken. The number of records, or negative errno.
 * fd: for epoll; readable when urgent records are there.
 */
typedef int (*kern_record_fn)(void *ctx, const void *data, size_t bytes);
int kern_poll(struct kern *k, int timeout_ms, kern_record_fn fn, void *ctx);
int kern_ring_fd(const struct kern *k);
/* Maps the ring or, after a last poll, gives its pages back; records wait in it meanwhile. */
int kern_ring_map(struct kern *k);
void kern_ring_unmap(struct kern *k);

/* Opens (or changes) the tick on every online CPU; 0 closes it. */
int kern_sampling(struct kern *k, uint64_t period_ns, struct errmsg *e);

/*
 * Looks for open spans of threads that do not run, promotes those past their threshold and sends
 * a WIRE_SNAP_STUCK snapshot of each thread, once a block and then at most every second. Costs
 * nothing when no call is open. To be called about every dump period.
 */
int kern_walk_stuck(struct kern *k);

/*
 * From kern_rest to kern_resume nothing of ours runs when threads are switched or clocks tick, gates or not;
 * spans are not promoted. kern_cut, in between and while no function is probed, gives up all open spans:
 * COUNTER WIRE_C_CALL_CUT. It sends nothing of those that were PROFILING, and what was sent of them before
 * is in the ring when it returns.
 */
void kern_rest(struct kern *k);
int kern_cut(struct kern *k);
/* Ticks are to be opened anew. */
int kern_resume(struct kern *k, struct errmsg *e);
/* One counter of the BPF programs: cheaper than kern_counters. */
int kern_counter(const struct kern *k, enum wire_counter id, uint64_t *ret);

/* Run time, while it is counted: see bpftime.h. */
/* program: a name as in bpf/ ("span_enter", "sample_tick", ...), NULL: all of them. */
int kern_bpf_runtime(const struct kern *k, const char *program, struct bpftime *ret);

#endif
