/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h: live profiling: processes, probes, gates and records of one running spanprof.
 *
 * The engine owns the BPF side (kern), the probes and the pipeline, follows the processes it was
 * given, attaches leave probes as call sites are reported, and feeds the pipeline. It decides
 * nothing: which processes and endpoints are profiled is the caller's matter (a command line or
 * the task schedule). One thread; the caller's loop waits on engine_fd() and calls engine_dispatch().
 */
#ifndef SPANPROF_PIPE_ENGINE_H
#define SPANPROF_PIPE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/errmsg.h"
#include "pipe/bpftime.h"
#include "pipe/pipeline.h"
#include "probe/probes.h"
#include "probe/trapcost.h"

struct engine;
struct limits;

enum engine_event_kind {
	ENGINE_EVENT_FORK, /* pid: the child, which is a member already; parent: its parent */
	ENGINE_EVENT_EXEC, /* pid called exec; it is no longer attached unless its file is watched */
	ENGINE_EVENT_EXIT,   /* pid is gone */
	ENGINE_EVENT_ATTACH, /* pid was attached because its file is watched */
};

struct engine_event {
	enum engine_event_kind kind;
	pid_t pid;
	pid_t parent;
	uint32_t instance_id;
	uint64_t exe_dev;
	uint64_t exe_ino;
	int exit_code;
};

struct engine_options {
	struct probes_options probes;
	bool is_measured;     /* source and rules of `probes` are those of an earlier engine */
	struct trapcost cost; /* of one, too; all zero: not known */
	struct pipeline_options pipeline;
	size_t ring_bytes;    /* 0: default */
	bool lazy_ring;       /* its memory is only held while there are processes or gates */
	uint64_t walk_min_ns; /* between two looks for calls that hang; 0: default */
	size_t max_window;    /* 0: default */
	bool kernel_stacks;
	bool follow_forks;
	bool without_end;  /* no endpoint will have an end function */
	bool without_uret; /* nor end by a uretprobe */
	/* Not both: none will have an expression; each endpoint is entered as those with one are. */
	bool without_names;
	bool without_nameless;
	/* Of the processes' CPU time, in millionths: functions are probed in turns. 0: always. */
	uint32_t max_overhead_ppm;
	bool count_threads; /* for engine_n_threads() */
	bool end_sleeps;    /* some endpoint reads memory when a call ends: see kern.h */
	void (*on_event)(void *ctx, const struct engine_event *event); /* may be NULL */
	/* Every record as it came, after the pipeline has used it: for the capture file. May be NULL. */
	void (*on_record)(void *ctx, const void *record, size_t bytes);
	void *ctx;
};

/* Loads the BPF programs. The message says which capability or kernel feature is missing. */
int engine_new(struct engine **ret, const struct engine_options *options, struct errmsg *e);
/* Detaches everything. */
struct engine *engine_free(struct engine *e);

/* Its options, with what was found out about this kernel. Borrowed. */
const struct probes_options *engine_measured(const struct engine *e);

/* What a probe that is met costs its program; measured the first time that it is asked for. */
const struct trapcost *engine_trapcost(struct engine *e);

/* take_ep is consumed on success. Slots are 0, 1, ... and are attached in processes added later. */
int engine_add_endpoint(struct engine *e, struct endpoint *take_ep, uint32_t *ret_ep_id);
const struct endpoint *engine_endpoint(const struct engine *e, uint32_t ep_id);

/*
 * Attaches all endpoints in a running process and makes it a member of the instance.
 * -ESRCH, -EPERM, -ENOEXEC (32-bit, other architecture), -ENOENT (no endpoint is there); a second
 * call for the same process is harmless and looks for endpoints that were not there the first time.
 */
int engine_add_process(struct engine *e, pid_t pid, uint32_t instance_id, struct errmsg *msg);
/*
 * The same for a program that has just begun, which maps more files as it runs: when it has none of the
 * endpoints, but one of them is in a file that it has not mapped, that one is attached when it is there.
 * Then ret_awaits is true and msg says what is missing. Of one that is not attached exec is told, too.
 */
int engine_add_command(struct engine *e, pid_t pid, uint32_t instance_id, bool *ret_awaits,
		       struct errmsg *msg);
/* From now on the caller adds this process again after each exec, and holds it until then. 0: none. */
void engine_hold(struct engine *e, pid_t pid);
/*
 * The process and those of its descendants that run the same program. Forks should be followed, so
 * that no worker is missed in between.
 */
int engine_add_instance(struct engine *e, pid_t pid, uint32_t instance_id, struct errmsg *msg);
/* Stops looking at the process; its open spans are closed by the kernel side. */
void engine_remove_process(struct engine *e, pid_t pid);
/*
 * All processes that run the file: those there now (ret_n: how many were attached) and those that
 * call exec later. fd: the open file, borrowed during the call; path: for messages.
 */
int engine_watch_exe(struct engine *e, int fd, const char *path, uint32_t instance_id,
		     size_t *ret_n, struct errmsg *msg);
size_t engine_n_processes(const struct engine *e);
pid_t engine_process(const struct engine *e, size_t i);
/* Which endpoints are looked for in the processes of an instance that are added from now on. */
struct limits *engine_limits(struct engine *e);

/* Opens or changes a gate, which is enabled; ticks run at the smallest period of all open gates. */
int engine_set_gate(struct engine *e, uint32_t ep_id, uint32_t instance_id,
		    const struct wire_gate *gate, struct errmsg *msg);
/* The gate with its n_started and n_active; -ENOENT. */
int engine_get_gate(struct engine *e, uint32_t ep_id, uint32_t instance_id, struct wire_gate *ret);
void engine_clear_gate(struct engine *e, uint32_t ep_id, uint32_t instance_id);

/* For poll(2): readable when there are records. Dispatch at least every 100 ms besides. */
int engine_fd(const struct engine *e);
int engine_dispatch(struct engine *e, uint64_t now_ns);

/* Closes the gates, reads what is left in the ring, closes open spans as unfinished. */
int engine_finish(struct engine *e, uint64_t now_ns);
/*
 * After the last record and counter: takes off all probes and gives back what the kernel holds. Of the
 * engine only the pipeline can be used then, and of that only the profile and pipeline_symbolize().
 */
void engine_stop(struct engine *e);

int engine_latency(struct engine *e, uint32_t ep_id, struct latency *ret);
/* The threads by which it was called; of an engine that has removed no endpoint. */
int engine_n_threads(struct engine *e, uint32_t ep_id, uint64_t *ret);
/* BPF counters and user-space counters together. */
int engine_counters(struct engine *e, struct counters *ret);
/* Of an engine with max_overhead_ppm: what came of it. */
void engine_turns(const struct engine *e, uint64_t now_ns, struct profile_turns *ret);
/* Run time of the BPF programs, while it is counted: see bpftime.h. */
int engine_runtime(const struct engine *e, struct bpftime *ret);
struct pipeline *engine_pipeline(struct engine *e);
struct probes *engine_probes(struct engine *e);

#endif
