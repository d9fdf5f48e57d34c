/* SPDX-License-Identifier: Apache-2.0 */
#include "task/rules_source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/vec.h"

struct task_id {
	char text[TASK_ID_MAX];
};

struct rules_source {
	struct task_source source; /* first */
	const struct rules *rules; /* borrowed until the next rules_source_set */
	const struct task_intake *intake;
	VEC(struct task_id) known; /* of the rules before */
	struct link_status status;
};

static bool is_in(const struct rules *rules, const char *id)
{
	for (unsigned int i = 0; i < rules->n_tasks; i++)
		if (!strcmp(rules->tasks[i].task.id, id))
			return true;
	return false;
}

static void apply(struct rules_source *s)
{
	for (size_t i = 0; i < s->known.n; i++)
		if (!is_in(s->rules, s->known.at[i].text))
			s->intake->cancel(s->intake->ctx, "rules", s->known.at[i].text, NULL);
	s->known.n = 0;
	for (unsigned int i = 0; i < s->rules->n_tasks; i++) {
		struct task t = s->rules->tasks[i].task;
		struct task_id id;

		t.create_ms = (int64_t)(clock_real_ns() / 1000000);
		if (s->intake->submit(s->intake->ctx, &t, 0, NULL) == TASK_REFUSED)
			s->status.n_errors++;
		else
			s->status.n_sent++;
		memcpy(id.text, t.id, sizeof(id.text));
		if (vec_push(&s->known, id))
			s->status.n_errors++;
	}
}

static int source_start(struct task_source *s, const struct task_intake *intake, struct errmsg *e)
{
	struct rules_source *r = (struct rules_source *)s;

	r->intake = intake;
	apply(r);
	return 0;
}

void rules_source_set(struct task_source *s, const struct rules *rules)
{
	struct rules_source *r = (struct rules_source *)s;

	r->rules = rules;
	if (r->intake)
		apply(r);
}

static int source_fd(const struct task_source *s)
{
	return -1;
}

static uint64_t source_deadline(const struct task_source *s)
{
	return UINT64_MAX;
}

static void source_dispatch(struct task_source *s, uint64_t mono_ns)
{
}

static void source_status(const struct task_source *s, struct link_status *ret)
{
	*ret = ((const struct rules_source *)s)->status;
	ret->state = "ready";
}

static struct task_source *source_free(struct task_source *s)
{
	if (s)
		vec_free(&((struct rules_source *)s)->known);
	free(s);
	return NULL;
}

static const struct task_source_ops ops = {
	.kind = "rules",
	.start = source_start,
	.fd = source_fd,
	.deadline_ns = source_deadline,
	.dispatch = source_dispatch,
	.status = source_status,
	.free = source_free,
};

int rules_source_new(struct task_source **ret, const struct rules *rules)
{
	struct rules_source *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->source = (struct task_source){.ops = &ops, .name = "rules"};
	s->rules = rules;
	*ret = &s->source;
	return 0;
}
