/* SPDX-License-Identifier: Apache-2.0 */
#include "task/schedule.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "task/schedule_run.h"

enum {
	TASKS_DEFAULT = 256,
	RUNNING_DEFAULT = 16,
	FINISHED_DEFAULT = 256,
	REFUSALS_MAX = 1024, /* actions that wait, beyond which refusals are only counted */
};

#define NS_PER_MS         1000000ULL
#define FLUSH_DEFAULT_NS  (2000 * NS_PER_MS)
#define RESUME_DEFAULT_NS (30000 * NS_PER_MS)

int schedule_new(struct schedule **ret, const struct schedule_limits *limits)
{
	struct schedule *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	if (limits)
		s->limits = *limits;
	if (!s->limits.max_tasks)
		s->limits.max_tasks = TASKS_DEFAULT;
	if (!s->limits.max_running)
		s->limits.max_running = RUNNING_DEFAULT;
	if (!s->limits.max_finished)
		s->limits.max_finished = FINISHED_DEFAULT;
	if (!s->limits.flush_ns)
		s->limits.flush_ns = FLUSH_DEFAULT_NS;
	if (!s->limits.resume_ns)
		s->limits.resume_ns = RESUME_DEFAULT_NS;
	*ret = s;
	return 0;
}

void schedule_set_limits(struct schedule *s, uint32_t max_tasks, uint32_t max_running)
{
	s->limits.max_tasks = max_tasks ? max_tasks : TASKS_DEFAULT;
	s->limits.max_running = max_running ? max_running : RUNNING_DEFAULT;
}

static void free_task(struct schedule_task *t)
{
	if (t)
		vec_free(&t->runs);
	free(t);
}

struct schedule *schedule_free(struct schedule *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < s->tasks.n; i++)
		free_task(s->tasks.at[i]);
	for (size_t i = s->next_action; i < s->actions.n; i++)
		if (s->actions.at[i].kind == SCHEDULE_FORGET)
			free_task(s->actions.at[i].task);
	free_task(s->forgotten);
	vec_free(&s->tasks);
	vec_free(&s->instances);
	vec_free(&s->actions);
	free(s);
	return NULL;
}

/* ---- tasks in and out ---- */

static bool same_content(const struct task *a, const struct task *b)
{
	return !strcmp(a->service, b->service) && !strcmp(a->instance, b->instance) &&
	       !strcmp(a->endpoint, b->endpoint) && a->start_ms == b->start_ms &&
	       a->duration_ns == b->duration_ns && a->threshold_ns == b->threshold_ns &&
	       a->period_ns == b->period_ns && a->max_spans == b->max_spans;
}

/* An instance that both would run on now. */
static bool share_instance(const struct schedule *s, const struct schedule_task *a,
			   const struct task *b, uint32_t b_instance_id)
{
	if (!strcmp(a->task.instance, b->instance) && (a->local || !b_instance_id))
		return true;
	for (size_t i = 0; i < s->instances.n; i++) {
		const struct known_instance *k = &s->instances.at[i];

		if (b_instance_id && k->id != b_instance_id)
			continue;
		if (!a->local && !schedule_active_run((struct schedule_task *)a, k->id))
			continue;
		if (schedule_selects(&a->task, k) && schedule_selects(b, k))
			return true;
	}
	return false;
}

/* What is left of a task that has started, by the clock that nobody can set; 0: no end. */
static int64_t left_ms(const struct schedule_task *t, struct schedule_now now)
{
	uint64_t end_ns = t->end_mono_ns;

	if (!t->task.duration_ns)
		return 0;
	for (size_t i = 0; i < t->runs.n; i++)
		if (t->runs.at[i].end_mono_ns > end_ns)
			end_ns = t->runs.at[i].end_mono_ns;
	if (!end_ns) /* restored, and its instances are not back */
		return (int64_t)(schedule_remaining_ns(&t->task, t->started_ms, now) / NS_PER_MS) +
		       1;
	return end_ns > now.mono_ns ? (int64_t)((end_ns - now.mono_ns) / NS_PER_MS) : 1;
}

static bool times_overlap(const struct schedule_task *a, const struct task *b,
			  struct schedule_now now)
{
	int64_t a_start =
		a->task.start_ms > now.real_ms && !a->started_ms ? a->task.start_ms : now.real_ms;
	int64_t b_start = b->start_ms > now.real_ms ? b->start_ms : now.real_ms;
	int64_t a_ms = a->started_ms ? left_ms(a, now) : (int64_t)(a->task.duration_ns / NS_PER_MS);
	int64_t b_ms = b->duration_ns / NS_PER_MS;

	/* No end: overlaps everything after its start. */
	return (!a_ms || b_start <= a_start + a_ms) && (!b_ms || a_start <= b_start + b_ms);
}

static int check_overlap(const struct schedule *s, const struct task *task, uint32_t instance_id,
			 struct schedule_now now, struct errmsg *e)
{
	size_t n_live = 0;

	for (size_t i = 0; i < s->tasks.n; i++) {
		const struct schedule_task *a = s->tasks.at[i];

		if (a->state == TASK_STATE_FINISHED)
			continue;
		n_live++;
		if (strcmp(a->task.source, task->source) ||
		    strcmp(a->task.service, task->service) ||
		    strcmp(a->task.endpoint, task->endpoint) || a->closed)
			continue;
		if (times_overlap(a, task, now) && share_instance(s, a, task, instance_id))
			return errmsg_set(
				e, -EEXIST,
				"it overlaps with task '%s', which is %s for the same service and endpoint; cancel that one or choose a later start",
				a->task.id, task_state_name(a->state));
	}
	if (n_live >= s->limits.max_tasks)
		return errmsg_set(
			e, -ENOSPC,
			"%u tasks are queued or running, which is the limit; cancel one or raise limits.tasks in the rules file",
			s->limits.max_tasks);
	return 0;
}

static void refuse(struct schedule *s, const struct task *task, const struct known_instance *i,
		   enum task_event event, const char *why)
{
	struct schedule_action *a = NULL;

	/* A server may send tasks without end before anybody looks at what became of them. */
	if (s->actions.n - s->next_action < REFUSALS_MAX)
		a = schedule_emit(s, SCHEDULE_EVENT, NULL, NULL);
	if (!a) {
		s->n_untold++;
		return;
	}
	a->event = event;
	memcpy(a->source, task->source, sizeof(a->source));
	memcpy(a->id, task->id, sizeof(a->id));
	if (i) {
		a->instance_id = i->id;
		memcpy(a->instance, i->name, sizeof(a->instance));
	}
	snprintf(a->why, sizeof(a->why), "%s", why);
}

static enum task_answer resubmit(struct schedule *s, struct schedule_task *t,
				 const struct task *task, const struct known_instance *only,
				 struct schedule_now now)
{
	/* A local one is refused, which its sender is told. */
	if (only && !same_content(&t->task, task) && !t->clash_noted) {
		t->clash_noted = true;
		schedule_emit_event(
			s, t, NULL, TASK_EVENT_NOTE,
			"it came again with other values: the first ones stay in force");
	}
	if (t->local || !only || !schedule_selects(&t->task, only))
		return TASK_KNOWN;
	for (size_t i = 0; i < t->runs.n; i++)
		if (!strcmp(t->runs.at[i].instance, only->name))
			return TASK_KNOWN;
	if (!schedule_add_run(t, only))
		return TASK_REFUSED;
	t->closed = false;
	schedule_emit_event(s, t, &t->runs.at[t->runs.n - 1], TASK_EVENT_RECEIVED,
			    "for instance '%s'", only->name);
	schedule_settle(s, t, now);
	schedule_tick(s, now);
	return TASK_ACCEPTED;
}

static int add_task(struct schedule *s, const struct task *task, const struct known_instance *only,
		    struct schedule_now now, struct schedule_task **ret)
{
	AUTO_FREE struct schedule_task *t = calloc(1, sizeof(*t));
	int r = t ? 0 : -ENOMEM;

	if (r)
		return r;
	t->task = *task;
	t->local = !only;
	t->state = TASK_STATE_QUEUED;
	t->received_ms = now.real_ms;
	if (only && !schedule_add_run(t, only))
		return -ENOMEM;
	for (size_t i = 0; !only && i < s->instances.n; i++)
		if (s->instances.at[i].accepts && schedule_selects(task, &s->instances.at[i]) &&
		    !schedule_add_run(t, &s->instances.at[i]))
			r = -ENOMEM;
	if (!r)
		r = vec_push(&s->tasks, t);
	if (r) {
		vec_free(&t->runs);
		return r;
	}
	*ret = TAKE_PTR(t);
	return 0;
}

/* Whether the only instance that a delivered task may run on takes it. */
static bool takes(const struct task *task, const struct known_instance *only, struct errmsg *e)
{
	if (!schedule_selects(task, only)) {
		errmsg_set(e, 0, "it is for instance '%.200s'", task->instance);
		return false;
	}
	if (!only->accepts) {
		errmsg_set(e, 0, "the rules do not let instance '%.150s' accept tasks", only->name);
		return false;
	}
	return true;
}

enum task_answer schedule_submit(struct schedule *s, const struct task *task, uint32_t instance_id,
				 struct schedule_now now, struct errmsg *e)
{
	const struct known_instance *only =
		instance_id ? schedule_find_instance(s, instance_id) : NULL;
	struct schedule_task *t = schedule_find(s, task->source, task->id);
	struct errmsg why = {};
	int r;

	if (!e)
		e = &why;
	if (instance_id && !only) {
		errmsg_set(e, 0, "its instance is gone");
		return TASK_NOT_FOR_US;
	}
	if (t)
		return resubmit(s, t, task, only, now);
	r = task_check(task, TASK_LIMITS_LOCAL, e);
	if (!r && only && !takes(task, only, e)) {
		refuse(s, task, only, TASK_EVENT_NOT_FOR_US, e->text);
		return TASK_NOT_FOR_US;
	}
	if (!r)
		r = check_overlap(s, task, instance_id, now, e);
	if (!r) {
		r = add_task(s, task, only, now, &t);
		if (r)
			errmsg_set(e, r, "out of memory");
	}
	if (r) {
		refuse(s, task, only, TASK_EVENT_REJECTED, e->text);
		return TASK_REFUSED;
	}
	schedule_emit_event(s, t, only ? &t->runs.at[0] : NULL, TASK_EVENT_RECEIVED, "from %s",
			    task->source);
	schedule_tick(s, now);
	return t->runs.n ? TASK_ACCEPTED : TASK_NOT_FOR_US;
}

static bool has_active_run(const struct schedule_task *t)
{
	for (size_t i = 0; i < t->runs.n; i++)
		if (t->runs.at[i].state != TASK_STATE_FINISHED)
			return true;
	return false;
}

int schedule_cancel(struct schedule *s, const char *source, const char *id, struct schedule_now now,
		    struct errmsg *e)
{
	struct schedule_task *t = schedule_find(s, source, id);

	if (!t)
		return errmsg_set(e, -ENOENT, "there is no task '%.100s'; see `spanprof task list`",
				  id);
	if (t->state == TASK_STATE_FINISHED)
		return errmsg_set(e, -EALREADY, "task '%.100s' has finished already", id);
	t->closed = true;
	if (!has_active_run(t)) {
		t->cancelled = true;
		schedule_emit_event(s, t, NULL, TASK_EVENT_CANCELLED, "cancelled");
	}
	for (size_t i = 0; i < t->runs.n; i++)
		schedule_stop_run(s, t, &t->runs.at[i], TASK_EVENT_CANCELLED, "cancelled", now);
	schedule_settle(s, t, now);
	schedule_tick(s, now);
	return 0;
}

/* ---- instances ---- */

static bool is_counted_out(const struct schedule_task *t, const struct schedule_run *r)
{
	return t->task.end_by_count && r->n_spans >= t->task.max_spans;
}

/* Its instances have been here: after a restart, none is waited for any longer than its run says. */
static void count_out(struct schedule *s, struct schedule_task *t, struct schedule_run *r,
		      struct schedule_now now)
{
	t->hold_mono_ns = 0;
	schedule_stop_run(s, t, r, TASK_EVENT_FINISHED, "its count of spans is reached", now);
}

static void come_back(struct schedule *s, struct schedule_task *t, const struct known_instance *k,
		      struct schedule_now now)
{
	for (size_t i = 0; i < t->runs.n; i++) {
		struct schedule_run *r = &t->runs.at[i];

		if (r->state != TASK_STATE_QUEUED || r->instance_id ||
		    strcmp(r->instance, k->name) || strcmp(t->task.service, k->service))
			continue;
		r->instance_id = k->id;
		if (!r->resume)
			continue;
		if (is_counted_out(t, r))
			count_out(s, t, r, now);
		else if (schedule_remaining_ns(&t->task, r->started_ms, now))
			schedule_start_run(s, t, r, now);
		else
			schedule_stop_run(s, t, r, TASK_EVENT_INTERRUPTED,
					  "its time was over while the agent did not run", now);
	}
}

/* An instance of this name has used up its spans, maybe before a restart of the agent or of its own. */
static bool has_counted_out(const struct schedule_task *t, const char *instance)
{
	for (size_t i = 0; i < t->runs.n; i++)
		if (is_counted_out(t, &t->runs.at[i]) && !strcmp(t->runs.at[i].instance, instance))
			return true;
	return false;
}

static void join_local(struct schedule_task *t, const struct known_instance *k)
{
	if (!t->local || t->closed || !k->accepts || !schedule_selects(&t->task, k) ||
	    schedule_active_run(t, k->id) || has_counted_out(t, k->name))
		return;
	schedule_add_run(t, k);
}

int schedule_instance_up(struct schedule *s, const struct instance *i, bool accepts,
			 struct schedule_now now)
{
	struct known_instance k = {.id = i->id, .accepts = accepts};
	int r;

	snprintf(k.service, sizeof(k.service), "%s", i->service);
	snprintf(k.name, sizeof(k.name), "%s", i->name);
	r = vec_push(&s->instances, k);
	if (r)
		return r;
	for (size_t n = 0; n < s->tasks.n; n++) {
		if (s->tasks.at[n]->state == TASK_STATE_FINISHED)
			continue;
		come_back(s, s->tasks.at[n], &k, now);
		join_local(s->tasks.at[n], &k);
	}
	schedule_tick(s, now);
	return 0;
}

static void leave(struct schedule *s, struct schedule_task *t, uint32_t instance_id,
		  enum task_event how, const char *why, struct schedule_now now)
{
	struct schedule_run *r = schedule_active_run(t, instance_id);

	if (!r)
		return;
	if (t->local && r->state == TASK_STATE_QUEUED && !r->started) {
		*r = t->runs.at[--t->runs.n];
		return;
	}
	schedule_stop_run(s, t, r, how, why, now);
}

void schedule_instance_down(struct schedule *s, uint32_t instance_id, struct schedule_now now)
{
	struct known_instance *k = schedule_find_instance(s, instance_id);

	if (!k)
		return;
	*k = s->instances.at[--s->instances.n];
	for (size_t i = 0; i < s->tasks.n; i++)
		leave(s, s->tasks.at[i], instance_id, TASK_EVENT_LOST,
		      "all processes of the instance are gone", now);
	schedule_tick(s, now);
}

void schedule_instance_accepts(struct schedule *s, uint32_t instance_id, bool accepts,
			       struct schedule_now now)
{
	struct known_instance *k = schedule_find_instance(s, instance_id);

	if (!k || k->accepts == accepts)
		return;
	k->accepts = accepts;
	for (size_t i = 0; i < s->tasks.n; i++) {
		if (accepts && s->tasks.at[i]->state != TASK_STATE_FINISHED)
			join_local(s->tasks.at[i], k);
		if (!accepts)
			leave(s, s->tasks.at[i], instance_id, TASK_EVENT_CANCELLED,
			      "the new rules do not let the instance accept tasks", now);
	}
	schedule_tick(s, now);
}

/* ---- spans ---- */

bool schedule_take_span(struct schedule *s, struct schedule_task *t, uint32_t instance_id,
			struct schedule_now now)
{
	struct schedule_run *r = schedule_active_run(t, instance_id);

	if (!r || r->state == TASK_STATE_QUEUED)
		return false;
	if (t->task.max_spans && r->n_spans >= t->task.max_spans)
		return false;
	r->n_spans++;
	t->n_spans++;
	r->trouble[0] = 0;
	if (is_counted_out(t, r)) {
		count_out(s, t, r, now);
		schedule_settle(s, t, now);
	}
	return true;
}

void schedule_flushed(struct schedule *s, struct schedule_task *t, uint32_t instance_id,
		      struct schedule_now now)
{
	struct schedule_run *r = schedule_active_run(t, instance_id);

	if (!r || r->state != TASK_STATE_FLUSHING)
		return;
	schedule_finish_run(s, t, r, now);
	schedule_tick(s, now);
}

void schedule_note(struct schedule *s, struct schedule_task *t, uint32_t instance_id,
		   const char *why)
{
	struct schedule_run *r = schedule_active_run(t, instance_id);

	if (r)
		snprintf(r->trouble, sizeof(r->trouble), "%s", why);
	schedule_emit_event(s, t, r, TASK_EVENT_NOTE, "%s", why);
}

/* ---- out ---- */

bool schedule_next(struct schedule *s, struct schedule_action *ret)
{
	free_task(TAKE_PTR(s->forgotten));
	if (s->next_action >= s->actions.n) {
		s->next_action = s->actions.n = 0;
		return false;
	}
	*ret = s->actions.at[s->next_action++];
	if (ret->kind == SCHEDULE_FORGET)
		s->forgotten = ret->task;
	return true;
}

uint64_t schedule_n_untold(const struct schedule *s)
{
	return s->n_untold;
}

bool schedule_has_actions(const struct schedule *s)
{
	return s->next_action < s->actions.n;
}

size_t schedule_n_tasks(const struct schedule *s)
{
	return s->tasks.n;
}

struct schedule_task *schedule_task_at(const struct schedule *s, size_t idx)
{
	return s->tasks.at[idx];
}

struct schedule_task *schedule_find(const struct schedule *s, const char *source, const char *id)
{
	for (size_t i = 0; i < s->tasks.n; i++)
		if (!strcmp(s->tasks.at[i]->task.source, source) &&
		    !strcmp(s->tasks.at[i]->task.id, id))
			return s->tasks.at[i];
	return NULL;
}

/* ---- after a restart ---- */

int schedule_restore_task(struct schedule *s, const struct schedule_task *t,
			  struct schedule_now now)
{
	AUTO_FREE struct schedule_task *copy = malloc(sizeof(*copy));
	int r;

	if (!copy)
		return -ENOMEM;
	*copy = *t;
	memset(&copy->runs, 0, sizeof(copy->runs));
	copy->end_mono_ns = 0;
	copy->hold_mono_ns = now.mono_ns + s->limits.resume_ns;
	/* Local tasks that were running have their runs put back, or wait for their instances. */
	if (copy->state != TASK_STATE_FINISHED)
		copy->state = TASK_STATE_QUEUED;
	copy->closed = copy->state == TASK_STATE_FINISHED;
	r = vec_push(&s->tasks, copy);
	if (r)
		return r;
	s->n_finished += copy->state == TASK_STATE_FINISHED;
	TAKE_PTR(copy);
	return 0;
}

int schedule_restore_run(struct schedule *s, struct schedule_task *t,
			 const struct schedule_run *run, struct schedule_now now)
{
	struct schedule_run r = *run;

	r.instance_id = 0;
	r.started = r.started_ms != 0;
	r.resume = false;
	r.flush_mono_ns = now.mono_ns + s->limits.resume_ns;
	if (r.state == TASK_STATE_RUNNING) {
		r.state = TASK_STATE_QUEUED;
		r.resume = true;
	} else if (r.state == TASK_STATE_FLUSHING) {
		r.flush_mono_ns = now.mono_ns;
		if (t->state == TASK_STATE_FINISHED) { /* but for its server, which did not know */
			t->state = TASK_STATE_FLUSHING;
			s->n_finished--;
		}
		if (is_counted_out(t, &r))
			t->hold_mono_ns = 0; /* as in count_out() */
		else if (!r.finished_ms)
			r.how = TASK_EVENT_INTERRUPTED;
	} else if (r.state == TASK_STATE_QUEUED && t->local) {
		return 0; /* made anew when its instance is up */
	}
	return vec_push(&t->runs, r);
}
