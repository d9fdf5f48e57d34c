/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule_run.h: the steps that one run and its task go through. For schedule.c only.
 *
 * Invariant: a step changes the state and emits the actions that go with it, or does nothing when
 * there is no memory for them; then the next tick tries again.
 */
#ifndef SPANPROF_TASK_SCHEDULE_RUN_H
#define SPANPROF_TASK_SCHEDULE_RUN_H

#include "task/schedule.h"

struct known_instance {
	uint32_t id;
	bool accepts;
	char service[TASK_SERVICE_MAX];
	char name[TASK_INSTANCE_MAX];
};

struct schedule {
	struct schedule_limits limits;
	VEC(struct schedule_task *) tasks; /* owned, in order of arrival */
	VEC(struct known_instance) instances;
	VEC(struct schedule_action) actions;
	size_t next_action;
	struct schedule_task *forgotten; /* owned: freed by the next schedule_next */
	size_t n_finished;
	uint64_t n_untold;
	struct schedule_now ticked; /* when schedule_tick was called last */
};

/* Room for what one step emits; false: out of memory. */
bool schedule_has_room(struct schedule *s);
/* NULL: out of memory, which cannot be when schedule_has_room was true. */
struct schedule_action *schedule_emit(struct schedule *s, enum schedule_action_kind kind,
				      struct schedule_task *t, const struct schedule_run *r);
void schedule_emit_event(struct schedule *s, struct schedule_task *t, const struct schedule_run *r,
			 enum task_event event, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

struct known_instance *schedule_find_instance(const struct schedule *s, uint32_t id);
bool schedule_selects(const struct task *t, const struct known_instance *i);
/* A queued run; NULL: out of memory. */
struct schedule_run *schedule_add_run(struct schedule_task *t, const struct known_instance *i);

/* What is left of the duration when the run started at that wall-clock time; UINT64_MAX: no end. */
uint64_t schedule_remaining_ns(const struct task *t, int64_t started_ms, struct schedule_now now);

void schedule_start_run(struct schedule *s, struct schedule_task *t, struct schedule_run *r,
			struct schedule_now now);
/* Running: to flushing. Queued: to finished. Otherwise nothing. */
void schedule_stop_run(struct schedule *s, struct schedule_task *t, struct schedule_run *r,
		       enum task_event how, const char *why, struct schedule_now now);
void schedule_finish_run(struct schedule *s, struct schedule_task *t, struct schedule_run *r,
			 struct schedule_now now);
/* Derives the task's state from its runs. */
void schedule_settle(struct schedule *s, struct schedule_task *t, struct schedule_now now);

#endif
