/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_fastcall: what a fast call of a probed function costs its program, in ns a call.
 *
 * The same call site and function, one after the other and in turns: without probes, with a pair
 * of empty programs, with spanprof's pair (clock, state of the span, histogram), also with an open
 * gate, with a name, and with bpftrace's equivalent where it is installed. Then what a process pays
 * that is not profiled, while its file is: beside the bare entry probe with an empty program. Medians,
 * for both kinds of uprobes; needs root.
 */
#include <bpf/bpf.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "probe/multi.h"
#include "tests/bpf/rig.h"
#include "tests/unit/unit.h"

enum { CALLS = 20000, ROUNDS = 21 };

long fast_call(void *arg);

/* A function that starts with push, as most do; exported, so that bpftrace finds it. */
__asm__(".text\n"
	".globl fast_call\n"
	".type fast_call, @function\n"
	"fast_call:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	pop %rbp\n"
	"	ret\n"
	".size fast_call, . - fast_call\n");

/* CPU time, so that other load on the machine disturbs little. */
static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static double round_ns(void)
{
	uint64_t start = cpu_ns();

	for (int i = 0; i < CALLS; i++)
		rig_call(fast_call, "GET /orders/7");
	return (double)(cpu_ns() - start) / CALLS;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), compare);
	return v[n / 2];
}

static int empty_program(const struct attach_source *source)
{
	/* r0 = 0; exit */
	const struct bpf_insn insns[] = {{.code = 0xb7}, {.code = 0x95}};
	LIBBPF_OPTS(bpf_prog_load_opts, opts,
		    .expected_attach_type =
			    source->multi ? (enum bpf_attach_type)MULTI_ATTACH_TYPE : 0);
	int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "empty", "GPL", insns, 2, &opts);

	if (fd < 0)
		fail_msg("cannot load an empty program");
	return fd;
}

static double with_empty(bool site)
{
	struct rig rig = {};
	AUTO_CLOSE int fd = -1;
	double ns;

	if (attach_source_read(&rig.source, NULL))
		fail_msg("no uprobes of this kind");
	fd = empty_program(&rig.source);
	rig_attach(&rig, fd, (const void *)(uintptr_t)fast_call, 0);
	if (site)
		rig_attach(&rig, fd, rig_site, 0);
	ns = round_ns();
	rig_close(&rig);
	return ns;
}

/* This process is no member: what one pays that has nothing to do with the profile. */
static double as_stranger(bool site)
{
	const struct wire_endpoint config = {.flags = 0};
	struct rig rig;
	double ns;

	rig_open(&rig, NULL);
	if (site)
		rig_endpoint(&rig, 0, fast_call, &config);
	else
		rig_attach(&rig, rig.programs.enter_fd, (const void *)(uintptr_t)fast_call, 0);
	kern_member_remove(rig.kern, getpid());
	ns = round_ns();
	assert_int_equal(rig_latency(&rig, 0).n_enter, 0);
	rig_close(&rig);
	return ns;
}

static double with_spanprof(bool gate, bool name)
{
	const struct wire_endpoint config = {
		.flags = name ? WIRE_EP_F_HAS_OPS : 0,
		.n_entry_ops = 2,
		.entry_ops = {{.code = WIRE_OP_REG, .arg = WIRE_REG_RDI},
			      {.code = WIRE_OP_STR, .imm = 64}},
	};
	struct rig rig;
	double ns;

	rig_open(&rig, NULL);
	if (gate)
		rig_gate(&rig, 0, 100000000, 10000000);
	rig_endpoint(&rig, 0, fast_call, &config);
	ns = round_ns();
	assert_int_equal(rig_latency(&rig, 0).n_leave, CALLS);
	rig_close(&rig);
	return ns;
}

/* Runs bpftrace on this process; its pid, or -1. */
static pid_t bpftrace_start(int *ret_out)
{
	char program[512], pid_text[16];
	int out[2];
	pid_t pid;

	snprintf(pid_text, sizeof(pid_text), "%d", getpid());
	snprintf(program, sizeof(program),
		 "BEGIN { printf(\"ready\\n\"); } "
		 "uprobe:/proc/%d/exe:fast_call { @start[tid] = nsecs; } "
		 "uretprobe:/proc/%d/exe:fast_call /@start[tid]/ "
		 "{ @ns = hist(nsecs - @start[tid]); delete(@start[tid]); }",
		 getpid(), getpid());
	if (pipe2(out, O_CLOEXEC))
		return -1;
	pid = fork();
	if (!pid) {
		dup2(out[1], 1);
		dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), 2);
		execlp("bpftrace", "bpftrace", "-p", pid_text, "-e", program, NULL);
		_exit(127);
	}
	close(out[1]);
	*ret_out = out[0];
	return pid;
}

static double with_bpftrace(void)
{
	AUTO_CLOSE int out = -1;
	char line[256];
	double ns = 0;
	pid_t pid = bpftrace_start(&out);
	struct pollfd poll_out = {.fd = out, .events = POLLIN};
	ssize_t n = 0;

	if (pid < 0)
		return 0;
	for (int i = 0; i < 3 && !(n > 0 && memmem(line, (size_t)n, "ready", 5)); i++) {
		if (poll(&poll_out, 1, 20000) == 1)
			n = read(out, line, sizeof(line));
	}
	if (n > 0) {
		rig_sleep(500000000); /* it says ready a little before it is attached */
		ns = round_ns();
	}
	kill(pid, SIGINT);
	while (read(out, line, sizeof(line)) > 0)
		;
	waitpid(pid, NULL, 0);
	return ns;
}

static double median_of(const double *v)
{
	double copy[ROUNDS];

	memcpy(copy, v, sizeof(copy));
	return median(copy, ROUNDS);
}

/* The median of what each round says: its measurements are close in time, so that noise meets both. */
static double ratio(const double *v, const double *to)
{
	double each[ROUNDS];

	for (int i = 0; i < ROUNDS; i++)
		each[i] = v[i] / to[i];
	return median(each, ROUNDS);
}

/* The same for what one of the two traps adds: v less w, beside to less base. */
static double trap_ratio(const double *v, const double *w, const double *to, const double *base)
{
	double each[ROUNDS];

	for (int i = 0; i < ROUNDS; i++)
		each[i] = (v[i] - w[i]) / (to[i] - base[i]);
	return median(each, ROUNDS);
}

enum way { BARE, EMPTY, IDLE, GATE, NAME, EMPTY_ENTRY, STRANGER_ENTRY, STRANGER, WAYS };

static void measure(const char *kind)
{
	static const char *const names[WAYS] = {
		[BARE] = "no probes",
		[EMPTY] = "empty programs",
		[IDLE] = "spanprof, no gate",
		[GATE] = "spanprof, gate open",
		[NAME] = "spanprof, gate open, name str(arg0)",
		[EMPTY_ENTRY] = "empty program, entry only",
		[STRANGER_ENTRY] = "not profiled, entry probe of its file",
		[STRANGER] = "not profiled, entry and return site",
	};
	double v[WAYS][ROUNDS], m[WAYS], trace;

	setenv("SPANPROF_UPROBES", kind, 1);
	printf("uprobes: %s\n", kind);
	for (int i = 0; i < ROUNDS; i++) {
		v[BARE][i] = round_ns();
		v[EMPTY][i] = with_empty(true);
		v[IDLE][i] = with_spanprof(false, false);
		v[GATE][i] = with_spanprof(true, false);
		v[NAME][i] = with_spanprof(true, true);
		v[EMPTY_ENTRY][i] = with_empty(false);
		v[STRANGER_ENTRY][i] = as_stranger(false);
		v[STRANGER][i] = as_stranger(true);
	}
	for (int way = 0; way < WAYS; way++)
		m[way] = median_of(v[way]);
	for (int way = 0; way < WAYS; way++)
		printf("%-36s %8.1f ns a call  %5.2f x empty\n", names[way], m[way],
		       ratio(v[way], v[EMPTY]));
	printf("ratio spanprof (gate open) / empty: %.2f, target 1.30\n", ratio(v[GATE], v[EMPTY]));
	printf("ratio not profiled (entry) / bare entry probe: %.2f, target 1.00; with the return site: %.2f\n",
	       ratio(v[STRANGER_ENTRY], v[EMPTY_ENTRY]), ratio(v[STRANGER], v[EMPTY_ENTRY]));
	printf("one trap of a process that is not profiled / that of a bare entry probe: entry %.2f, return site %.2f\n",
	       trap_ratio(v[STRANGER_ENTRY], v[BARE], v[EMPTY_ENTRY], v[BARE]),
	       trap_ratio(v[STRANGER], v[STRANGER_ENTRY], v[EMPTY_ENTRY], v[BARE]));
	if (strcmp(kind, "perf") != 0)
		return;
	trace = with_bpftrace();
	if (trace > 0)
		printf("%-36s %8.1f ns a call  %5.2f x empty\n",
		       "bpftrace, uprobe + uretprobe, hist", trace, trace / m[EMPTY]);
	else
		printf("bpftrace is not installed\n");
}

static void links(void **state)
{
	struct attach_source source;

	setenv("SPANPROF_UPROBES", "link", 1);
	if (attach_source_read(&source, NULL)) {
		print_message("this kernel has no uprobe_multi links\n");
		skip();
	}
	measure("link");
}

static void perf_events(void **state)
{
	measure("perf");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(links), cmocka_unit_test(perf_events)};

	return cmocka_run_group_tests_name("fastcall", tests, NULL, NULL);
}
