/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_world.h: what the tests of the schedule share. */
#ifndef SPANPROF_TESTS_UNIT_SCHEDULE_WORLD_H
#define SPANPROF_TESTS_UNIT_SCHEDULE_WORLD_H

#include <stdio.h>
#include <string.h>

#include "task/schedule.h"
#include "tests/unit/unit.h"

#define SECOND 1000000000ULL

/* A schedule, its clock, and all actions so far as one text: "event received; start i1; ..." */
struct fixture {
	struct schedule *s;
	struct schedule_now now;
	char log[8192];
};

static inline void drain(struct fixture *f)
{
	static const char *const kinds[] = {"start", "stop", "finished", "event", "forget"};
	struct schedule_action a;

	f->log[0] = 0;
	while (schedule_next(f->s, &a)) {
		size_t n = strlen(f->log);

		snprintf(f->log + n, sizeof(f->log) - n, "%s%s %s%s%s", n ? "; " : "",
			 kinds[a.kind],
			 a.kind == SCHEDULE_EVENT || a.kind == SCHEDULE_FINISHED
				 ? task_event_name(a.event)
				 : a.id,
			 a.instance[0] ? "@" : "", a.instance);
	}
}

static inline void expect_log(struct fixture *f, const char *want)
{
	drain(f);
	assert_string_equal(f->log, want);
}

static inline void pass(struct fixture *f, uint64_t ns)
{
	f->now.mono_ns += ns;
	f->now.real_ms += ns / 1000000;
	schedule_tick(f->s, f->now);
}

static inline void up(struct fixture *f, uint32_t id, char *service, char *name, bool accepts)
{
	struct instance i = {.id = id, .service = service, .name = name};

	assert_int_equal(schedule_instance_up(f->s, &i, accepts, f->now), 0);
}

static inline struct task make(const char *id, const char *instance)
{
	struct task t = {.service = "svc",
			 .source = "oap",
			 .endpoint = "GET:/a",
			 .create_ms = 1000000,
			 .duration_ns = 60 * SECOND,
			 .period_ns = 10000000,
			 .max_spans = 3};

	snprintf(t.id, sizeof(t.id), "%s", id);
	snprintf(t.instance, sizeof(t.instance), "%s", instance);
	return t;
}

static inline void setup(struct fixture *f, const struct schedule_limits *limits)
{
	memset(f, 0, sizeof(*f));
	f->now = (struct schedule_now){.mono_ns = 50 * SECOND, .real_ms = 1000000};
	assert_int_equal(schedule_new(&f->s, limits), 0);
}

static inline void teardown(struct fixture *f)
{
	schedule_free(f->s);
}

#endif
