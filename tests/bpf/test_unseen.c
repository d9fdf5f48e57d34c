/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Returns to a CPU of which no program is told. No kernel can be asked to keep silent, so the state that this
 * leaves behind is written into the thread's storage: an open interval while it runs.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "rig.h"
#include "tests/unit/unit.h"

#define MS       1000000ULL
#define ENDPOINT __attribute__((noinline, noclone))

/* The map of the threads' states, and what its values look like. */
struct states {
	int fd;
	uint32_t bytes;
	struct btf *btf;
	const struct btf_type *type;
};

static void states_open(const struct rig *rig, struct states *ret)
{
	uint32_t ids[64] = {0};
	struct bpf_prog_info prog = {.nr_map_ids = 64, .map_ids = (uintptr_t)ids};
	uint32_t bytes = sizeof(prog);

	assert_int_equal(bpf_obj_get_info_by_fd(rig->programs.enter_fd, &prog, &bytes), 0);
	for (uint32_t i = 0; i < prog.nr_map_ids; i++) {
		struct bpf_map_info map = {0};
		int fd = bpf_map_get_fd_by_id(ids[i]);

		bytes = sizeof(map);
		assert_int_equal(bpf_obj_get_info_by_fd(fd, &map, &bytes), 0);
		if (!strcmp(map.name, "threads")) {
			ret->fd = fd;
			ret->bytes = map.value_size;
			ret->btf = btf__load_from_kernel_by_id(map.btf_id);
			assert_non_null(ret->btf);
			ret->type = btf__type_by_id(ret->btf, map.btf_value_type_id);
			return;
		}
		close(fd);
	}
	fail_msg("no map of threads");
}

static void states_close(struct states *s)
{
	btf__free(s->btf);
	close(s->fd);
}

/* Where a member is in a value. */
static void *member(const struct states *s, void *value, const char *name)
{
	const struct btf_member *m = btf_members(s->type);

	for (int i = 0; i < btf_vlen(s->type); i++)
		if (!strcmp(btf__name_by_offset(s->btf, m[i].name_off), name))
			return (char *)value + btf_member_bit_offset(s->type, i) / 8;
	fail_msg("no member %s", name);
	return NULL;
}

struct lost {
	struct states states;
	bool by_tick; /* found by a tick, else by the end of the call */
	uint64_t out_ns;
	uint64_t clocked; /* the scheduler's clock is known */
};

enum { AWAY_MS = 20, WOKEN_MS = 15 };

/* Sleeps, in such a way that the thread leaves its CPU: on a slow machine a short time is over before. */
static void sleep_off_cpu(const struct states *s, int pidfd, char *value)
{
	int32_t syscall_nr = -1;

	for (uint64_t ms = 1; ms <= 2048 && syscall_nr != SYS_clock_nanosleep; ms *= 2) {
		rig_sleep(ms * MS);
		assert_int_equal(bpf_map_lookup_elem(s->fd, &pidfd, value), 0);
		memcpy(&syscall_nr, member(s, value, "out_syscall"), sizeof(syscall_nr));
	}
	assert_int_equal(syscall_nr, SYS_clock_nanosleep);
}

/*
 * Sleeps, then computes for AWAY_MS without giving up the CPU. That time is made an interval off CPU, with a
 * wake-up after WOKEN_MS, from which nobody saw it return.
 */
static ENDPOINT long lose_return(void *arg)
{
	struct lost *l = arg;
	struct sched_param fifo = {.sched_priority = 1}, other = {0};
	AUTO_CLOSE int pidfd = syscall(SYS_pidfd_open, getpid(), 0);
	AUTO_FREE char *value = calloc(1, l->states.bytes);
	uint64_t *out_clock;

	assert_int_equal(sched_setscheduler(0, SCHED_FIFO, &fifo), 0);
	sleep_off_cpu(&l->states, pidfd, value);
	rig_spin(AWAY_MS * MS);
	assert_int_equal(bpf_map_lookup_elem(l->states.fd, &pidfd, value), 0);
	memcpy(&l->out_ns, member(&l->states, value, "wall_ns"), sizeof(l->out_ns));
	memcpy(member(&l->states, value, "out_ns"), &l->out_ns, sizeof(l->out_ns));
	*(uint64_t *)member(&l->states, value, "wake_ns") = l->out_ns + WOKEN_MS * MS;
	*(uint32_t *)member(&l->states, value, "is_preempted") = 0;
	/* It came back right behind the sleep: so that must have been AWAY_MS after the switch-out. */
	out_clock = member(&l->states, value, "out_clock");
	l->clocked = *out_clock;
	if (*out_clock)
		*out_clock -= (AWAY_MS - 2) * MS;
	assert_int_equal(bpf_map_update_elem(l->states.fd, &pidfd, value, BPF_EXIST), 0);
	if (l->by_tick)
		rig_spin(30 * MS);
	assert_int_equal(sched_setscheduler(0, SCHED_OTHER, &other), 0);
	return 0;
}

static void return_unseen(bool by_tick)
{
	struct lost l = {.by_tick = by_tick};
	const struct wire_snapshot *s = NULL;
	const struct event *shot = NULL;
	const struct wire_wall *wall;
	uint64_t duration;
	struct rig rig;

	rig_open(&rig, NULL);
	rig_gate(&rig, 0, 0, 10 * MS);
	rig_endpoint(&rig, 0, lose_return, NULL);
	states_open(&rig, &l.states);
	rig_call(lose_return, &l);
	rig_drain(&rig);
	/* This one, and those of the kernel's own that there may be. */
	assert_true(rig_counter(&rig, WIRE_C_SWITCH_UNSEEN) >= 1);
	assert_int_equal(rig_count(&rig, WIRE_K_END), 1);
	wall = &rig_event(&rig, WIRE_K_END, 0)->end->wall;
	duration = rig_duration(rig_event(&rig, WIRE_K_END, 0));
	assert_true(duration >= (AWAY_MS + (by_tick ? 30 : 0)) * MS);
	assert_in_range(wall->blocked_ns, WOKEN_MS * MS, duration);
	assert_true(wall->oncpu_ns <= duration - WOKEN_MS * MS - wall->runq_ns);
	if (l.clocked)
		assert_true(wall->runq_ns >= MS); /* it came back later than it was woken */
	/* The stack of the wait is there, once, and before what ran afterwards. */
	for (size_t i = 0; i < rig_count(&rig, WIRE_K_SNAPSHOT); i++) {
		const struct event *e = rig_event(&rig, WIRE_K_SNAPSHOT, i);

		if (e->snapshot->snap_kind != WIRE_SNAP_OFFCPU || e->snapshot->out_ns != l.out_ns)
			continue;
		assert_null(shot);
		shot = e;
	}
	assert_non_null(shot);
	s = shot->snapshot;
	assert_int_equal(s->syscall_nr, SYS_clock_nanosleep);
	assert_int_equal(s->wake_ns, l.out_ns + WOKEN_MS * MS);
	assert_memory_equal(shot->window + s->window_bytes - 8, &s->spans[0].ret_addr, 8);
	/* Nobody is left waiting: a walk finds nothing. */
	assert_int_equal(kern_walk_stuck(rig.kern), 0);
	rig_drain(&rig);
	assert_int_equal(rig_count(&rig, WIRE_K_END), 1);
	states_close(&l.states);
	rig_close(&rig);
}

static void found_by_a_tick(void **state)
{
	return_unseen(true);
}

static void found_at_the_end_of_the_call(void **state)
{
	return_unseen(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(found_by_a_tick),
		cmocka_unit_test(found_at_the_end_of_the_call),
	};

	return cmocka_run_group_tests_name("unseen", tests, NULL, NULL);
}
