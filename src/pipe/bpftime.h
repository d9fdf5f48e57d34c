/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpftime.h: how long BPF programs have run: the kernel counts it while somebody asked for it, which
 * costs two looks at the clock per run.
 */
#ifndef SPANPROF_PIPE_BPFTIME_H
#define SPANPROF_PIPE_BPFTIME_H

#include <stdint.h>

struct bpf_object;

struct bpftime {
	uint64_t run_ns;
	uint64_t n_runs;
};

/* A descriptor that keeps the kernel counting until it is closed; needs CAP_SYS_ADMIN. Or negative errno. */
int bpftime_enable(void);

/* Adds what the object's program of this name, NULL: all, were counted for. 0 or negative errno. */
int bpftime_add(const struct bpf_object *o, const char *program, struct bpftime *sum);

#endif
