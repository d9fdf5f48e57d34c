/* SPDX-License-Identifier: Apache-2.0 */
/* Wall time: the three parts add up exactly, and intervals off CPU are what the clock says. */
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "rig.h"
#include "tests/unit/unit.h"

#define MS       1000000ULL
#define ENDPOINT __attribute__((noinline, noclone))

static ENDPOINT long spin(void *arg)
{
	rig_spin((uint64_t)(uintptr_t)arg);
	return 0;
}

struct times {
	uint64_t before_ns;
	uint64_t after_ns;
};

static ENDPOINT long sleep_20ms(void *arg)
{
	struct times *t = arg;

	t->before_ns = clock_mono_ns();
	rig_sleep(20 * MS);
	t->after_ns = clock_mono_ns();
	return 0;
}

static ENDPOINT long sleep_often(void *arg)
{
	for (int i = 0; i < 100; i++)
		rig_sleep(MS / 20);
	return 0;
}

static const struct event *only_end(struct rig *rig)
{
	rig_drain(rig);
	assert_int_equal(rig_count(rig, WIRE_K_END), 1);
	return rig_event(rig, WIRE_K_END, 0);
}

static void sleep_is_exact(void **state)
{
	const struct event *end, *shot, *promoted;
	const struct wire_snapshot *s;
	struct times t;
	struct rig rig;

	rig_open(&rig, NULL);
	rig_gate(&rig, 0, 5 * MS, MS);
	rig_endpoint(&rig, 0, sleep_20ms, NULL);
	rig_call(sleep_20ms, &t);
	end = only_end(&rig);
	assert_true(rig_duration(end) >= t.after_ns - t.before_ns);
	promoted = rig_event(&rig, WIRE_K_PROMOTED, 0);
	shot = rig_event(&rig, WIRE_K_SNAPSHOT, 0);
	assert_non_null(shot);
	s = shot->snapshot;
	assert_int_equal(s->snap_kind, WIRE_SNAP_OFFCPU);
	assert_int_equal(s->syscall_nr, SYS_clock_nanosleep);
	assert_int_equal(s->prev_state, 1); /* TASK_INTERRUPTIBLE */
	assert_int_equal(s->spans[0].seq, 0);
	/* The interval lies within what the thread itself measured, and holds the 20 ms. */
	assert_in_range(s->out_ns, t.before_ns, t.after_ns);
	assert_in_range(shot->h->mono_ns, s->out_ns + 19 * MS, t.after_ns);
	assert_in_range(s->wake_ns, s->out_ns, shot->h->mono_ns);
	/* It was promoted in its sleep: the snapshots account for all of it. */
	assert_int_equal(promoted->promoted->promoted_ns, s->out_ns);
	assert_int_equal(s->wall.blocked_ns - promoted->promoted->promoted.blocked_ns,
			 s->wake_ns - s->out_ns);
	assert_int_equal(s->wall.runq_ns - promoted->promoted->promoted.runq_ns,
			 shot->h->mono_ns - s->wake_ns);
	assert_int_equal(s->wall.oncpu_ns, promoted->promoted->promoted.oncpu_ns);
	/* A timer's interrupt is no waker. */
	assert_int_equal(s->flags & WIRE_SNAP_F_WAKER, 0);
	assert_memory_equal(shot->window + s->window_bytes - 8, &s->spans[0].ret_addr, 8);
	rig_close(&rig);
}

static void kernel_frames_on_request(void **state)
{
	const struct kern_options options = {.want_kernel_stacks = true};
	const struct event *shot;
	struct times t;
	struct rig rig;

	rig_open(&rig, &options);
	rig_gate(&rig, 0, 5 * MS, MS);
	rig_endpoint(&rig, 0, sleep_20ms, NULL);
	rig_call(sleep_20ms, &t);
	rig_drain(&rig);
	shot = rig_event(&rig, WIRE_K_SNAPSHOT, 0);
	assert_non_null(shot);
	assert_true(shot->snapshot->kernel_frames >= 3);
	for (int i = 0; i < shot->snapshot->kernel_frames; i++)
		assert_true(shot->kernel[i] >> 63);
	assert_memory_equal(shot->window + shot->snapshot->window_bytes - 8,
			    &shot->snapshot->spans[0].ret_addr, 8);
	rig_close(&rig);
}

/* A pipe between two threads: the one that writes is the waker. */
struct exchange {
	int fds[2];
	pid_t waker;
};

static void *write_later(void *arg)
{
	struct exchange *x = arg;

	x->waker = gettid();
	rig_sleep(20 * MS);
	if (write(x->fds[1], "x", 1) != 1)
		return arg;
	return NULL;
}

static ENDPOINT long read_pipe(void *arg)
{
	struct exchange *x = arg;
	char c;

	return read(x->fds[0], &c, 1);
}

static void waker_is_named(void **state)
{
	const struct event *shot;
	struct exchange x;
	pthread_t thread;
	struct rig rig;

	rig_open(&rig, NULL);
	rig_gate(&rig, 0, 5 * MS, MS);
	rig_endpoint(&rig, 0, read_pipe, NULL);
	assert_int_equal(pipe(x.fds), 0);
	assert_int_equal(pthread_create(&thread, NULL, write_later, &x), 0);
	assert_int_equal(rig_call(read_pipe, &x), 1);
	pthread_join(thread, NULL);
	rig_drain(&rig);
	shot = rig_event(&rig, WIRE_K_SNAPSHOT, 0);
	assert_non_null(shot);
	assert_int_equal(shot->snapshot->syscall_nr, SYS_read);
	assert_true(shot->snapshot->flags & WIRE_SNAP_F_WAKER);
	assert_int_equal(shot->snapshot->waker_tid, x.waker);
	assert_int_equal(shot->snapshot->waker_tgid, getpid());
	close(x.fds[0]);
	close(x.fds[1]);
	rig_close(&rig);
}

static void short_waits_are_merged(void **state)
{
	const struct event *end;
	struct rig rig;

	rig_open(&rig, NULL);
	rig_gate(&rig, 0, 2 * MS, 10 * MS);
	rig_endpoint(&rig, 0, sleep_often, NULL);
	rig_call(sleep_often, NULL);
	end = only_end(&rig);
	rig_duration(end);
	assert_true(end->end->wall.blocked_ns >= 100 * MS / 20);
	assert_true(rig_counter(&rig, WIRE_C_SHORT_WAIT) >= 20);
	assert_in_range(rig_count(&rig, WIRE_K_SNAPSHOT), 1, 60);
	rig_close(&rig);
}

static void *spin_on_cpu_0(void *arg)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	sched_setaffinity(0, sizeof(set), &set);
	return (void *)rig_call(spin, arg);
}

/* Two threads on one CPU: each waits for it about as long as it has it. */
static void run_queue_is_told_from_blocking(void **state)
{
	pthread_t threads[2];
	struct rig rig;

	rig_open(&rig, NULL);
	rig_gate(&rig, 0, 5 * MS, MS);
	rig_endpoint(&rig, 0, spin, NULL);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, spin_on_cpu_0,
						(void *)(uintptr_t)(100 * MS)),
				 0);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	rig_drain(&rig);
	assert_int_equal(rig_count(&rig, WIRE_K_END), 2);
	for (size_t i = 0; i < 2; i++) {
		const struct wire_wall *wall = &rig_event(&rig, WIRE_K_END, i)->end->wall;

		rig_duration(rig_event(&rig, WIRE_K_END, i));
		assert_true(wall->runq_ns >= 20 * MS);
		assert_true(wall->blocked_ns < MS);
	}
	rig_close(&rig);
}

/* A thread that hangs until it is told to stop. */
struct hang {
	int fds[2];
	pid_t tid;
};

static ENDPOINT long hang(void *arg)
{
	struct hang *h = arg;
	char c;

	h->tid = gettid();
	return read(h->fds[0], &c, 1);
}

static void *hang_thread(void *arg)
{
	return (void *)rig_call(hang, arg);
}

static void stuck_call_is_seen_while_it_hangs(void **state)
{
	const struct event *shot = NULL, *promoted;
	struct hang h = {};
	size_t n, n_offcpu = 0;
	uint64_t deadline;
	pthread_t thread;
	struct rig rig;

	rig_open(&rig, NULL);
	rig_gate(&rig, 0, 5 * MS, MS);
	rig_endpoint(&rig, 0, hang, NULL);
	assert_int_equal(pipe(h.fds), 0);
	assert_int_equal(pthread_create(&thread, NULL, hang_thread, &h), 0);
	deadline = clock_mono_ns() + 5000 * MS;
	while (!shot && clock_mono_ns() < deadline) {
		assert_int_equal(kern_walk_stuck(rig.kern), 0);
		rig_drain(&rig);
		shot = rig_event(&rig, WIRE_K_SNAPSHOT, 0);
	}
	assert_non_null(shot);
	promoted = rig_event(&rig, WIRE_K_PROMOTED, 0);
	assert_non_null(promoted);
	assert_int_equal(promoted->h->tid, h.tid);
	assert_int_equal(shot->h->tid, h.tid);
	assert_int_equal(shot->snapshot->snap_kind, WIRE_SNAP_STUCK);
	assert_int_equal(shot->snapshot->syscall_nr, SYS_read);
	assert_int_equal(shot->snapshot->out_ns, promoted->promoted->promoted_ns);
	assert_memory_equal(shot->window + shot->snapshot->window_bytes - 8,
			    &shot->snapshot->spans[0].ret_addr, 8);
	/* Looking again at once shows nothing new. */
	for (int i = 0; i < 20; i++)
		assert_int_equal(kern_walk_stuck(rig.kern), 0);
	rig_drain(&rig);
	assert_int_equal(rig_count(&rig, WIRE_K_SNAPSHOT), 1);
	assert_int_equal(write(h.fds[1], "x", 1), 1);
	pthread_join(thread, NULL);
	rig_drain(&rig);
	/* On a slow machine a tick may come in between, too. */
	n = rig_count(&rig, WIRE_K_SNAPSHOT);
	assert_int_equal(rig_event(&rig, WIRE_K_END, 0)->end->n_due, n);
	for (size_t i = 1; i < n; i++)
		n_offcpu += rig_event(&rig, WIRE_K_SNAPSHOT, i)->snapshot->snap_kind ==
			    WIRE_SNAP_OFFCPU;
	assert_true(n_offcpu > 0);
	close(h.fds[0]);
	close(h.fds[1]);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sleep_is_exact),
		cmocka_unit_test(kernel_frames_on_request),
		cmocka_unit_test(waker_is_named),
		cmocka_unit_test(short_waits_are_merged),
		cmocka_unit_test(run_queue_is_told_from_blocking),
		cmocka_unit_test(stuck_call_is_seen_while_it_hangs),
	};

	return cmocka_run_group_tests_name("wall", tests, NULL, NULL);
}
