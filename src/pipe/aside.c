/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aside.c: see aside.h.
 *
 * libbpf knows programs by their sections; ours take the place of its own for those of perf events and
 * uprobes, for good: objects refer to them. `loading` is the struct aside that is open.
 */
#include "pipe/aside.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

static struct aside *loading;

static int load(struct aside_program *p, const char *license)
{
	int fd = bpf_prog_load(p->type, bpf_program__name(p->program), license, p->insns,
			       p->n_insns, &p->opts);

	return fd < 0 ? -errno : fd;
}

static void *load_in_thread(void *program)
{
	struct aside_program *p = program;

	p->result = load(p, loading->license);
	return NULL;
}

/* Signals are for the other threads. */
static int start_thread(struct aside_program *p)
{
	sigset_t all, old;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	error = pthread_create(&p->thread, NULL, load_in_thread, p);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -error;
}

/* What libbpf loads for it: nothing is told of functions and lines that it does not have. */
static int load_nothing_for(struct bpf_program *program, struct bpf_prog_load_opts *opts)
{
	struct bpf_insn nothing[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};

	opts->func_info_cnt = 0;
	opts->line_info_cnt = 0;
	return bpf_program__set_insns(program, nothing, ARRAY_SIZE(nothing));
}

static int set_aside(struct aside *a, struct bpf_program *program, struct bpf_prog_load_opts *opts)
{
	struct aside_program *p = &a->at[a->n];

	*p = (struct aside_program){
		.program = program,
		.type = bpf_program__type(program),
		.n_insns = bpf_program__insn_cnt(program),
		.opts = *opts,
	};
	p->opts.fd_array = NULL; /* of modules' functions, which ours do not call */
	p->insns = calloc(p->n_insns, sizeof(*p->insns));
	if (!p->insns)
		return -ENOMEM;
	memcpy(p->insns, bpf_program__insns(program), p->n_insns * sizeof(*p->insns));
	if (start_thread(p)) {
		free(p->insns);
		return 0; /* no thread: libbpf loads it */
	}
	a->n++;
	return load_nothing_for(program, opts);
}

/* libbpf is about to load a program. */
static int prepare(struct bpf_program *program, struct bpf_prog_load_opts *opts, long flags)
{
	opts->prog_flags |= (__u32)flags;
	return loading && loading->n < ASIDE_MAX ? set_aside(loading, program, opts) : 0;
}

int aside_prepare(void)
{
	static const struct {
		const char *name;
		enum bpf_prog_type type;
		long flags;
	} sections[] = {
		{"uprobe", BPF_PROG_TYPE_KPROBE, 0},
		{"uprobe.s", BPF_PROG_TYPE_KPROBE, BPF_F_SLEEPABLE},
		{"perf_event", BPF_PROG_TYPE_PERF_EVENT, 0},
	};
	static size_t n_taken;

	for (; n_taken < ARRAY_SIZE(sections); n_taken++) {
		LIBBPF_OPTS(libbpf_prog_handler_opts, opts, .cookie = sections[n_taken].flags,
			    .prog_prepare_load_fn = prepare);
		int r = libbpf_register_prog_handler(sections[n_taken].name, sections[n_taken].type,
						     0, &opts);

		if (r < 0)
			return r;
	}
	return 0;
}

void aside_open(struct aside *a, const char *license)
{
	assert(!loading);
	a->license = license;
	a->n = 0;
	loading = a;
}

/* The same descriptor from now on: libbpf knows it as the program's. */
static int take_place(const struct aside_program *p)
{
	return dup3(p->result, bpf_program__fd(p->program), O_CLOEXEC) < 0 ? -errno : 0;
}

/* What was refused is loaded a second time, for the verifier's words; what was lacking may be there now. */
static int finish(struct aside_program *p, const char *license, char *log, size_t log_bytes)
{
	if (p->result < 0) {
		p->opts.log_buf = log;
		p->opts.log_size = (__u32)log_bytes;
		p->opts.log_level = 1;
		p->result = load(p, license);
	}
	return p->result < 0 ? p->result : take_place(p);
}

int aside_close(struct aside *a, int r, char *log, size_t log_bytes)
{
	for (size_t i = 0; i < a->n; i++)
		pthread_join(a->at[i].thread, NULL);
	loading = NULL;
	for (size_t i = 0; i < a->n; i++) {
		struct aside_program *p = &a->at[i];

		if (!r)
			r = finish(p, a->license, log, log_bytes);
		if (p->result >= 0)
			close(p->result);
		free(p->insns);
	}
	a->n = 0;
	return r;
}
