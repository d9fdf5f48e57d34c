/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_capture.c: writes a capture file of a real process without BPF or root, for golden tests.
 *
 * usage: make_capture TARGET OUTPUT. The target (target.c) is a child under ptrace; at each of its
 * stops the registers and the window are copied as the BPF programs would. Times are made up, so
 * that the result is the same every time:
 *
 *   0 ms      handle_request is entered
 *   100 ms    PROMOTED (it ran for 20 ms and slept for 80 ms by then)
 *   100-340   off CPU in lock_order: blocked 230 ms, run queue 10 ms
 *   350, 360  ticks in compute; a look at the blocked thread, taken at 340, comes after them
 *   370       END
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "pipe/capture.h"
#include "pipe/replay.h"

#define MS 1000000ULL

enum { LATE_SEQ = 2, LAST_SEQ = 4 };

struct report {
	uint64_t entry_sp;
	uint64_t entry_ip;
	uint64_t ret_addr;
};

struct maker {
	struct capture_writer *writer;
	pid_t pid;
	struct report report;
	uint32_t seq;
};

static _Noreturn void die(const char *what)
{
	perror(what);
	exit(1);
}

static void check(int r, const char *what)
{
	if (r) {
		errno = -r;
		die(what);
	}
}

static struct wire_header header(const struct maker *m, enum wire_kind kind, size_t bytes,
				 uint64_t at_ms)
{
	return (struct wire_header){
		.size = bytes,
		.kind = kind,
		.mono_ns = at_ms * MS,
		.tgid = 1000, /* not the real one: it would differ from run to run */
		.tid = 1001,
	};
}

static void copy_regs(const struct user_regs_struct *u, struct wire_regs *w)
{
	const uint64_t in_order[WIRE_REG_MAX] = {
		u->rax, u->rdx, u->rcx, u->rbx, u->rsi, u->rdi, u->rbp, u->rsp, u->r8,
		u->r9,  u->r10, u->r11, u->r12, u->r13, u->r14, u->r15, u->rip,
	};

	memcpy(w->r, in_order, sizeof(in_order));
}

static void write_promoted(struct maker *m)
{
	struct wire_promoted p = {
		.h = header(m, WIRE_K_PROMOTED, sizeof(p), 100),
		.span_id = 1,
		.promoted_ns = 100 * MS,
		.entry_sp = m->report.entry_sp,
		.entry_ip = m->report.entry_ip,
		.ret_addr = m->report.ret_addr,
		.as_id = 1,
		.promoted = {20 * MS, 0, 80 * MS},
		.comm = "golden",
		.name_bytes = 16,
	};
	struct wire_field f = {.type = WIRE_FIELD_STR, .bytes = 8};

	memcpy(p.name, &f, sizeof(f));
	memcpy(p.name + sizeof(f), "/order/7", 8);
	check(capture_write_record(m->writer, &p, sizeof(p)), "capture_write_record");
}

static void write_snapshot(struct maker *m, struct wire_snapshot *s)
{
	struct user_regs_struct regs;
	uint64_t start, end;
	uint8_t *record;
	size_t bytes;

	if (ptrace(PTRACE_GETREGS, m->pid, NULL, &regs))
		die("PTRACE_GETREGS");
	copy_regs(&regs, &s->regs);
	start = regs.rsp - WIRE_REDZONE;
	end = m->report.entry_sp + 8;
	s->window_bytes = end - start;
	bytes = (sizeof(*s) + s->window_bytes + 7) & ~7ULL;
	s->h.size = bytes;
	s->n_spans = 1;
	s->spans[0] = (struct wire_snap_span){
		.span_id = 1,
		.entry_sp = m->report.entry_sp,
		.ret_addr = m->report.ret_addr,
		.seq = m->seq++,
	};
	record = calloc(1, bytes);
	if (!record)
		die("calloc");
	memcpy(record, s, sizeof(*s));
	for (uint64_t at = start; at < end; at += 8) {
		long word = ptrace(PTRACE_PEEKDATA, m->pid, at, NULL);

		memcpy(record + sizeof(*s) + (at - start), &word, sizeof(word));
	}
	check(capture_write_record(m->writer, record, bytes), "capture_write_record");
	free(record);
}

static void write_block(struct maker *m)
{
	struct wire_snapshot s = {
		.h = header(m, WIRE_K_SNAPSHOT, 0, 340),
		.snap_kind = WIRE_SNAP_OFFCPU,
		.as_id = 1,
		.wall = {20 * MS, 10 * MS, 310 * MS},
		.out_ns = 100 * MS,
		.wake_ns = 330 * MS,
		.syscall_nr = SYS_futex,
		.prev_state = 1,
	};

	write_snapshot(m, &s);
}

static void write_ticks(struct maker *m)
{
	for (uint64_t at_ms = 350; at_ms <= 360; at_ms += 10) {
		struct wire_snapshot s = {
			.h = header(m, WIRE_K_SNAPSHOT, 0, at_ms),
			.snap_kind = WIRE_SNAP_ONCPU,
			.as_id = 1,
			.wall = {(at_ms - 320) * MS, 10 * MS, 310 * MS},
			.syscall_nr = -1,
		};

		m->seq = at_ms == 350 ? LATE_SEQ - 1 : LATE_SEQ + 1;
		write_snapshot(m, &s);
	}
}

/* Its sequence number lies between those of the ticks. */
static void write_late(struct maker *m)
{
	struct wire_snapshot s = {
		.h = header(m, WIRE_K_SNAPSHOT, 0, 340),
		.snap_kind = WIRE_SNAP_STUCK,
		.as_id = 1,
		.wall = {20 * MS, 0, 80 * MS},
		.out_ns = 100 * MS,
		.syscall_nr = SYS_futex,
		.prev_state = 1,
	};

	m->seq = LATE_SEQ;
	write_snapshot(m, &s);
	m->seq = LAST_SEQ;
}

static void write_end(struct maker *m)
{
	struct wire_end e = {
		.h = header(m, WIRE_K_END, sizeof(e), 370),
		.span_id = 1,
		.wall = {50 * MS, 10 * MS, 310 * MS},
		.reason = WIRE_END_RETURN,
		.n_due = m->seq,
	};
	struct counters c = {};
	struct latency l = {.n_enter = 20, .n_leave = 20, .n_slow = 1, .sum_ns = 465 * MS};

	l.max_ns = 370 * MS;
	l.bucket[latency_bucket(5 * MS)] = 19;
	l.bucket[latency_bucket(370 * MS)] = 1;
	check(capture_write_record(m->writer, &e, sizeof(e)), "capture_write_record");
	check(capture_write_latency(m->writer, 0, &l), "capture_write_latency");
	check(capture_write_totals(m->writer, 1000 * MS, &c), "capture_write_totals");
}

static void write_space(struct maker *m)
{
	struct space_cache *cache = NULL;
	struct space *space = NULL;

	check(space_cache_new(&cache), "space_cache_new");
	check(space_new(&space, cache, m->pid), "space_new");
	check(space_refresh(space), "space_refresh");
	check(replay_record_space(m->writer, 1000, 1, space), "replay_record_space");
	space_free(space);
	space_cache_free(cache);
}

/* Runs the target on to its next breakpoint. */
static void next_stop(struct maker *m)
{
	int status;

	do {
		if (ptrace(PTRACE_CONT, m->pid, NULL, NULL) ||
		    waitpid(m->pid, &status, 0) != m->pid)
			die("waitpid");
		if (!WIFSTOPPED(status)) {
			fprintf(stderr, "the target ended early\n");
			exit(1);
		}
	} while (WSTOPSIG(status) != SIGTRAP);
}

static int start_target(struct maker *m, const char *path)
{
	int fds[2], status;

	if (pipe(fds))
		die("pipe");
	m->pid = fork();
	if (m->pid < 0)
		die("fork");
	if (!m->pid) {
		dup2(fds[1], STDOUT_FILENO);
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execl(path, path, NULL);
		_exit(127);
	}
	close(fds[1]);
	if (waitpid(m->pid, &status, 0) != m->pid || !WIFSTOPPED(status))
		die(path);
	return fds[0];
}

int main(int argc, char **argv)
{
	struct capture_info info = {0, 1700000000000000000ULL, "golden-host", "golden-kernel"};
	struct capture_endpoint endpoint = {
		.threshold_ns = 100 * MS,
		.sample_after_ns = 100 * MS,
		.period_ns = 10 * MS,
		.spec = "handle_request(str(arg1))",
		.display = "handle_request",
	};
	struct maker m = {};
	FILE *out;
	int fd;

	if (argc != 3)
		return 2;
	out = fopen(argv[2], "we");
	if (!out)
		die(argv[2]);
	fd = start_target(&m, argv[1]);
	check(capture_writer_new(&m.writer, out, &info), "capture_writer_new");
	check(capture_write_endpoint(m.writer, &endpoint), "capture_write_endpoint");
	next_stop(&m);
	if (read(fd, &m.report, sizeof(m.report)) != sizeof(m.report))
		die("read");
	write_space(&m);
	write_promoted(&m);
	write_block(&m);
	next_stop(&m);
	write_ticks(&m);
	write_late(&m);
	write_end(&m);
	kill(m.pid, SIGKILL);
	waitpid(m.pid, NULL, 0);
	capture_writer_free(m.writer);
	return fclose(out) ? 1 : 0;
}
