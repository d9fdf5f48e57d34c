/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_unwind.c: what unwinding costs, on windows of a real process.
 *
 * usage: bench_unwind [--samples N] [--compare] PID...
 *        bench_unwind --capture FILE
 * Stops the threads of each process N times for a moment (ptrace), copies registers and the stack,
 * and then walks the copies: with an empty cache, and many times with a warm one. --compare also
 * walks each stopped thread with elfutils' own unwinder and compares frame for frame.
 * --capture takes the windows of a file that "spanprof record" wrote, whose walks end in the
 * endpoint's frame. Prints (in CPU time) frames/s, the cost of a miss, time to open the modules, anonymous memory, and the share of
 * windows that were walked to the outermost frame.
 */
#include <dirent.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/vec.h"
#include "code/space.h"
#include "model/decode.h"
#include "pipe/capture.h"
#include "tests/unit/userregs.h"

enum { WINDOW_MAX = 65536, WARM_PASSES = 200 };

/* One copied window, and what the walk is expected to end in. */
struct window {
	struct wire_regs regs;
	uint8_t *bytes;
	size_t n;
	struct wire_snap_span spans[WIRE_NAMED_MAX];
	size_t n_spans; /* 0: not known, the walk goes to the thread's root */
	uint16_t flags; /* enum wire_snapshot_flag */
	uint32_t holes;
	uint64_t *expected; /* PCs that elfutils found; NULL: not asked */
	size_t n_expected;
};

/* Any source of windows fills one of these: a process here, a capture elsewhere. */
struct window_set {
	VEC(struct window) windows;
	struct space_cache *cache;
	struct space *space;
	uint32_t tgid; /* of a capture */
	uint32_t as_id;
};

/* What a capture holds, one set for each address space. */
struct recording {
	VEC(struct window_set) sets;
};

struct figures {
	uint64_t cold_ns;
	uint64_t warm_ns;
	size_t warm_frames;
	size_t n_frames;
	size_t n_complete;
	size_t n_compared;
	size_t n_equal;
	size_t stops[STACK_STOP_MAX];
};

/* CPU time of this thread: the servers that are looked at keep the CPUs busy. */
static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static void window_set_deinit(struct window_set *set)
{
	for (size_t i = 0; i < set->windows.n; i++) {
		free(set->windows.at[i].bytes);
		free(set->windows.at[i].expected);
	}
	vec_free(&set->windows);
	space_free(set->space);
	space_cache_free(set->cache);
}

static struct unwind_input input_of(const struct window *w)
{
	return (struct unwind_input){
		.regs = &w->regs,
		.window = w->bytes,
		.window_bytes = w->n,
		.window_start = w->regs.r[WIRE_REG_RSP] - WIRE_REDZONE,
		.holes = w->holes,
		.spans = w->spans,
		.n_spans = w->n_spans,
		.snap_flags = w->flags,
	};
}

static bool is_equal(const struct window *w, const struct unwind_stack *s)
{
	if (s->n != w->n_expected)
		return false;
	for (size_t i = 0; i < s->n; i++)
		if (s->frames[i].pc != w->expected[i])
			return false;
	return true;
}

/* A walk without a span is complete when it ends where the thread began. */
static bool is_complete(const struct window *w, const struct unwind_stack *s)
{
	if (s->returned)
		return true; /* there is nothing to walk: see unwind.h */
	return s->stop == (w->n_spans ? STACK_STOP_ENDPOINT : STACK_STOP_PAST);
}

static void bench_windows(struct window_set *set, struct unwind_stack *stack, struct figures *f)
{
	struct counters counters = {};
	uint64_t start = cpu_ns();

	for (size_t i = 0; i < set->windows.n; i++) {
		struct window *w = &set->windows.at[i];
		struct unwind_input in = input_of(w);

		space_unwind(set->space, &in, 1, stack, &counters);
		f->n_frames += stack->n;
		f->stops[stack->stop]++;
		f->n_complete += is_complete(w, stack);
		f->n_compared += w->expected != NULL;
		f->n_equal += w->expected && is_equal(w, stack);
	}
	f->cold_ns += cpu_ns() - start;
	start = cpu_ns();
	for (int pass = 0; pass < WARM_PASSES; pass++) {
		for (size_t i = 0; i < set->windows.n; i++) {
			struct unwind_input in = input_of(&set->windows.at[i]);

			space_unwind(set->space, &in, 1, stack, &counters);
			f->warm_frames += stack->n;
		}
	}
	f->warm_ns += cpu_ns() - start;
}

/* What it costs to find one rule that is not in the cache: every distinct PC of the windows, once. */
static void bench_misses(struct window_set *set, struct unwind_stack *stack)
{
	struct hash seen;
	struct counters counters = {};
	struct cfi_buf b;
	uint64_t spent = 0;

	hash_init(&seen);
	for (size_t i = 0; i < set->windows.n; i++) {
		struct unwind_input in = input_of(&set->windows.at[i]);

		space_unwind(set->space, &in, 1, stack, &counters);
		for (size_t k = 0; k < stack->n; k++) {
			uint64_t pc = stack->frames[k].pc - 1, start, vaddr;
			struct module *m;

			if (hash_get(&seen, pc) || hash_set(&seen, pc, 1) ||
			    !space_resolve(set->space, pc, &m, &vaddr))
				continue;
			start = cpu_ns();
			module_find_cfi(m, vaddr, &b);
			spent += cpu_ns() - start;
		}
	}
	if (seen.n)
		printf("  miss: %zu distinct PCs, %.2f us each\n", seen.n,
		       (double)spent / 1e3 / (double)seen.n);
	hash_deinit(&seen);
}

static size_t read_stack(pid_t tid, uint64_t start, uint8_t *buf, size_t max)
{
	size_t n = 0;

	while (n < max) {
		size_t want = 4096 - (start + n) % 4096;
		struct iovec to = {buf + n, want < max - n ? want : max - n};
		struct iovec from = {(void *)(start + n), to.iov_len};

		if (process_vm_readv(tid, &to, 1, &from, 1, 0) <= 0)
			break;
		n += to.iov_len;
	}
	return n;
}

static int take_frame(Dwfl_Frame *frame, void *ctx)
{
	struct unwind_stack *s = ctx;
	bool exact;

	if (s->n == UNWIND_DEPTH_MAX || !dwfl_frame_pc(frame, &s->frames[s->n].pc, &exact))
		return DWARF_CB_ABORT;
	s->n++;
	return DWARF_CB_OK;
}

static int ask_elfutils(Dwfl *dwfl, pid_t tid, struct unwind_stack *scratch, struct window *w)
{
	scratch->n = 0;
	dwfl_getthread_frames(dwfl, tid, take_frame, scratch);
	w->expected = calloc(scratch->n + 1, sizeof(*w->expected));
	if (!w->expected)
		return -ENOMEM;
	for (size_t i = 0; i < scratch->n; i++)
		w->expected[i] = scratch->frames[i].pc;
	w->n_expected = scratch->n;
	return 0;
}

/* Copies one thread; a thread that cannot be stopped is left out. */
static int copy_thread(struct window_set *set, pid_t tid, Dwfl *dwfl, struct unwind_stack *scratch)
{
	AUTO_FREE uint8_t *bytes = malloc(WINDOW_MAX);
	struct window w = {};
	int status, r = 0;

	if (!bytes)
		return -ENOMEM;
	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL))
		return 0;
	if (!ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) && waitpid(tid, &status, __WALL) == tid &&
	    WIFSTOPPED(status) && userregs_read(tid, &w.regs)) {
		w.n = read_stack(tid, w.regs.r[WIRE_REG_RSP] - WIRE_REDZONE, bytes, WINDOW_MAX);
		if (dwfl)
			r = ask_elfutils(dwfl, tid, scratch, &w);
		w.bytes = realloc(bytes, w.n + 1);
		bytes = NULL;
		if (!r)
			r = vec_push(&set->windows, w);
	}
	ptrace(PTRACE_DETACH, tid, NULL, NULL);
	return r;
}

static int copy_threads(struct window_set *set, pid_t pid, Dwfl *dwfl, struct unwind_stack *scratch)
{
	char path[64];
	struct dirent *d;
	DIR *dir;
	int r = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while (!r && (d = readdir(dir)))
		if (d->d_name[0] != '.')
			r = copy_thread(set, (pid_t)strtol(d->d_name, NULL, 10), dwfl, scratch);
	closedir(dir);
	return r;
}

static int no_debuginfo(Dwfl_Module *m, void **userdata, const char *name, Dwarf_Addr base,
			const char *file, const char *link, GElf_Word crc, char **ret)
{
	return -1;
}

static Dwfl *open_dwfl(pid_t pid)
{
	static const Dwfl_Callbacks callbacks = {
		.find_elf = dwfl_linux_proc_find_elf,
		.find_debuginfo = no_debuginfo,
	};
	Dwfl *dwfl = dwfl_begin(&callbacks);

	if (dwfl && !dwfl_linux_proc_report(dwfl, pid) && !dwfl_report_end(dwfl, NULL, NULL) &&
	    !dwfl_linux_proc_attach(dwfl, pid, true))
		return dwfl;
	dwfl_end(dwfl);
	return NULL;
}

static int window_set_from_process(struct window_set *set, pid_t pid, unsigned int n, bool compare,
				   struct unwind_stack *scratch)
{
	Dwfl *dwfl = compare ? open_dwfl(pid) : NULL;
	int r = 0;

	for (unsigned int i = 0; !r && i < n; i++) {
		r = copy_threads(set, pid, dwfl, scratch);
		usleep(1000 + 37 * (i % 100));
	}
	dwfl_end(dwfl);
	return r;
}

static size_t anonymous_kib(void)
{
	AUTO_FILE FILE *f = fopen("/proc/self/smaps_rollup", "re");
	char line[256];
	size_t kib = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Anonymous: %zu kB", &kib) == 1)
			break;
	return kib;
}

static uint64_t open_modules(struct space *s, size_t *ret_n)
{
	const struct space_range *ranges;
	uint64_t start = cpu_ns();

	space_refresh(s);
	*ret_n = space_ranges(s, &ranges);
	for (size_t i = 0; i < *ret_n; i++)
		space_find(s, ranges[i].start);
	return cpu_ns() - start;
}

static void print_figures(const struct window_set *set, const struct figures *f, size_t grown_kib)
{
	size_t n = set->windows.n;

	printf("  windows %zu, frames %zu (%.1f a window), complete %.2f %%\n", n, f->n_frames,
	       (double)f->n_frames / (double)n, 100.0 * (double)f->n_complete / (double)n);
	for (int i = 0; i < STACK_STOP_MAX; i++)
		if (f->stops[i])
			printf("    stop %-10s %zu\n", stack_stop_name(i), f->stops[i]);
	if (f->n_compared)
		printf("  equal to elfutils %zu of %zu (%.2f %%)\n", f->n_equal, f->n_compared,
		       100.0 * (double)f->n_equal / (double)f->n_compared);
	printf("  warm: %.2f M frames/s, %.0f ns a frame, %.2f us a window\n",
	       (double)f->warm_frames * 1e3 / (double)f->warm_ns,
	       (double)f->warm_ns / (double)f->warm_frames,
	       (double)f->warm_ns / 1e3 / (double)(WARM_PASSES * n));
	printf("  cold pass %.2f ms", (double)f->cold_ns / 1e6);
	if (grown_kib)
		printf("; anonymous memory grew by %zu KiB", grown_kib);
	printf("\n");
}

static int bench_process(pid_t pid, unsigned int samples, bool compare)
{
	CLEANUP(window_set_deinit) struct window_set set = {};
	AUTO_FREE struct unwind_stack *stack = calloc(1, sizeof(*stack));
	struct figures f = {};
	size_t n_ranges, before;
	uint64_t open_ns;
	int r;

	if (!stack)
		return -ENOMEM;
	r = window_set_from_process(&set, pid, samples, compare, stack);
	if (r || !set.windows.n)
		return r ? r : -ESRCH;
	malloc_trim(0);
	before = anonymous_kib();
	r = space_cache_new(&set.cache);
	if (!r)
		r = space_new(&set.space, set.cache, pid);
	if (r)
		return r;
	open_ns = open_modules(set.space, &n_ranges);
	printf("pid %d: %zu executable mappings opened in %.2f ms\n", pid, n_ranges,
	       (double)open_ns / 1e6);
	bench_windows(&set, stack, &f);
	print_figures(&set, &f, anonymous_kib() - before);
	bench_misses(&set, stack);
	return 0;
}

static struct window_set *set_of(struct recording *rec, uint32_t tgid, uint32_t as_id)
{
	for (size_t i = rec->sets.n; i-- > 0;)
		if (rec->sets.at[i].tgid == tgid && rec->sets.at[i].as_id == as_id)
			return &rec->sets.at[i];
	return NULL;
}

static void recording_deinit(struct recording *rec)
{
	for (size_t i = 0; i < rec->sets.n; i++)
		window_set_deinit(&rec->sets.at[i]);
	vec_free(&rec->sets);
}

static int add_range(struct space *space, const struct capture_range *c)
{
	struct space_range r = {.start = c->start,
				.end = c->end,
				.file_off = c->file_off,
				.kind = c->kind,
				.path = c->path};
	int error, fd = -1;

	if (c->kind == SPACE_VDSO)
		module_open_own_vdso(&r.module, NULL);
	if (c->kind == SPACE_FILE)
		fd = open(c->path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && module_open_fd(&r.module, fd, c->path, NULL))
		close(fd);
	error = space_add_range(space, &r);
	module_unref(r.module);
	return error;
}

static int on_space(void *ctx, uint32_t tgid, uint32_t as_id, const struct capture_range *ranges,
		    size_t n)
{
	struct recording *rec = ctx;
	struct window_set set = {.tgid = tgid, .as_id = as_id};
	struct window_set *have = set_of(rec, tgid, as_id);
	int r = have ? 0 : vec_push(&rec->sets, set);

	if (r)
		return r;
	have = set_of(rec, tgid, as_id);
	if (!have->cache)
		r = space_cache_new(&have->cache);
	have->space = space_free(have->space);
	if (!r)
		r = space_new(&have->space, have->cache, 0);
	for (size_t i = 0; i < n && !r; i++)
		r = add_range(have->space, &ranges[i]);
	return r;
}

static int on_record(void *ctx, const void *record, size_t bytes)
{
	const struct wire_snapshot *s;
	struct window w = {};
	struct window_set *set;
	struct event ev;

	if (decode_record(record, bytes, &ev) || ev.h->kind != WIRE_K_SNAPSHOT)
		return 0;
	s = ev.snapshot;
	set = set_of(ctx, s->h.tgid, s->as_id);
	if (!set)
		return 0;
	w.regs = s->regs;
	w.flags = s->flags;
	w.holes = s->holes;
	w.n = s->window_bytes;
	w.n_spans = s->n_spans;
	memcpy(w.spans, s->spans, sizeof(w.spans));
	w.bytes = malloc(w.n + 1);
	if (!w.bytes)
		return -ENOMEM;
	memcpy(w.bytes, ev.window, w.n);
	return vec_push(&set->windows, w);
}

/* The blocks that are of no interest here. */
static int skip_info(void *ctx, const struct capture_info *i)
{
	return 0;
}

static int skip_endpoint(void *ctx, const struct capture_endpoint *e)
{
	return 0;
}

static int skip_symbol(void *ctx, const struct capture_symbol *s)
{
	return 0;
}

static int skip_latency(void *ctx, uint32_t ep_id, const struct latency *l)
{
	return 0;
}

static int skip_totals(void *ctx, uint64_t duration_ns, const struct counters *c)
{
	return 0;
}

static int bench_capture(const char *path)
{
	CLEANUP(recording_deinit) struct recording rec = {};
	AUTO_FREE struct unwind_stack *stack = calloc(1, sizeof(*stack));
	AUTO_FILE FILE *in = fopen(path, "re");
	const struct capture_reader reader = {
		.info = skip_info,
		.endpoint = skip_endpoint,
		.space = on_space,
		.record = on_record,
		.symbol = skip_symbol,
		.latency = skip_latency,
		.totals = skip_totals,
		.ctx = &rec,
	};
	struct errmsg e = {};
	int r;

	if (!in || !stack)
		return in ? -ENOMEM : -errno;
	r = capture_read(in, path, &reader, &e);
	if (r)
		fprintf(stderr, "%s\n", e.text);
	for (size_t i = 0; i < rec.sets.n && !r; i++) {
		struct window_set *set = &rec.sets.at[i];
		struct figures f = {};

		if (!set->windows.n)
			continue;
		printf("process %u of the capture:\n", set->tgid);
		bench_windows(set, stack, &f);
		print_figures(set, &f, 0);
		bench_misses(set, stack);
	}
	return r;
}

int main(int argc, char **argv)
{
	unsigned int samples = 100;
	bool compare = false;
	int r = 0;

	for (int i = 1; i < argc && !r; i++) {
		if (!strcmp(argv[i], "--compare"))
			compare = true;
		else if (!strcmp(argv[i], "--capture") && i + 1 < argc)
			r = bench_capture(argv[++i]);
		else if (!strcmp(argv[i], "--samples") && i + 1 < argc)
			samples = (unsigned int)strtoul(argv[++i], NULL, 10);
		else
			r = bench_process((pid_t)strtol(argv[i], NULL, 10), samples, compare);
	}
	if (r || argc < 2)
		fprintf(stderr, "usage: bench_unwind [--samples N] [--compare] PID...: %s\n",
			r ? strerror(-r) : "no process was named");
	return r || argc < 2 ? 1 : 0;
}
