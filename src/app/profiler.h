/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profiler.h: the engine as the daemon uses it: what is attached and sampled follows the schedule.
 *
 * Processes are attached only while a task runs on their instance, gates are open only for the
 * endpoints such tasks mean. profiler_sync brings the engine to that state from whatever it is in;
 * it is called after everything that may change it. The engine is made anew when its tables have
 * grown or its slots are used up and nothing runs.
 */
#ifndef SPANPROF_APP_PROFILER_H
#define SPANPROF_APP_PROFILER_H

#include "base/errmsg.h"
#include "pipe/engine.h"
#include "task/budget.h"
#include "task/gate.h"
#include "task/instances.h"
#include "task/rules.h"
#include "task/schedule.h"

struct profiler;

struct profiler_options {
	const struct instances *instances; /* borrowed, as all below */
	struct schedule *schedule;
	const struct budget *budget;
	size_t max_snapshots;      /* of one span; 0: default */
	uint64_t debug_max_bytes;  /* memory for debug information */
	uint32_t max_overhead_ppm; /* until the rules say another one; 0: no limit */
	/* A file whose debug information does not fit is used without; the same file may be told again. */
	void (*on_debug_left_out)(void *ctx, const char *path);
	/* A span has ended; ep: what its endpoint is called. The spans are dropped afterwards. */
	void (*on_span)(void *ctx, struct profile *profile, uint32_t span,
			const struct gate_endpoint *ep);
	/* A process that is attached forked, called exec, or is gone. The table may not change now. */
	void (*on_process)(void *ctx, const struct engine_event *event);
	void *ctx;
};

struct profiler_stats {
	size_t n_processes; /* attached */
	size_t n_gates;
	size_t n_open_spans;
	size_t profile_bytes;
	uint64_t n_attach_failed;
	struct bpftime bpf; /* run time of the programs so far, while it is counted */
	uint64_t n_renewed; /* times that the engine was made anew */
	uint64_t
		probed_ns; /* while there is a limit of the overhead: functions were probed for so long, */
	uint64_t n_turns; /* in so many turns */
};

/* Loads the BPF programs. */
int profiler_new(struct profiler **ret, const struct profiler_options *options, struct errmsg *e);
struct profiler *profiler_free(struct profiler *p);

/*
 * Endpoints of the services, before instances are told of the new rules. The rules are borrowed until
 * the next call. A specification that is not understood, or a preset that is not known: -EINVAL, and
 * the old rules stay. Instances whose endpoints changed are attached anew.
 */
int profiler_set_rules(struct profiler *p, const struct rules *rules, struct errmsg *e);
/* Only checks the endpoints; needs no privileges. ret_n: endpoints in all. */
int profiler_check_rules(const struct rules *rules, size_t *ret_n, struct errmsg *e);

/* Some endpoint of the rules may give spans that a local task of this service and endpoint takes. */
bool profiler_knows_endpoint(const struct profiler *p, const struct task *t, struct errmsg *e);

bool profiler_is_attached(const struct profiler *p, pid_t pid);
/* The process is gone, runs another program, or belongs elsewhere now. */
void profiler_forget_process(struct profiler *p, pid_t pid);

void profiler_sync(struct profiler *p, uint64_t now_ns);
/* Some process of a running task is not attached: a later profiler_sync may succeed. */
bool profiler_is_incomplete(const struct profiler *p);

/* The descriptor is another one, maybe of the same number, when the generation changes. */
int profiler_fd(const struct profiler *p);
uint64_t profiler_generation(const struct profiler *p);
/* When profiler_dispatch wants to be called although its descriptor is silent; UINT64_MAX: never. */
uint64_t profiler_deadline(const struct profiler *p);
int profiler_dispatch(struct profiler *p, uint64_t now_ns);

/*
 * The wall clock may be set, and it goes on while the machine sleeps: spans that end from now on get their
 * times of day by this pair of readings.
 */
void profiler_follow_clock(struct profiler *p, uint64_t mono_ns, uint64_t real_ns);

/*
 * To be called each second: what is too much of what the probes cost the processes while there is no limit,
 * told once while tasks run; NULL: nothing to tell.
 */
const char *profiler_costly(struct profiler *p, uint64_t now_ns);

int profiler_counters(const struct profiler *p, struct counters *ret);
void profiler_stats(const struct profiler *p, struct profiler_stats *ret);
/* Latency of endpoint number idx of the rules; -ENOENT at the end, -EAGAIN: never attached. */
int profiler_latency(const struct profiler *p, size_t idx, const char **ret_service,
		     const char **ret_endpoint, struct latency *ret);
/* Renews the engine when its tables exceed max_bytes; running tasks lose the spans that are open. */
void profiler_keep_small(struct profiler *p, size_t max_bytes, uint64_t now_ns);

#endif
