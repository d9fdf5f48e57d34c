/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_fastcall: what a fast call of a probed function costs its program, in ns a call.
 *
 * The same call site and function, one after the other and in turns: without probes, with a pair
 * of empty programs, with spanprof's pair (clock, state of the span, histogram), also with an open
 * gate, with a name, and with bpftrace's equivalent where it is installed. Then what a process pays
 * that is not profiled, while its file is: beside the bare entry probe with an empty program. Medians,
 * for both kinds of uprobes; needs root.
 *
 * Then the same pairs where caches are cold, as in a server that has done something else since the last
 * call: before the call and inside of it this process and another run through code and data of their own,
 * which drives all else out; only the two ends of the call are timed. How much of both: see colds.
 */
#include <bpf/bpf.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "probe/multi.h"
#include "tests/bpf/rig.h"
#include "tests/unit/unit.h"

enum { CALLS = 20000, ROUNDS = 21, COLD_CALLS = 400, COLD_ROUNDS = 9 };

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

/* What is probed, and how a round of calls of it is measured. */
struct target {
	long (*fn)(void *arg);
	double (*round_ns)(void);
	uint64_t calls;
};

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

static const struct target fast = {fast_call, round_ns, CALLS};

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

static double with_empty(const struct target *to, bool site)
{
	struct rig rig = {};
	AUTO_CLOSE int fd = -1;
	double ns;

	if (attach_source_read(&rig.source, NULL))
		fail_msg("no uprobes of this kind");
	fd = empty_program(&rig.source);
	rig_attach(&rig, fd, (const void *)(uintptr_t)to->fn, 0);
	if (site)
		rig_attach(&rig, fd, rig_site, 0);
	ns = to->round_ns();
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

static double with_spanprof(const struct target *to, bool gate, bool name)
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
	rig_endpoint(&rig, 0, to->fn, &config);
	ns = to->round_ns();
	assert_int_equal(rig_latency(&rig, 0).n_leave, to->calls);
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
		v[EMPTY][i] = with_empty(&fast, true);
		v[IDLE][i] = with_spanprof(&fast, false, false);
		v[GATE][i] = with_spanprof(&fast, true, false);
		v[NAME][i] = with_spanprof(&fast, true, true);
		v[EMPTY_ENTRY][i] = with_empty(&fast, false);
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

enum { LINE = 64, DATA_MAX = 1 << 20, CODE_MAX = 1 << 19 };

/* Bytes of data and code that are run through twice in between, here and in the other process. */
static const struct {
	const char *name;
	size_t data, code;
} colds[] = {
	{"cold caches: 512 KiB of data and 256 KiB of code between two ends", 1 << 19, 1 << 18},
	{"cold caches: 1 MiB of data and 512 KiB of code", DATA_MAX, CODE_MAX},
};

struct chiller {
	uint8_t *data, *code;
	size_t data_bytes, code_bytes;
	int to_peer[2], from_peer[2];
	double ns_per_tick;
	uint64_t at_entry, at_end;
};
static struct chiller chiller;

/* A chain of jumps, one in each line. */
static void code_write(struct chiller *c)
{
	static const uint8_t jump[] = {0xeb, LINE - 2}, ret = 0xc3;

	for (size_t off = 0; off < c->code_bytes - LINE; off += LINE)
		memcpy(c->code + off, jump, sizeof(jump));
	c->code[c->code_bytes - LINE] = ret;
}

static void run_through(struct chiller *c)
{
	size_t lines = c->data_bytes / LINE;

	for (size_t i = 0; i < lines; i++)
		c->data[i * 7 % lines * LINE]++;
	((void (*)(void))(uintptr_t)c->code)();
}

static void chill(struct chiller *c)
{
	char byte = 0;

	run_through(c);
	assert_int_equal(write(c->to_peer[1], &byte, 1), 1);
	assert_int_equal(read(c->from_peer[0], &byte, 1), 1);
}

static pid_t peer_start(struct chiller *c)
{
	pid_t pid;
	char byte;

	assert_int_equal(pipe2(c->to_peer, O_CLOEXEC), 0);
	assert_int_equal(pipe2(c->from_peer, O_CLOEXEC), 0);
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(c->to_peer[0], &byte, 1) == 1) {
		run_through(c);
		if (write(c->from_peer[1], &byte, 1) != 1)
			break;
	}
	_exit(0);
}

static void peer_stop(const struct chiller *c, pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (int i = 0; i < 2; i++) {
		close(c->to_peer[i]);
		close(c->from_peer[i]);
	}
}

static uint64_t ticks(void)
{
	uint64_t t;

	_mm_lfence();
	t = __rdtsc();
	_mm_lfence();
	return t;
}

__attribute__((used)) static void cold_body(void)
{
	chiller.at_entry = ticks();
	chill(&chiller);
	chiller.at_end = ticks();
}

long cold_call(void *arg);

__asm__(".text\n"
	".type cold_call, @function\n"
	"cold_call:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	call cold_body\n"
	"	pop %rbp\n"
	"	ret\n"
	".size cold_call, . - cold_call\n");

static double cold_round_ns(void)
{
	struct chiller *c = &chiller;
	double ns[COLD_CALLS];

	for (int i = 0; i < COLD_CALLS; i++) {
		uint64_t start, end;

		chill(c);
		start = ticks();
		rig_call(cold_call, "GET /orders/7");
		end = ticks();
		ns[i] = (double)(c->at_entry - start + (end - c->at_end)) * c->ns_per_tick;
	}
	return median(ns, COLD_CALLS);
}

static void cold_print(const char *name, const double *v, const double *base)
{
	double ns[COLD_ROUNDS], times[COLD_ROUNDS], more[COLD_ROUNDS];

	for (int i = 0; i < COLD_ROUNDS; i++) {
		ns[i] = v[i];
		times[i] = v[i] / base[i];
		more[i] = v[i] - base[i];
	}
	printf("%-36s %8.1f ns a call  %5.2f x empty  %+8.1f ns\n", name, median(ns, COLD_ROUNDS),
	       median(times, COLD_ROUNDS), median(more, COLD_ROUNDS));
}

static void measure_cold(const char *name)
{
	static const char *const names[] = {"no probes", "empty programs", "spanprof, gate open",
					    "spanprof, gate open, name str(arg0)"};
	static const struct target cold = {cold_call, cold_round_ns, COLD_CALLS};
	double v[ARRAY_SIZE(names)][COLD_ROUNDS];

	for (int i = 0; i < COLD_ROUNDS; i++) {
		v[0][i] = cold_round_ns();
		v[1][i] = with_empty(&cold, true);
		v[2][i] = with_spanprof(&cold, true, false);
		v[3][i] = with_spanprof(&cold, true, true);
	}
	printf("%s\n", name);
	for (size_t way = 0; way < ARRAY_SIZE(names); way++)
		cold_print(names[way], v[way], v[1]);
	fflush(stdout);
}

static void cold_caches(void **state)
{
	struct chiller *c = &chiller;
	uint64_t ns = clock_mono_ns(), t = ticks();
	cpu_set_t one;

	unsetenv("SPANPROF_UPROBES");
	rig_sleep(50000000);
	t = ticks() - t;
	c->ns_per_tick = (double)(clock_mono_ns() - ns) / (double)t;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	c->data = mmap(NULL, DATA_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	c->code = mmap(NULL, CODE_MAX, PROT_READ | PROT_WRITE | PROT_EXEC,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(c->data != MAP_FAILED && c->code != MAP_FAILED);
	for (size_t i = 0; i < ARRAY_SIZE(colds); i++) {
		pid_t peer;

		c->data_bytes = colds[i].data;
		c->code_bytes = colds[i].code;
		code_write(c);
		peer = peer_start(c);
		measure_cold(colds[i].name);
		peer_stop(c, peer);
	}
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

/* An argument is the name of the only test to run, with wildcards. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(links), cmocka_unit_test(perf_events),
					   cmocka_unit_test(cold_caches)};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests_name("fastcall", tests, NULL, NULL);
}
