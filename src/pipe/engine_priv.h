/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_priv.h: what the parts of the engine share: engine.c, its life, gates and results;
 * engine_processes.c, the processes that it follows; engine_turns.c, when they are probed.
 */
#ifndef SPANPROF_PIPE_ENGINE_PRIV_H
#define SPANPROF_PIPE_ENGINE_PRIV_H

#include "base/vec.h"
#include "pipe/engine.h"
#include "pipe/gates.h"
#include "pipe/limits.h"
#include "pipe/members.h"
#include "pipe/turns.h"

struct watch {
	struct wire_file_key file;
	uint32_t instance_id;
	/*
	 * Since then the file's probes await its programs; UINT64_MAX: not yet. Read from the clock when
	 * they are in: attaching takes many times as long as it is since the caller's time.
	 */
	uint64_t met_ns;
};

struct engine {
	struct engine_options options;
	struct kern *kern;
	struct probes *probes;
	struct pipeline *pipeline;
	struct members members;
	VEC(struct watch) watches;
	struct gates gates;
	struct limits limits;
	uint32_t next_as_id;
	uint64_t period_ns; /* of the ticks; 0: none */
	uint64_t next_walk_ns;
	uint64_t next_retry_ns;
	size_t next_retry;        /* index into members */
	uint64_t awaits_since_ns; /* a file of the last command; 0: none */
	uint64_t next_untold_ns;
	uint64_t n_untold;     /* records of processes that found no room, at the last look */
	pid_t held;            /* 0: none; see engine_hold() */
	struct turns turns;    /* all-zero: not begun, or always on */
	uint64_t next_turn_ns; /* look at the turns */
	uint64_t cpu_ns;       /* that members were seen to use */
	uint64_t n_snapshots;  /* that came */
	uint64_t switch_ns;    /* that attaching and detaching has cost at most */
	uint64_t dearest_ns;   /* that probing has cost at most, at the last look */
	uint64_t cost_ns;      /* and no more than the CPU time that was used meanwhile */
	bool rests;            /* kern rests */
};

struct counters *engine_user_counters(struct engine *e);

/* Processes that fork, call exec or end, as the kernel tells of them. */
void engine_on_fork(struct engine *e, const struct wire_proc *w);
void engine_on_exec(struct engine *e, const struct wire_proc *w);
void engine_on_exit(struct engine *e, const struct wire_proc *w);

/* A record of the ring, or one of our own: used, and handed on. 0 or negative errno. */
int engine_on_record(void *ctx, const void *data, size_t bytes);

/* Takes the probes off, or puts them back, when it is time. 0 or negative errno. */
int engine_turn(struct engine *e, uint64_t now_ns);

/*
 * Ends processes of which the kernel could not tell that they have, as the ring was full: those that are
 * followed, and those of calls that are open.
 */
int engine_end_untold(struct engine *e, uint64_t now_ns);

/* Looks again for endpoints in one of the processes, when it is time. */
void engine_retry(struct engine *e, uint64_t now_ns);

#endif
