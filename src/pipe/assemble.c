/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/assemble.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"

struct assemble {
	struct hash spans;   /* span id -> struct open_span *, owned */
	struct hash threads; /* tid -> id of the span promoted last; others by next_in_thread */
	size_t max_open;
};

int assemble_new(struct assemble **ret, size_t max_open)
{
	struct assemble *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	hash_init(&a->spans);
	hash_init(&a->threads);
	a->max_open = max_open;
	*ret = a;
	return 0;
}

struct open_span *open_span_free(struct open_span *s)
{
	if (!s)
		return NULL;
	vec_free(&s->obs);
	free(s);
	return NULL;
}

struct assemble *assemble_free(struct assemble *a)
{
	uint64_t key, value;
	size_t pos = 0;

	if (!a)
		return NULL;
	while (hash_next(&a->spans, &pos, &key, &value))
		open_span_free((struct open_span *)(uintptr_t)value);
	hash_deinit(&a->spans);
	hash_deinit(&a->threads);
	free(a);
	return NULL;
}

struct open_span *assemble_find(const struct assemble *a, uint64_t span_id)
{
	uint64_t *v = hash_get(&a->spans, span_id);

	return v ? (struct open_span *)(uintptr_t)*v : NULL;
}

int assemble_begin(struct assemble *a, const struct wire_promoted *begin)
{
	uint64_t *last = hash_get(&a->threads, begin->h.tid);
	struct open_span *s;
	int r;

	if (assemble_find(a, begin->span_id))
		return -EEXIST;
	if (a->spans.n >= a->max_open)
		return -ENOSPC;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->begin = *begin;
	s->last_ns = begin->promoted_ns;
	s->next_in_thread = last ? *last : 0;
	r = hash_set(&a->spans, begin->span_id, (uintptr_t)s);
	if (!r) {
		r = hash_set(&a->threads, begin->h.tid, begin->span_id);
		if (r)
			hash_remove(&a->spans, begin->span_id);
	}
	if (r)
		open_span_free(s);
	return r;
}

static void unlink_from_thread(struct assemble *a, const struct open_span *s)
{
	uint64_t *link = hash_get(&a->threads, s->begin.h.tid);
	struct open_span *other;

	while (link && *link && *link != s->begin.span_id) {
		other = assemble_find(a, *link);
		link = other ? &other->next_in_thread : NULL;
	}
	if (link && *link)
		*link = s->next_in_thread;
	link = hash_get(&a->threads, s->begin.h.tid);
	if (link && !*link)
		hash_remove(&a->threads, s->begin.h.tid);
}

struct open_span *assemble_take(struct assemble *a, uint64_t span_id)
{
	struct open_span *s = assemble_find(a, span_id);

	if (!s)
		return NULL;
	unlink_from_thread(a, s);
	hash_remove(&a->spans, span_id);
	return s;
}

uint64_t assemble_superseded(const struct assemble *a, const struct wire_promoted *begin)
{
	uint64_t *last = hash_get(&a->threads, begin->h.tid);
	const struct open_span *s = last ? assemble_find(a, *last) : NULL;

	for (; s; s = assemble_find(a, s->next_in_thread)) {
		const struct wire_promoted *b = &s->begin;

		if (b->h.tgid != begin->h.tgid)
			return b->span_id;
		/*
		 * The same place on the stack can only be used again when the call there is over;
		 * functions that call each other in tail position share it, and a call that an end
		 * function ends goes on without its frame.
		 */
		if (b->start_ns < begin->start_ns && b->entry_sp == begin->entry_sp &&
		    (b->ep_id == begin->ep_id || (b->ret_addr && b->ret_addr != begin->ret_addr)))
			return b->span_id;
	}
	return 0;
}

uint64_t assemble_any(const struct assemble *a, uint32_t tgid)
{
	uint64_t key, value;
	size_t pos = 0;

	while (hash_next(&a->spans, &pos, &key, &value)) {
		const struct open_span *s = (const struct open_span *)(uintptr_t)value;

		if (!tgid || s->begin.h.tgid == tgid)
			return key;
	}
	return 0;
}

uint64_t assemble_any_of(const struct assemble *a, uint32_t ep_id, uint32_t instance_id)
{
	uint64_t key, value;
	size_t pos = 0;

	while (hash_next(&a->spans, &pos, &key, &value)) {
		const struct open_span *s = (const struct open_span *)(uintptr_t)value;

		if (s->begin.ep_id == ep_id && s->begin.instance_id == instance_id)
			return key;
	}
	return 0;
}

const struct open_span *assemble_first(const struct assemble *a, uint64_t after_ns,
				       uint64_t until_ns)
{
	const struct open_span *first = NULL;
	uint64_t key, value;
	size_t pos = 0;

	while (hash_next(&a->spans, &pos, &key, &value)) {
		const struct open_span *s = (const struct open_span *)(uintptr_t)value;

		if (s->begin.start_ns > after_ns && s->begin.start_ns <= until_ns &&
		    (!first || s->begin.start_ns < first->begin.start_ns))
			first = s;
	}
	return first;
}

size_t assemble_n_open(const struct assemble *a)
{
	return a->spans.n;
}
