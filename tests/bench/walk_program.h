/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk_program.h: the peer of a snapshot: a BPF program that does nothing but bpf_get_stack's walk of the
 * frame pointers into a per-CPU buffer; and the run time of programs, as the kernel counts it.
 */
#ifndef SPANPROF_BENCH_WALK_PROGRAM_H
#define SPANPROF_BENCH_WALK_PROGRAM_H

#include <stdint.h>

/* Room for 127 frames, as much as a peer would keep. */
enum { WALK_STACK_BYTES = 127 * 8, WALK_MAP_BYTES = 1024 };

struct run_time {
	uint64_t ns;
	uint64_t n;
};

/* For perf events; a descriptor, or a negative errno. map_fd: a per-CPU array of WALK_MAP_BYTES. */
int walk_program_load(int map_fd);
/* A descriptor of the program of that name that this process has loaded; -1: none. */
int program_find(const char *name);
/* Since it was loaded, while kernel.bpf_stats_enabled or bpf_enable_stats was on. */
struct run_time program_run_time(int prog_fd);

#endif
