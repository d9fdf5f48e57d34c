/* SPDX-License-Identifier: Apache-2.0 */
#include "task/schedule_run.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
	OLD_RUNS_KEPT = 64,       /* finished runs of one task that stay in its list */
	ROOM = 4,                 /* actions that one step may emit */
	UNMATCHED_MIN_MS = 60000, /* how long a local task waits at least for its instance */
};

#define NS_PER_MS 1000000ULL
#define LOOK_NS   (1000 * NS_PER_MS)

/* Every step asks for room first and is put off to the next tick when there is none. */
bool schedule_has_room(struct schedule *s)
{
	return vec_reserve(&s->actions, s->actions.n + ROOM) == 0;
}

struct schedule_action *schedule_emit(struct schedule *s, enum schedule_action_kind kind,
				      struct schedule_task *t, const struct schedule_run *r)
{
	struct schedule_action *a;

	if (vec_reserve(&s->actions, s->actions.n + 1))
		return NULL;
	a = &s->actions.at[s->actions.n++];
	memset(a, 0, sizeof(*a));
	a->kind = kind;
	a->task = t;
	if (t) {
		memcpy(a->source, t->task.source, sizeof(a->source));
		memcpy(a->id, t->task.id, sizeof(a->id));
	}
	if (r) {
		a->instance_id = r->instance_id;
		memcpy(a->instance, r->instance, sizeof(a->instance));
	}
	return a;
}

void __attribute__((format(printf, 5, 6)))
schedule_emit_event(struct schedule *s, struct schedule_task *t, const struct schedule_run *r,
		    enum task_event event, const char *format, ...)
{
	struct schedule_action *a = schedule_emit(s, SCHEDULE_EVENT, t, r);
	va_list ap;

	assert(t);
	if (!a)
		return;
	a->event = event;
	va_start(ap, format);
	vsnprintf(a->why, sizeof(a->why), format, ap);
	va_end(ap);
	memcpy(t->why, a->why, sizeof(t->why));
}

struct known_instance *schedule_find_instance(const struct schedule *s, uint32_t id)
{
	for (size_t i = 0; i < s->instances.n; i++)
		if (s->instances.at[i].id == id)
			return &s->instances.at[i];
	return NULL;
}

static bool is_active(const struct schedule_run *r)
{
	return r->state != TASK_STATE_FINISHED;
}

struct schedule_run *schedule_active_run(struct schedule_task *t, uint32_t instance_id)
{
	for (size_t i = 0; i < t->runs.n; i++)
		if (t->runs.at[i].instance_id == instance_id && is_active(&t->runs.at[i]))
			return &t->runs.at[i];
	return NULL;
}

static bool has_run_in(const struct schedule_task *t, enum task_state state)
{
	for (size_t i = 0; i < t->runs.n; i++)
		if (t->runs.at[i].state == state)
			return true;
	return false;
}

struct schedule_run *schedule_add_run(struct schedule_task *t, const struct known_instance *i)
{
	struct schedule_run r = {.instance_id = i->id, .state = TASK_STATE_QUEUED};

	memcpy(r.instance, i->name, sizeof(r.instance));
	return vec_push(&t->runs, r) ? NULL : &t->runs.at[t->runs.n - 1];
}

bool schedule_selects(const struct task *t, const struct known_instance *i)
{
	return !strcmp(t->service, i->service) && selector_match(t->instance, i->name);
}

static uint64_t end_after(uint64_t mono_ns, uint64_t duration_ns)
{
	return duration_ns ? mono_ns + duration_ns : UINT64_MAX;
}

uint64_t schedule_remaining_ns(const struct task *t, int64_t started_ms, struct schedule_now now)
{
	int64_t past_ms = now.real_ms > started_ms ? now.real_ms - started_ms : 0;

	if (!t->duration_ns)
		return UINT64_MAX;
	if ((uint64_t)past_ms >= t->duration_ns / NS_PER_MS)
		return 0;
	return t->duration_ns - past_ms * NS_PER_MS;
}

static uint64_t add_saturated(uint64_t a, uint64_t b)
{
	return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

/* ---- steps of one run ---- */

void schedule_start_run(struct schedule *s, struct schedule_task *t, struct schedule_run *r,
			struct schedule_now now)
{
	bool resumed = r->resume;

	if (!schedule_has_room(s))
		return;
	r->state = TASK_STATE_RUNNING;
	r->started = true;
	r->resume = false;
	if (!t->started_ms)
		t->started_ms = now.real_ms;
	if (t->local && !t->end_mono_ns)
		t->end_mono_ns = end_after(now.mono_ns, t->task.duration_ns);
	if (resumed)
		r->end_mono_ns = add_saturated(now.mono_ns,
					       schedule_remaining_ns(&t->task, r->started_ms, now));
	else
		r->end_mono_ns = end_after(now.mono_ns, t->task.duration_ns);
	if (t->local && t->end_mono_ns < r->end_mono_ns)
		r->end_mono_ns = t->end_mono_ns;
	if (!resumed)
		r->started_ms = now.real_ms;
	schedule_emit(s, SCHEDULE_START, t, r);
	schedule_emit_event(s, t, r, resumed ? TASK_EVENT_RESUMED : TASK_EVENT_STARTED,
			    "on instance '%s'", r->instance);
}

void schedule_finish_run(struct schedule *s, struct schedule_task *t, struct schedule_run *r,
			 struct schedule_now now)
{
	struct schedule_action *a;

	if (!schedule_has_room(s))
		return;
	r->state = TASK_STATE_FINISHED;
	r->finished_ms = now.real_ms;
	r->trouble[0] = 0;
	if (!r->started)
		return;
	a = schedule_emit(s, SCHEDULE_FINISHED, t, r);
	a->event = r->how;
}

void schedule_stop_run(struct schedule *s, struct schedule_task *t, struct schedule_run *r,
		       enum task_event how, const char *why, struct schedule_now now)
{
	if (!schedule_has_room(s))
		return;
	if (r->state == TASK_STATE_RUNNING) {
		r->state = TASK_STATE_FLUSHING;
		r->flush_mono_ns = now.mono_ns + s->limits.flush_ns;
		r->how = how;
		schedule_emit(s, SCHEDULE_STOP, t, r);
		schedule_emit_event(s, t, r, how, "%s", why);
	} else if (r->state == TASK_STATE_QUEUED) {
		r->how = how;
		schedule_emit_event(s, t, r, how, "%s", why);
		schedule_finish_run(s, t, r, now);
	}
}

/* ---- the task as a whole ---- */

static void trim_runs(struct schedule_task *t)
{
	size_t n_finished = 0, kept = 0, drop;

	for (size_t i = 0; i < t->runs.n; i++)
		n_finished += !is_active(&t->runs.at[i]);
	drop = n_finished > OLD_RUNS_KEPT ? n_finished - OLD_RUNS_KEPT : 0;
	for (size_t i = 0; drop && i < t->runs.n; i++) {
		if (drop && !is_active(&t->runs.at[i])) {
			t->n_old_runs++;
			drop--;
			t->runs.at[i].instance_id = 0;
			t->runs.at[i].state = TASK_STATE_REJECTED; /* marked for removal */
		}
	}
	for (size_t i = 0; i < t->runs.n; i++)
		if (t->runs.at[i].state != TASK_STATE_REJECTED)
			t->runs.at[kept++] = t->runs.at[i];
	t->runs.n = kept;
}

/* A local task without an end goes on when its instances are gone, unless all used up their spans. */
static bool has_more_to_do(const struct schedule_task *t)
{
	if (t->task.duration_ns)
		return false;
	for (size_t i = 0; i < t->runs.n; i++)
		if (t->runs.at[i].how == TASK_EVENT_LOST)
			return true;
	return !t->task.end_by_count;
}

void schedule_settle(struct schedule *s, struct schedule_task *t, struct schedule_now now)
{
	enum task_state before = t->state;

	trim_runs(t);
	if (has_run_in(t, TASK_STATE_RUNNING)) {
		t->state = TASK_STATE_RUNNING;
	} else if (has_run_in(t, TASK_STATE_FLUSHING)) {
		t->state = TASK_STATE_FLUSHING;
	} else if (has_run_in(t, TASK_STATE_QUEUED)) {
		t->state = TASK_STATE_QUEUED;
	} else {
		if (!t->local ||
		    (t->started_ms && !has_more_to_do(t) && now.mono_ns >= t->hold_mono_ns))
			t->closed = true;
		t->state = t->closed ? TASK_STATE_FINISHED : TASK_STATE_QUEUED;
	}
	if (t->state == TASK_STATE_FINISHED && before != TASK_STATE_FINISHED) {
		t->finished_ms = now.real_ms;
		s->n_finished++;
	} else if (t->state != TASK_STATE_FINISHED && before == TASK_STATE_FINISHED) {
		t->finished_ms = 0;
		s->n_finished--;
	}
}

static void forget_oldest(struct schedule *s)
{
	size_t oldest = SIZE_MAX;

	for (size_t i = 0; i < s->tasks.n; i++) {
		if (s->tasks.at[i]->state != TASK_STATE_FINISHED)
			continue;
		if (oldest == SIZE_MAX ||
		    s->tasks.at[i]->finished_ms < s->tasks.at[oldest]->finished_ms)
			oldest = i;
	}
	if (oldest == SIZE_MAX || !schedule_has_room(s))
		return;
	schedule_emit(s, SCHEDULE_FORGET, s->tasks.at[oldest], NULL);
	memmove(&s->tasks.at[oldest], &s->tasks.at[oldest + 1],
		(s->tasks.n - oldest - 1) * sizeof(s->tasks.at[0]));
	s->tasks.n--;
	s->n_finished--;
}

/* ---- time ---- */

static void tick_run(struct schedule *s, struct schedule_task *t, struct schedule_run *r,
		     struct schedule_now now)
{
	if (r->state == TASK_STATE_RUNNING && now.mono_ns >= r->end_mono_ns)
		schedule_stop_run(s, t, r, TASK_EVENT_FINISHED, "its time is over", now);
	else if (r->state == TASK_STATE_FLUSHING && now.mono_ns >= r->flush_mono_ns)
		schedule_finish_run(s, t, r, now);
	else if (r->state == TASK_STATE_QUEUED && !r->instance_id &&
		 now.mono_ns >= r->flush_mono_ns)
		schedule_stop_run(s, t, r, r->resume ? TASK_EVENT_INTERRUPTED : TASK_EVENT_LOST,
				  "its instance did not come back after the agent was restarted",
				  now);
}

static void close_unmatched(struct schedule *s, struct schedule_task *t, struct schedule_now now)
{
	int64_t from = t->task.start_ms > 0 ? t->task.start_ms : t->received_ms;
	int64_t wait = t->task.duration_ns / NS_PER_MS;

	if (wait < UNMATCHED_MIN_MS)
		wait = UNMATCHED_MIN_MS;
	if (!t->task.duration_ns || t->started_ms || t->runs.n || now.real_ms - from < wait ||
	    !schedule_has_room(s))
		return;
	t->closed = true;
	schedule_emit_event(s, t, NULL, TASK_EVENT_FINISHED,
			    "no instance of service '%.100s' that it selects has appeared",
			    t->task.service);
}

static void tick_task(struct schedule *s, struct schedule_task *t, size_t *n_running,
		      struct schedule_now now)
{
	bool was_running;

	for (size_t i = 0; i < t->runs.n; i++)
		tick_run(s, t, &t->runs.at[i], now);
	if (t->local && t->started_ms && !t->end_mono_ns)
		t->end_mono_ns = add_saturated(now.mono_ns,
					       schedule_remaining_ns(&t->task, t->started_ms, now));
	if (t->local && t->end_mono_ns && now.mono_ns >= t->end_mono_ns)
		t->closed = true;
	was_running = has_run_in(t, TASK_STATE_RUNNING);
	if (!t->closed && now.real_ms >= t->task.start_ms &&
	    (was_running || *n_running < s->limits.max_running)) {
		for (size_t i = 0; i < t->runs.n; i++) {
			struct schedule_run *r = &t->runs.at[i];

			if (r->state == TASK_STATE_QUEUED && r->instance_id && !r->resume)
				schedule_start_run(s, t, r, now);
		}
		if (!was_running && has_run_in(t, TASK_STATE_RUNNING))
			(*n_running)++;
		if (t->local)
			close_unmatched(s, t, now);
	}
	schedule_settle(s, t, now);
}

void schedule_tick(struct schedule *s, struct schedule_now now)
{
	size_t n_running = 0;

	s->ticked = now;
	for (size_t i = 0; i < s->tasks.n; i++)
		n_running += has_run_in(s->tasks.at[i], TASK_STATE_RUNNING);
	for (size_t i = 0; i < s->tasks.n; i++)
		if (s->tasks.at[i]->state != TASK_STATE_FINISHED)
			tick_task(s, s->tasks.at[i], &n_running, now);
	while (s->n_finished > s->limits.max_finished) {
		size_t before = s->n_finished;

		forget_oldest(s);
		if (s->n_finished == before)
			break;
	}
}

static uint64_t run_deadline(const struct schedule_run *r)
{
	if (r->state == TASK_STATE_RUNNING)
		return r->end_mono_ns;
	if (r->state == TASK_STATE_FLUSHING || (r->state == TASK_STATE_QUEUED && !r->instance_id))
		return r->flush_mono_ns;
	return UINT64_MAX;
}

/* A wall clock can be set: it is looked at once a second, and at the start itself. */
static uint64_t start_deadline(const struct schedule *s, const struct task *t,
			       struct schedule_now now)
{
	uint64_t look_ns = s->ticked.mono_ns + LOOK_NS;
	int64_t wait_ms = t->start_ms - now.real_ms;

	if (wait_ms <= 0)
		return t->start_ms > s->ticked.real_ms ? 0 : look_ns;
	if (wait_ms >= (int64_t)(LOOK_NS / NS_PER_MS))
		return look_ns;
	return now.mono_ns + (uint64_t)wait_ms * NS_PER_MS < look_ns
		       ? now.mono_ns + (uint64_t)wait_ms * NS_PER_MS
		       : look_ns;
}

uint64_t schedule_deadline(const struct schedule *s, struct schedule_now now)
{
	uint64_t deadline = UINT64_MAX;

	for (size_t i = 0; i < s->tasks.n; i++) {
		const struct schedule_task *t = s->tasks.at[i];

		if (t->state == TASK_STATE_FINISHED)
			continue;
		for (size_t k = 0; k < t->runs.n; k++)
			if (run_deadline(&t->runs.at[k]) < deadline)
				deadline = run_deadline(&t->runs.at[k]);
		if (t->state == TASK_STATE_QUEUED && start_deadline(s, &t->task, now) < deadline)
			deadline = start_deadline(s, &t->task, now);
	}
	return deadline;
}
