/* SPDX-License-Identifier: Apache-2.0 */
/* Rests: what is open when the probes are taken off is given up, and never comes back. */
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "rig.h"
#include "tests/unit/unit.h"

#define MS       1000000ULL
#define ENDPOINT __attribute__((noinline, noclone))

static const struct kern_options may_rest = {.may_rest = true};

static ENDPOINT long serve(void *arg)
{
	rig_sleep(MS);
	return 0;
}

static ENDPOINT long spin(void *arg)
{
	rig_spin(1000);
	return 0;
}

static void rest(struct rig *rig)
{
	probe_detach_all(rig->probes, rig->n_probes);
	rig->n_probes = 0;
	kern_rest(rig->kern);
	assert_int_equal(kern_cut(rig->kern), 0);
}

static ENDPOINT long rest_inside(void *arg);

static void resume(struct rig *rig)
{
	struct errmsg e;

	if (kern_resume(rig->kern, &e))
		fail_msg("%s", e.text);
	rig_endpoint(rig, 0, rest_inside, NULL);
}

/* Its call is slow, and is open during a rest; the leave probe is there when it returns. */
static ENDPOINT long rest_inside(void *arg)
{
	struct rig *rig = arg;

	rig_sleep(20 * MS);
	if (!rig)
		return 0;
	rest(rig);
	resume(rig);
	rig_sleep(20 * MS);
	return 0;
}

static void slow_call_is_given_up(void **state)
{
	const struct wire_gate_key key = {0, RIG_INSTANCE};
	struct wire_gate gate;
	struct rig rig;

	rig_open(&rig, &may_rest);
	rig_gate(&rig, 0, MS, MS);
	rig_endpoint(&rig, 0, rest_inside, NULL);
	rig_call(rest_inside, &rig);
	rig_drain(&rig);
	assert_int_equal(rig_count(&rig, WIRE_K_PROMOTED), 1);
	assert_int_equal(rig_count(&rig, WIRE_K_END), 0);
	assert_int_equal(rig_counter(&rig, WIRE_C_CALL_CUT), 1);
	assert_int_equal(rig_latency(&rig, 0).n_enter, 1);
	assert_int_equal(rig_latency(&rig, 0).n_leave, 0);
	assert_int_equal(rig_latency(&rig, 0).n_unknown, 1);
	assert_int_equal(kern_gate_get(rig.kern, &key, &gate), 0);
	assert_int_equal(gate.n_active, 0);
	rig_call(rest_inside, NULL);
	rig_drain(&rig);
	assert_int_equal(rig_count(&rig, WIRE_K_PROMOTED), 2);
	assert_int_equal(rig_count(&rig, WIRE_K_END), 1);
	assert_in_range(rig_duration(rig_event(&rig, WIRE_K_END, 0)), 20 * MS, 2000 * MS);
	rig_close(&rig);
}

struct waiter {
	sem_t is_in, may_go;
};

static ENDPOINT long wait_inside(void *arg)
{
	struct waiter *w = arg;

	sem_post(&w->is_in);
	while (sem_wait(&w->may_go))
		;
	return 0;
}

static ENDPOINT long nest(void *arg)
{
	return rig_call(wait_inside, arg);
}

static void *call_nest(void *arg)
{
	rig_call(nest, arg);
	return NULL;
}

/* A thread that is blocked in two open calls while there is a rest, and that is looked at afterwards. */
static void other_threads_are_met(void **state)
{
	struct waiter w;
	pthread_t thread;
	struct errmsg e;
	struct rig rig;

	sem_init(&w.is_in, 0, 0);
	sem_init(&w.may_go, 0, 0);
	rig_open(&rig, &may_rest);
	rig_gate(&rig, 0, 100 * MS, MS);
	rig_gate(&rig, 1, 100 * MS, MS);
	rig_endpoint(&rig, 0, nest, NULL);
	rig_endpoint(&rig, 1, wait_inside, NULL);
	assert_int_equal(pthread_create(&thread, NULL, call_nest, &w), 0);
	sem_wait(&w.is_in);
	rest(&rig);
	assert_int_equal(rig_counter(&rig, WIRE_C_CALL_CUT), 2);
	if (kern_resume(rig.kern, &e))
		fail_msg("%s", e.text);
	rig_endpoint(&rig, 0, nest, NULL);
	rig_endpoint(&rig, 1, wait_inside, NULL);
	rig_sleep(200 * MS);
	kern_walk_stuck(rig.kern);
	sem_post(&w.may_go);
	pthread_join(thread, NULL);
	rig_drain(&rig);
	assert_int_equal(rig.events.n, 0);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(rig_latency(&rig, i).n_enter, 1);
		assert_int_equal(rig_latency(&rig, i).n_leave, 0);
		assert_int_equal(rig_latency(&rig, i).n_unknown, 1);
	}
	rig_close(&rig);
}

static void hits_are_counted(void **state)
{
	struct rig rig;

	rig_open(&rig, &may_rest);
	rig_endpoint(&rig, 0, serve, NULL);
	for (int i = 0; i < 3; i++)
		rig_call(serve, NULL);
	assert_int_equal(rig_counter(&rig, WIRE_C_PROBE_HIT), 6);
	assert_int_equal(rig_counter(&rig, WIRE_C_PROBE_HIT_DEAR), 0);
	rig_attach(&rig, rig.programs.enter_fd, (const void *)(uintptr_t)spin,
		   WIRE_COOKIE(0, 0, 0) | WIRE_COOKIE_F_DEAR);
	rig_call(spin, NULL);
	assert_int_equal(rig_counter(&rig, WIRE_C_PROBE_HIT), 8);
	assert_int_equal(rig_counter(&rig, WIRE_C_PROBE_HIT_DEAR), 1);
	rig_close(&rig);
}

/* Gates may change during a rest; the scheduler's programs come with its end. */
static void gates_change_during_a_rest(void **state)
{
	struct errmsg e;
	struct rig rig;

	rig_open(&rig, &may_rest);
	rest(&rig);
	rig_gate(&rig, 0, MS, MS);
	if (kern_resume(rig.kern, &e))
		fail_msg("%s", e.text);
	rig_endpoint(&rig, 0, rest_inside, NULL);
	rig_call(rest_inside, NULL);
	rig_drain(&rig);
	assert_int_equal(rig_count(&rig, WIRE_K_PROMOTED), 1);
	assert_int_equal(rig_count(&rig, WIRE_K_END), 1);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slow_call_is_given_up),
		cmocka_unit_test(other_threads_are_met),
		cmocka_unit_test(hits_are_counted),
		cmocka_unit_test(gates_change_during_a_rest),
	};

	return cmocka_run_group_tests_name("cut", tests, NULL, NULL);
}
