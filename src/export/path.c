/* SPDX-License-Identifier: Apache-2.0 */
/* path.c: paths from the endpoint's function to the leaf (see path.h). */
#include "export/path.h"

#include <errno.h>

#include "base/cleanup.h"

static const char *const incomplete[] = {
	[STACK_STOP_NO_WINDOW] = "[incomplete: no_window]",
	[STACK_STOP_FOREIGN] = "[incomplete: foreign]",
	[STACK_STOP_TRUNCATED] = "[incomplete: truncated]",
	[STACK_STOP_NO_MODULE] = "[incomplete: no_module]",
	[STACK_STOP_NO_CFI] = "[incomplete: no_cfi]",
	[STACK_STOP_BAD_CFI] = "[incomplete: bad_cfi]",
	[STACK_STOP_RANGE] = "[incomplete: range]",
	[STACK_STOP_DEPTH] = "[incomplete: depth]",
	[STACK_STOP_PAST] = "[incomplete: past]",
	[STACK_STOP_NONE] = NULL,
};
_Static_assert(ARRAY_SIZE(incomplete) == STACK_STOP_MAX, "incomplete");

static const char *const blocked[] = {
	[BLOCK_NONE] = "[blocked]",         [BLOCK_LOCK] = "[blocked: lock]",
	[BLOCK_SLEEP] = "[blocked: sleep]", [BLOCK_POLL] = "[blocked: poll]",
	[BLOCK_NET] = "[blocked: net]",     [BLOCK_FILE] = "[blocked: io]",
	[BLOCK_DISK] = "[blocked: disk]",   [BLOCK_FAULT] = "[blocked: fault]",
	[BLOCK_CHILD] = "[blocked: child]", [BLOCK_OTHER] = "[blocked: other]",
};
_Static_assert(ARRAY_SIZE(blocked) == BLOCK_CAUSE_MAX, "blocked");

const char *path_incomplete(enum stack_stop stop)
{
	return (unsigned int)stop < STACK_STOP_MAX ? incomplete[stop] : "[incomplete]";
}

const char *path_state(const struct profile_sample *s)
{
	if (s->kind == SAMPLE_RUNQ)
		return "[run queue]";
	if (s->kind == SAMPLE_BLOCKED)
		return s->cause < BLOCK_CAUSE_MAX ? blocked[s->cause] : "[blocked]";
	return NULL;
}

int paths_init(struct paths *ret, const struct profile *p)
{
	uint32_t *roots = calloc(p->endpoints.n, sizeof(*roots));

	if (!roots)
		return -ENOMEM;
	for (size_t i = 1; i < p->samples.n; i++) {
		const struct profile_sample *s = &p->samples.at[i];
		const struct profile_stack *stack = &p->stacks.at[s->stack];
		uint32_t *root = &roots[p->spans.at[s->span].endpoint];

		if (!*root && stack->stop == STACK_STOP_ENDPOINT && stack->n)
			*root = p->stack_runs.at[stack->first + stack->n - 1];
	}
	*ret = (struct paths){.p = p, .roots = roots};
	return 0;
}

void paths_deinit(struct paths *ps)
{
	free(ps->roots);
	vec_free(&ps->path);
}

static int push_location(struct paths *ps, uint32_t location)
{
	const struct profile_location *l = &ps->p->locations.at[location];
	int r = 0;

	for (uint32_t j = l->n_frames; j-- > 0 && !r;)
		r = vec_push(&ps->path, (struct path_frame){
						.frame = ps->p->frame_runs.at[l->first_frame + j]});
	return r;
}

static int push_text(struct paths *ps, const char *text)
{
	return vec_push(&ps->path, (struct path_frame){.text = text});
}

static uint32_t outermost_function(const struct profile *p, uint32_t location)
{
	const struct profile_location *l = &p->locations.at[location];

	if (!l->n_frames)
		return 0;
	return p->frames.at[p->frame_runs.at[l->first_frame + l->n_frames - 1]].function;
}

/* The pipeline puts the endpoint's frame under stacks that do not reach it, with the reason. */
static bool is_rooted(const struct paths *ps, const struct profile_stack *stack, uint32_t endpoint)
{
	const struct profile *p = ps->p;
	uint32_t function;

	if (!stack->n)
		return false;
	function = outermost_function(p, p->stack_runs.at[stack->first + stack->n - 1]);
	if (ps->roots[endpoint])
		return function == outermost_function(p, ps->roots[endpoint]);
	return function == p->endpoints.at[endpoint].name;
}

int paths_of(struct paths *ps, const struct profile_sample *s)
{
	const struct profile *p = ps->p;
	const struct profile_stack *stack = &p->stacks.at[s->stack];
	uint32_t endpoint = p->spans.at[s->span].endpoint;
	int r = 0;

	ps->path.n = 0;
	if (stack->stop != STACK_STOP_ENDPOINT && !is_rooted(ps, stack, endpoint)) {
		r = ps->roots[endpoint]
			    ? push_location(ps, ps->roots[endpoint])
			    : push_text(ps,
					strpool_get(p->strings, p->endpoints.at[endpoint].name));
		if (!r && path_incomplete(stack->stop))
			r = push_text(ps, path_incomplete(stack->stop));
	}
	for (uint32_t i = stack->n; i-- > 0 && !r;)
		r = push_location(ps, p->stack_runs.at[stack->first + i]);
	return r;
}

const char *paths_text(const struct paths *ps, const struct path_frame *f)
{
	return f->text ? f->text : strpool_get(ps->p->strings, ps->p->frames.at[f->frame].function);
}
