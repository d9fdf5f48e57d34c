/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_schedule.c: each byte pair is one call on a schedule of few names and small limits. Every
 * started run must be finished exactly once, and memory must stay within the limits.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "task/schedule.h"
#include "tests/fuzz/fuzz.h"

enum { INSTANCES = 4, TASKS = 6 };

struct world {
	struct schedule *s;
	struct schedule_now now;
	uint32_t up[INSTANCES]; /* instance id, 0: down */
	uint32_t next_id;
	int n_started;
	int n_finished;
};

static void drain(struct world *w)
{
	struct schedule_action a;

	while (schedule_next(w->s, &a)) {
		if (a.kind == SCHEDULE_START)
			w->n_started++;
		if (a.kind == SCHEDULE_FINISHED)
			w->n_finished++;
		assert(a.kind == SCHEDULE_EVENT || a.task);
	}
	assert(w->n_finished <= w->n_started);
	assert(schedule_n_tasks(w->s) <= 4 + 2);
}

static void submit(struct world *w, uint8_t arg)
{
	struct task t = {.source = "fuzz", .service = "s", .period_ns = 1000000};
	uint32_t id = w->up[arg % INSTANCES];

	snprintf(t.id, sizeof(t.id), "t%u", arg % TASKS);
	snprintf(t.endpoint, sizeof(t.endpoint), "e%u", (arg >> 4) % 3);
	snprintf(t.instance, sizeof(t.instance), "%s", arg & 8 ? "i[01]" : "");
	t.duration_ns = (uint64_t)(arg % 5) * 1000000000;
	t.start_ms = arg & 0x40 ? w->now.real_ms + arg * 10 : 0;
	t.max_spans = arg % 4;
	t.end_by_count = t.max_spans && arg & 0x20;
	schedule_submit(w->s, &t, arg & 0x80 ? id : 0, w->now, NULL);
}

static void toggle_instance(struct world *w, uint8_t arg)
{
	uint32_t *id = &w->up[arg % INSTANCES];
	char name[8];
	struct instance i = {.service = "s", .name = name};

	snprintf(name, sizeof(name), "i%u", arg % INSTANCES);
	if (*id) {
		schedule_instance_down(w->s, *id, w->now);
		*id = 0;
		return;
	}
	i.id = *id = ++w->next_id;
	schedule_instance_up(w->s, &i, !(arg & 0x40), w->now);
}

static void step(struct world *w, uint8_t op, uint8_t arg)
{
	struct schedule_task *t;
	char id[8];

	snprintf(id, sizeof(id), "t%u", arg % TASKS);
	t = schedule_find(w->s, "fuzz", id);
	switch (op % 8) {
	case 0:
	case 1:
		submit(w, arg);
		break;
	case 2:
		toggle_instance(w, arg);
		break;
	case 3:
		schedule_cancel(w->s, "fuzz", id, w->now, NULL);
		break;
	case 4:
		if (t)
			schedule_take_span(w->s, t, w->up[arg >> 6], w->now);
		break;
	case 5:
		if (t)
			schedule_flushed(w->s, t, w->up[arg >> 6], w->now);
		break;
	case 6:
		w->now.real_ms += (int8_t)arg * 1000; /* the wall clock jumps */
		break;
	default:
		w->now.mono_ns += arg * 10000000ULL;
		w->now.real_ms += arg * 10;
		schedule_tick(w->s, w->now);
	}
	drain(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const struct schedule_limits limits = {.max_tasks = 4, .max_running = 2, .max_finished = 2};
	struct world w = {.now = {.mono_ns = 1000000000000, .real_ms = 1700000000000}};

	if (n > 4096 || schedule_new(&w.s, &limits))
		return 0;
	for (size_t i = 0; i + 1 < n; i += 2)
		step(&w, data[i], data[i + 1]);
	for (int i = 0; i < INSTANCES; i++)
		if (w.up[i])
			toggle_instance(&w, i);
	for (int i = 0; i < 4; i++)
		step(&w, 7, 255);
	assert(w.n_started == w.n_finished);
	schedule_free(w.s);
	return 0;
}
