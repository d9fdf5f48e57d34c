/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_unwind_live.c: walks the stacks of real programs, instruction by instruction, and compares
 * every frame with what elfutils' own unwinder says of the stopped process.
 */
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "code/space.h"
#include "tests/unit/unit.h"
#include "tests/unit/userregs.h"

enum { STACK_BYTES_MAX = 1 << 20 };

struct target {
	pid_t pid;
	struct space_cache *cache;
	struct space *space;
	Dwfl *dwfl;
	struct unwind_stack *ours;
	struct unwind_stack *theirs;
	uint8_t *window;
	struct wire_regs regs;
	struct counters counters;
	uint64_t outer[3]; /* PCs of the outermost frames at the breakpoint */
	size_t n_compared;
	size_t n_longer; /* walks that elfutils gave up and we did not */
};

static const char *const flag_sets[] = {"O0",         "O2",     "O2_fp",      "Os_cet",
					"O3_pie_now", "static", "debug_frame"};

static int no_debuginfo(Dwfl_Module *m, void **userdata, const char *name, Dwarf_Addr base,
			const char *file, const char *link, GElf_Word crc, char **ret)
{
	return -1;
}

static void start_dwfl(struct target *t)
{
	static const Dwfl_Callbacks callbacks = {
		.find_elf = dwfl_linux_proc_find_elf,
		.find_debuginfo = no_debuginfo,
	};

	dwfl_end(t->dwfl);
	t->dwfl = dwfl_begin(&callbacks);
	assert_non_null(t->dwfl);
	assert_int_equal(dwfl_linux_proc_report(t->dwfl, t->pid), 0);
	assert_int_equal(dwfl_report_end(t->dwfl, NULL, NULL), 0);
	assert_int_equal(dwfl_linux_proc_attach(t->dwfl, t->pid, true), 0);
}

static void wait_stop(struct target *t, int want_signal)
{
	int status;

	assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(WSTOPSIG(status), want_signal);
}

/* Runs the target up to its breakpoint; a signal in between is delivered. */
static void run_to_breakpoint(struct target *t)
{
	int status, signal_nr = 0;

	do {
		assert_int_equal(ptrace(PTRACE_CONT, t->pid, NULL, (void *)(long)signal_nr), 0);
		assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
		assert_true(WIFSTOPPED(status));
		signal_nr = WSTOPSIG(status);
	} while (signal_nr != SIGTRAP);
}

static void target_start(struct target *t, const char *flags, const char *what, const char *n)
{
	char path[512];

	*t = (struct target){};
	snprintf(path, sizeof(path), "%s/unwind_target_%s", getenv("UNWIND_TARGETS"), flags);
	t->pid = fork();
	assert_true(t->pid >= 0);
	if (!t->pid) {
		char *const argv[] = {path, (char *)what, (char *)n, NULL};
		char *const envp[] = {NULL};

		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execve(path, argv, envp);
		_exit(127);
	}
	wait_stop(t, SIGTRAP);
	ptrace(PTRACE_SETOPTIONS, t->pid, NULL, (void *)PTRACE_O_EXITKILL);
	run_to_breakpoint(t);
	assert_int_equal(space_cache_new(&t->cache), 0);
	assert_int_equal(space_new(&t->space, t->cache, t->pid), 0);
	t->ours = calloc(1, sizeof(*t->ours));
	t->theirs = calloc(1, sizeof(*t->theirs));
	t->window = malloc(STACK_BYTES_MAX);
	start_dwfl(t);
}

static void target_stop(struct target *t)
{
	int status;

	kill(t->pid, SIGKILL);
	waitpid(t->pid, &status, 0);
	dwfl_end(t->dwfl);
	space_free(t->space);
	space_cache_free(t->cache);
	free(t->ours);
	free(t->theirs);
	free(t->window);
}

/* As much of the stack as there is, page by page up to its end. */
static size_t read_window(struct target *t, uint64_t start)
{
	size_t n = 0;

	while (n < STACK_BYTES_MAX) {
		size_t want = 4096 - (start + n) % 4096;
		struct iovec to = {t->window + n, want}, from = {(void *)(start + n), want};

		if (n + want > STACK_BYTES_MAX)
			break;
		if (process_vm_readv(t->pid, &to, 1, &from, 1, 0) <= 0) {
			/* The red zone may begin below the page to which the stack has grown. */
			if (n)
				break;
			memset(t->window, 0, want);
		}
		n += want;
	}
	return n;
}

static void unwind_ours(struct target *t, const struct wire_snap_span *spans, size_t n_spans)
{
	struct unwind_input in = {
		.regs = &t->regs, .window = t->window, .spans = spans, .n_spans = n_spans};

	assert_true(userregs_read(t->pid, &t->regs));
	in.window_start = t->regs.r[WIRE_REG_RSP] - WIRE_REDZONE;
	in.window_bytes = read_window(t, in.window_start);
	space_unwind(t->space, &in, 1, t->ours, &t->counters);
}

static int take_frame(Dwfl_Frame *frame, void *ctx)
{
	struct target *t = ctx;
	struct unwind_frame *f = &t->theirs->frames[t->theirs->n];
	bool exact = false;

	if (t->theirs->n == UNWIND_DEPTH_MAX || !dwfl_frame_pc(frame, &f->pc, &exact))
		return DWARF_CB_ABORT;
	f->flags = exact ? UNWIND_F_EXACT : 0;
	t->theirs->n++;
	return DWARF_CB_OK;
}

/*
 * elfutils 0.188 takes RBX for lost where nothing is said about it, and so gives up in the dynamic
 * linker's trampoline. A longer walk must end in the same frames as the one at the breakpoint.
 */
static void check_longer(struct target *t)
{
	size_t n = t->ours->n;

	assert_int_equal(t->ours->stop, STACK_STOP_PAST);
	for (size_t i = 0; i < ARRAY_SIZE(t->outer); i++)
		assert_int_equal(t->ours->frames[n - 1 - i].pc, t->outer[i]);
	t->n_longer++;
}

static void compare_frames(struct target *t)
{
	unwind_ours(t, NULL, 0);
	t->theirs->n = 0;
	dwfl_getthread_frames(t->dwfl, t->pid, take_frame, t);
	for (size_t i = 0; i < t->ours->n && i < t->theirs->n; i++) {
		assert_int_equal(t->ours->frames[i].pc, t->theirs->frames[i].pc);
		assert_int_equal(t->ours->frames[i].flags & UNWIND_F_EXACT,
				 t->theirs->frames[i].flags);
	}
	if (t->ours->n > t->theirs->n)
		check_longer(t);
	else
		assert_int_equal(t->ours->n, t->theirs->n);
	t->n_compared += t->ours->n;
}

/* One instruction; false when the program has ended. */
static bool step(struct target *t)
{
	int status;

	assert_int_equal(ptrace(PTRACE_SINGLESTEP, t->pid, NULL, NULL), 0);
	assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
	return WIFSTOPPED(status);
}

/*
 * Compares at the breakpoint and after each of n_steps instructions. Returns how many walks were
 * longer than elfutils'.
 */
static size_t compare_steps(const char *what, const char *arg, unsigned int n_steps,
			    size_t min_depth)
{
	size_t n_longer = 0;

	for (size_t i = 0; i < ARRAY_SIZE(flag_sets); i++) {
		struct target t;

		target_start(&t, flag_sets[i], what, arg);
		compare_frames(&t);
		assert_true(t.ours->n >= min_depth && t.ours->n >= ARRAY_SIZE(t.outer));
		for (size_t k = 0; k < ARRAY_SIZE(t.outer); k++)
			t.outer[k] = t.ours->frames[t.ours->n - 1 - k].pc;
		for (unsigned int k = 0; k < n_steps && step(&t); k++)
			compare_frames(&t);
		n_longer += t.n_longer;
		target_stop(&t);
	}
	return n_longer;
}

static void test_plt(void **state)
{
	assert_true(compare_steps("plt", "", 1200, 3) < 4 * 1200);
}

static void test_qsort(void **state)
{
	assert_int_equal(compare_steps("qsort", "", 150, 5), 0);
}

static void test_signal(void **state)
{
	assert_int_equal(compare_steps("signal", "", 60, 6), 0);
}

static void test_vdso(void **state)
{
	assert_int_equal(compare_steps("vdso", "", 120, 3), 0);
}

static void test_odd_frames(void **state)
{
	assert_int_equal(compare_steps("odd", "100", 120, 6), 0);
}

static void test_deep(void **state)
{
	assert_int_equal(compare_steps("deep", "1500", 30, 1500), 0);
}

/* The signal stack is outside the window: a named stop, and all frames up to there. */
static void test_alternate_stack(void **state)
{
	struct target t;
	struct wire_snap_span span;

	target_start(&t, "O2", "altstack", "");
	unwind_ours(&t, NULL, 0);
	assert_true(t.ours->n >= 2);
	/* The window of a span that began on the normal stack never reaches this one. */
	span = (struct wire_snap_span){.entry_sp = INT64_MAX};
	unwind_ours(&t, &span, 1);
	assert_int_equal(t.ours->stop, STACK_STOP_RANGE);
	target_stop(&t);
}

/* The walk ends in the frame of the span, at every depth; inner spans are told as well. */
static void test_spans(void **state)
{
	struct target t;

	target_start(&t, "O2", "deep", "50");
	unwind_ours(&t, NULL, 0);
	for (size_t i = 0; i + 1 < 50; i++) {
		struct wire_snap_span spans[2] = {
			{.entry_sp = t.ours->frames[i + 1].cfa - 8},
			{.entry_sp = t.ours->frames[i].cfa - 8},
		};

		unwind_ours(&t, spans, 2);
		assert_int_equal(t.ours->stop, STACK_STOP_ENDPOINT);
		assert_int_equal(t.ours->n, i + 2);
		assert_int_equal(t.ours->span_depth[0], i + 2);
		assert_int_equal(t.ours->span_depth[1], i + 1);
		unwind_ours(&t, NULL, 0);
	}
	target_stop(&t);
}

/* Code without rules: by frame pointer, and said so; the C library's frames are not. */
static void test_without_cfi(void **state)
{
	struct target t;
	size_t n_fp = 0;

	target_start(&t, "no_cfi", "deep", "20");
	unwind_ours(&t, NULL, 0);
	assert_int_equal(t.ours->stop, STACK_STOP_PAST);
	for (size_t i = 0; i < t.ours->n; i++)
		n_fp += t.ours->frames[i].flags & UNWIND_F_FP;
	assert_int_equal(n_fp, 22); /* deep 21 times, main */
	assert_true(t.ours->n > n_fp);
	assert_int_equal(t.counters.v[COUNTER_UNWIND_FP], 1);
	target_stop(&t);
}

/* What was opened stays usable when the process is gone. */
static void test_after_exit(void **state)
{
	struct target t;
	size_t n;
	int status;

	target_start(&t, "O2", "deep", "20");
	unwind_ours(&t, NULL, 0);
	n = t.ours->n;
	kill(t.pid, SIGKILL);
	waitpid(t.pid, &status, 0);
	assert_int_equal(space_refresh(t.space), -ESRCH);
	space_unwind(t.space,
		     &(struct unwind_input){.regs = &t.regs,
					    .window = t.window,
					    .window_bytes = STACK_BYTES_MAX,
					    .window_start = t.regs.r[WIRE_REG_RSP] - WIRE_REDZONE},
		     2, t.ours, &t.counters);
	assert_int_equal(t.ours->n, n);
	target_stop(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plt),
		cmocka_unit_test(test_qsort),
		cmocka_unit_test(test_signal),
		cmocka_unit_test(test_vdso),
		cmocka_unit_test(test_odd_frames),
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_alternate_stack),
		cmocka_unit_test(test_spans),
		cmocka_unit_test(test_without_cfi),
		cmocka_unit_test(test_after_exit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
