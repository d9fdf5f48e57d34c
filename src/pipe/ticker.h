/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ticker.h: the clock that runs a BPF program on each CPU that is busy: a perf event of the CPU's own.
 * CPUs that come online later have none until it is closed and opened again.
 */
#ifndef SPANPROF_PIPE_TICKER_H
#define SPANPROF_PIPE_TICKER_H

#include <stddef.h>
#include <stdint.h>

#include "base/errmsg.h"

struct bpf_link;
struct bpf_program;

struct ticker {
	struct bpf_program *program; /* borrowed */
	struct bpf_link **links;     /* n_cpus, NULL where there is none */
	int *fds;                    /* borrowed from links */
	size_t n_cpus;
	uint64_t period_ns; /* 0: closed */
};

/* n_cpus: possible ones. 0 or -ENOMEM. */
int ticker_init(struct ticker *t, struct bpf_program *program, size_t n_cpus);
/* Closes it, too. Safe on an all-zero struct. */
void ticker_deinit(struct ticker *t);

/* One more than the highest number of a CPU that is online, n_possible when that is not known. */
size_t ticker_cpus_end(size_t n_possible);
/* The same of a list of CPUs as in sysfs, "0-3,8"; 0: it is none. Pure. */
size_t parse_cpus_end(const char *list);

/* Opens it on every online CPU, or changes its period; 0 closes it. */
int ticker_set(struct ticker *t, uint64_t period_ns, struct errmsg *e);

#endif
