/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aside.h: BPF programs that the kernel checks side by side, on as many CPUs as there are.
 *
 * The verifier takes tens of milliseconds for one of our programs, and libbpf loads one after the other. While
 * a `struct aside` is open, libbpf's loading of a perf event's or a uprobe's program only starts a thread that
 * loads it; in the object is a program that does nothing meanwhile. aside_close waits for the threads and
 * gives each program's descriptor the loaded one. Programs for which libbpf must look up what they attach to (tp_btf,
 * iter) are loaded by itself.
 *
 * Changes how libbpf loads programs in this process: one at a time may be open, in one thread.
 */
#ifndef SPANPROF_PIPE_ASIDE_H
#define SPANPROF_PIPE_ASIDE_H

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <pthread.h>
#include <stddef.h>

enum { ASIDE_MAX = 8 }; /* programs; more of them are loaded by libbpf as ever */

struct aside_program {
	struct bpf_program *program; /* borrowed */
	struct bpf_prog_load_opts opts;
	enum bpf_prog_type type;
	struct bpf_insn *insns; /* owned */
	size_t n_insns;
	pthread_t thread;
	int result; /* a descriptor, or negative errno */
};

struct aside {
	const char *license; /* borrowed */
	size_t n;
	struct aside_program at[ASIDE_MAX];
};

/* To be called before libbpf opens the object. Changes nothing yet. 0 or negative errno. */
int aside_prepare(void);
/* From here to aside_close the object is loaded; license: of its programs, outlives a. */
void aside_open(struct aside *a, const char *license);
/*
 * r: what libbpf's loading of the object came to. Returns it if that is an error, else 0 or negative errno
 * of the first program that the kernel refused; log then has the verifier's words.
 */
int aside_close(struct aside *a, int r, char *log, size_t log_bytes);

#endif
