/* SPDX-License-Identifier: Apache-2.0 */
/*
 * textpaths.c: the stacks of one span as paths of texts.
 */
#include "net/textpaths.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "net/label.h"

enum { TEXT_BYTES_MAX = 8 << 20, DEPTH_MIN = 4 };

static const char left_out_text[] = "[frames left out]";

/* Id 0, the empty text, when the pool is full: the frame is left out then. */
static int add_text(struct textpaths *ps, const char *text, uint32_t *ret_id)
{
	char clean[LABEL_FRAME_MAX * 4 + 1];
	int r;

	label_copy(clean, sizeof(clean), text, LABEL_FRAME_MAX);
	*ret_id = 0;
	r = strpool_add(ps->strings, clean, ret_id);
	return r == -ENOSPC ? 0 : r;
}

static int format_frame(struct textpaths *ps, uint32_t module, const struct profile_frame *f,
			uint32_t *ret_text)
{
	const struct profile *p = ps->profile;
	const char *function = strpool_get(p->strings, f->function);
	const char *path = strpool_get(p->strings, p->modules.at[module].path);
	bool is_whole = f->flags & (PROFILE_FRAME_SYNTHETIC | PROFILE_FRAME_UNKNOWN);
	char text[4096];

	if (f->line && !ps->no_lines)
		/* What is cut off is the function's end, never the line. */
		snprintf(text, sizeof(text), "%.*s:%u", LABEL_FRAME_MAX - 16, function, f->line);
	else if (*path && !ps->no_lines && !is_whole)
		snprintf(text, sizeof(text), "%s.%s", text_base_name(path), function);
	else
		snprintf(text, sizeof(text), "%s", function);
	return add_text(ps, text, ret_text);
}

static int frame_text(struct textpaths *ps, uint32_t module, uint32_t frame, uint32_t *ret_text)
{
	uint64_t key = (uint64_t)module << 32 | frame, *found = hash_get(&ps->frames, key);
	int r;

	if (found) {
		*ret_text = *found;
		return 0;
	}
	r = format_frame(ps, module, &ps->profile->frames.at[frame], ret_text);
	return r ? r : hash_set(&ps->frames, key, *ret_text);
}

/* Kernel frames without symbols all say "[kernel]": one of them says it all. */
static bool is_repeat(const struct textpaths *ps, uint32_t frame, uint32_t text)
{
	return ps->profile->frames.at[frame].flags & PROFILE_FRAME_KERNEL && ps->scratch.n > 1 &&
	       ps->scratch.at[ps->scratch.n - 1] == text;
}

/* The frame texts of a stack, outermost first, into scratch. */
static int stack_texts(struct textpaths *ps, const struct profile_stack *stack)
{
	const struct profile *p = ps->profile;
	uint32_t text;
	int r = 0;

	for (uint32_t i = stack->n; i-- > 0 && !r;) {
		const struct profile_location *l =
			&p->locations.at[p->stack_runs.at[stack->first + i]];

		for (uint32_t j = l->n_frames; j-- > 0 && !r;) {
			uint32_t frame = p->frame_runs.at[l->first_frame + j];

			r = frame_text(ps, l->module, frame, &text);
			if (!r && !is_repeat(ps, frame, text))
				r = vec_push(&ps->scratch, text);
		}
	}
	return r;
}

static const char *outermost_function(const struct profile *p, const struct profile_stack *stack)
{
	const struct profile_location *l;

	if (!stack->n)
		return "";
	l = &p->locations.at[p->stack_runs.at[stack->first + stack->n - 1]];
	if (!l->n_frames)
		return "";
	return strpool_get(
		p->strings,
		p->frames.at[p->frame_runs.at[l->first_frame + l->n_frames - 1]].function);
}

/* Root first: how every stack of the span begins, and why this one does not reach the root. */
static int begin_texts(struct textpaths *ps, const struct profile_stack *stack)
{
	char text[64];
	uint32_t id;
	int r;

	ps->scratch.n = 0;
	/* Its own outermost frame stands for the root. */
	if (stack->stop == STACK_STOP_ENDPOINT ||
	    strcmp(outermost_function(ps->profile, stack), ps->root_function) == 0)
		return 0;
	r = vec_push(&ps->scratch, ps->nodes.at[0].text);
	if (r || stack->stop == STACK_STOP_NONE)
		return r;
	snprintf(text, sizeof(text), "[incomplete: %s]", stack_stop_name(stack->stop));
	r = add_text(ps, text, &id);
	return r ? r : vec_push(&ps->scratch, id);
}

/* Keeps the outer and the inner half when there are too many. */
static int limit_depth(struct textpaths *ps)
{
	uint32_t n = ps->scratch.n, max = ps->max_depth, outer = max / 2, inner = max - outer - 1;
	uint32_t *at = ps->scratch.at;

	if (n <= max)
		return 0;
	ps->n_deep++;
	memmove(at + outer + 1, at + n - inner, inner * sizeof(*at));
	ps->scratch.n = max;
	return add_text(ps, left_out_text, &at[outer]);
}

static int child(struct textpaths *ps, uint32_t parent, uint32_t text, uint32_t *ret_node)
{
	uint64_t key = (uint64_t)parent << 32 | text, *found = hash_get(&ps->children, key);
	int r;

	if (found) {
		*ret_node = *found;
		return 0;
	}
	r = vec_push(&ps->nodes, (struct textpath_node){.text = text, .parent = parent});
	if (r)
		return r;
	*ret_node = ps->nodes.n - 1;
	return hash_set(&ps->children, key, *ret_node);
}

/* scratch -> path; scratch[0] stands for the root whatever it says. */
static int add_path(struct textpaths *ps, bool synthetic, uint32_t *ret_path)
{
	struct textpath path = {.first = ps->node_runs.n, .synthetic = synthetic};
	uint32_t node = 0;
	uint64_t *found;
	int r;

	r = vec_push(&ps->node_runs, 0);
	for (size_t i = 1; i < ps->scratch.n && !r; i++) {
		r = child(ps, node, ps->scratch.at[i], &node);
		if (!r)
			r = vec_push(&ps->node_runs, node);
	}
	if (r)
		return r;
	found = hash_get(&ps->by_leaf, node);
	if (found) {
		ps->node_runs.n = path.first;
		*ret_path = *found;
		return 0;
	}
	path.n = ps->node_runs.n - path.first;
	*ret_path = ps->list.n;
	r = vec_push(&ps->list, path);
	return r ? r : hash_set(&ps->by_leaf, node, *ret_path);
}

int textpaths_of_stack(struct textpaths *ps, uint32_t stack, uint32_t *ret_path)
{
	const struct profile_stack *s = &ps->profile->stacks.at[stack];
	uint64_t *found = hash_get(&ps->by_stack, stack);
	int r;

	if (found) {
		*ret_path = *found;
		return 0;
	}
	r = begin_texts(ps, s);
	if (!r)
		r = stack_texts(ps, s);
	if (!r)
		r = limit_depth(ps);
	if (!r)
		r = add_path(ps, s->stop == STACK_STOP_NONE, ret_path);
	return r ? r : hash_set(&ps->by_stack, stack, *ret_path);
}

/* The outermost function of the first complete stack; without one, the endpoint's name. */
static const char *root_name(const struct profile *p, const struct profile_span *span)
{
	for (uint32_t i = 0; i < span->n_samples; i++) {
		const struct profile_sample *sample = &p->samples.at[span->first_sample + i];
		const struct profile_stack *stack = &p->stacks.at[sample->stack];

		if (stack->stop == STACK_STOP_ENDPOINT && *outermost_function(p, stack))
			return outermost_function(p, stack);
	}
	return strpool_get(p->strings, p->endpoints.at[span->endpoint].name);
}

int textpaths_init(struct textpaths *ret, const struct profile *p, uint32_t span,
		   uint32_t max_depth, bool no_lines)
{
	struct textpath_node root = {};
	int r;

	*ret = (struct textpaths){
		.profile = p,
		.max_depth = max_depth < DEPTH_MIN ? DEPTH_MIN : max_depth,
		.no_lines = no_lines,
		.root_function = root_name(p, &p->spans.at[span]),
	};
	hash_init(&ret->children);
	hash_init(&ret->by_leaf);
	hash_init(&ret->by_stack);
	hash_init(&ret->frames);
	r = strpool_new(&ret->strings, TEXT_BYTES_MAX);
	if (!r)
		r = add_text(ret, ret->root_function, &root.text);
	if (!r && !root.text)
		r = add_text(ret, "[endpoint]", &root.text);
	if (!r)
		r = vec_push(&ret->nodes, root);
	if (r)
		textpaths_deinit(ret);
	return r;
}

void textpaths_deinit(struct textpaths *ps)
{
	strpool_free(ps->strings);
	vec_free(&ps->nodes);
	vec_free(&ps->node_runs);
	vec_free(&ps->list);
	vec_free(&ps->scratch);
	hash_deinit(&ps->children);
	hash_deinit(&ps->by_leaf);
	hash_deinit(&ps->by_stack);
	hash_deinit(&ps->frames);
	*ps = (struct textpaths){};
}
