/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile.c: the tables of a profile and their interning.
 *
 * Each interned table has a look-up map from a seeded hash of an entry's identity to its index;
 * entries with the same hash are told apart by comparing them, the next one being tried at hash + 1.
 * Nothing is ever removed from an interned table, so an index stays valid as long as the profile.
 */
#include "model/profile.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"

enum {
	STRINGS_MAX_BYTES = 64 << 20,
	TABLE_MAX = UINT32_MAX - 1, /* entries of one table */
};

struct profile_index {
	struct hash modules;
	struct hash frames;
	struct hash locations;
	struct hash stacks;
};

DEFINE_CLEANUP(struct profile *, profile_free)

static const char *const stop_names[] = {
	[STACK_STOP_ENDPOINT] = "complete",   [STACK_STOP_NO_WINDOW] = "no_window",
	[STACK_STOP_FOREIGN] = "foreign",     [STACK_STOP_TRUNCATED] = "truncated",
	[STACK_STOP_NO_MODULE] = "no_module", [STACK_STOP_NO_CFI] = "no_cfi",
	[STACK_STOP_BAD_CFI] = "bad_cfi",     [STACK_STOP_RANGE] = "range",
	[STACK_STOP_DEPTH] = "depth",         [STACK_STOP_PAST] = "past",
	[STACK_STOP_NONE] = "none",           [STACK_STOP_NO_FILE] = "no_file",
};
_Static_assert(ARRAY_SIZE(stop_names) == STACK_STOP_MAX, "stop_names");

static const char *const kind_names[] = {
	[SAMPLE_ONCPU] = "on-cpu",
	[SAMPLE_RUNQ] = "run-queue",
	[SAMPLE_BLOCKED] = "blocked",
};
_Static_assert(ARRAY_SIZE(kind_names) == SAMPLE_KIND_MAX, "kind_names");

static const char *const reason_names[] = {
	[0] = "unknown",
	[WIRE_END_RETURN] = "return",
	[WIRE_END_END_PROBE] = "end_probe",
	[WIRE_END_UNWOUND] = "unwound",
	[WIRE_END_LEAVE_UNSEEN] = "leave_unseen",
	[WIRE_END_THREAD_EXIT] = "thread_exit",
	[WIRE_END_PROCESS_EXIT] = "process_exit",
	[WIRE_END_EXEC] = "exec",
	[WIRE_END_TASK_END] = "unfinished",
	[WIRE_END_CUT] = "cut",
};
_Static_assert(ARRAY_SIZE(reason_names) == WIRE_END_MAX, "reason_names");

const char *stack_stop_name(enum stack_stop stop)
{
	return (unsigned int)stop < STACK_STOP_MAX ? stop_names[stop] : "unknown";
}

const char *sample_kind_name(enum sample_kind kind)
{
	return (unsigned int)kind < SAMPLE_KIND_MAX ? kind_names[kind] : "unknown";
}

const char *end_reason_name(unsigned int reason)
{
	return reason < WIRE_END_MAX ? reason_names[reason] : reason_names[0];
}

uint64_t profile_probed_ns(const struct profile *p)
{
	return p->turns.share_ppm ? p->turns.probed_ns : p->duration_ns;
}

bool profile_rested(const struct profile *p)
{
	const struct profile_turns *t = &p->turns;

	return t->share_ppm && (t->n_turns > 1 || t->probed_ns <= p->duration_ns / 10 * 9);
}

bool profile_span_returned(const struct profile_span *s)
{
	return s->end_reason == WIRE_END_RETURN || s->end_reason == WIRE_END_END_PROBE;
}

static int push_reserved(struct profile *p)
{
	int r;

	r = vec_push(&p->modules, (struct profile_module){});
	if (!r)
		r = vec_push(&p->frames, (struct profile_frame){});
	if (!r)
		r = vec_push(&p->locations, (struct profile_location){});
	if (!r)
		r = vec_push(&p->stacks, (struct profile_stack){.stop = STACK_STOP_NONE});
	if (!r)
		r = vec_push(&p->endpoints, (struct profile_endpoint){});
	if (!r)
		r = vec_push(&p->spans, (struct profile_span){});
	if (!r)
		r = vec_push(&p->samples, (struct profile_sample){});
	return r;
}

int profile_new(struct profile **ret)
{
	CLEANUP(profile_freep) struct profile *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	p->index = calloc(1, sizeof(*p->index));
	if (!p->index)
		return -ENOMEM;
	hash_init(&p->index->modules);
	hash_init(&p->index->frames);
	hash_init(&p->index->locations);
	hash_init(&p->index->stacks);
	r = strpool_new(&p->strings, STRINGS_MAX_BYTES);
	if (!r)
		r = push_reserved(p);
	if (r)
		return r;
	*ret = TAKE_PTR(p);
	return 0;
}

struct profile *profile_free(struct profile *p)
{
	if (!p)
		return NULL;
	vec_free(&p->modules);
	vec_free(&p->frames);
	vec_free(&p->frame_runs);
	vec_free(&p->locations);
	vec_free(&p->stack_runs);
	vec_free(&p->stacks);
	vec_free(&p->endpoints);
	vec_free(&p->spans);
	vec_free(&p->samples);
	strpool_free(p->strings);
	if (p->index) {
		hash_deinit(&p->index->modules);
		hash_deinit(&p->index->frames);
		hash_deinit(&p->index->locations);
		hash_deinit(&p->index->stacks);
		free(p->index);
	}
	free(p);
	return NULL;
}

static uint64_t module_hash(const struct profile *p, const struct profile_module *m)
{
	return hash_bytes(m->build_id, m->build_id_bytes, p->index->modules.seed + m->path);
}

static bool module_equal(const struct profile_module *a, const struct profile_module *b)
{
	return a->path == b->path && a->build_id_bytes == b->build_id_bytes &&
	       !memcmp(a->build_id, b->build_id, a->build_id_bytes);
}

int profile_add_module(struct profile *p, const struct profile_module *m, uint32_t *ret_idx)
{
	uint64_t h = module_hash(p, m), *found;
	int r;

	assert(m->build_id_bytes <= BUILD_ID_MAX);
	for (; (found = hash_get(&p->index->modules, h)); h++) {
		if (module_equal(&p->modules.at[*found], m)) {
			*ret_idx = *found;
			return 0;
		}
	}
	if (p->modules.n >= TABLE_MAX)
		return -ENOSPC;
	r = vec_reserve(&p->modules, p->modules.n + 1);
	if (!r)
		r = hash_set(&p->index->modules, h, p->modules.n);
	if (r)
		return r;
	*ret_idx = p->modules.n;
	p->modules.at[p->modules.n++] = *m;
	return 0;
}

static uint64_t frame_hash(const struct profile *p, const struct profile_frame *f)
{
	const uint32_t key[] = {f->function, f->system_name, f->file,
				f->line,     f->start_line,  f->flags};

	return hash_bytes(key, sizeof(key), p->index->frames.seed);
}

static bool frame_equal(const struct profile_frame *a, const struct profile_frame *b)
{
	return a->function == b->function && a->system_name == b->system_name &&
	       a->file == b->file && a->line == b->line && a->start_line == b->start_line &&
	       a->flags == b->flags;
}

int profile_add_frame(struct profile *p, const struct profile_frame *f, uint32_t *ret_idx)
{
	uint64_t h = frame_hash(p, f), *found;
	int r;

	for (; (found = hash_get(&p->index->frames, h)); h++) {
		if (frame_equal(&p->frames.at[*found], f)) {
			*ret_idx = *found;
			return 0;
		}
	}
	if (p->frames.n >= TABLE_MAX)
		return -ENOSPC;
	r = vec_reserve(&p->frames, p->frames.n + 1);
	if (!r)
		r = hash_set(&p->index->frames, h, p->frames.n);
	if (r)
		return r;
	*ret_idx = p->frames.n;
	p->frames.at[p->frames.n++] = *f;
	return 0;
}

/* Finds the location; ret_hash: the key under which to add it when 0 is returned. */
static uint32_t find_location(const struct profile *p, uint32_t module, uint64_t module_off,
			      uint32_t flags, uint64_t *ret_hash)
{
	const uint64_t key[] = {module_off, (uint64_t)module << 32 | flags};
	uint64_t h = hash_bytes(key, sizeof(key), p->index->locations.seed), *found;

	for (; (found = hash_get(&p->index->locations, h)); h++) {
		const struct profile_location *l = &p->locations.at[*found];

		if (l->module == module && l->module_off == module_off && l->flags == flags)
			return *found;
	}
	*ret_hash = h;
	return 0;
}

uint32_t profile_find_location(const struct profile *p, uint32_t module, uint64_t module_off,
			       uint32_t flags)
{
	uint64_t h = 0;

	return find_location(p, module, module_off, flags, &h);
}

int profile_add_location(struct profile *p, const struct profile_location *l,
			 const uint32_t *frames, size_t n_frames, uint32_t *ret_idx)
{
	struct profile_location copy = *l;
	uint64_t h = 0;
	uint32_t idx = find_location(p, l->module, l->module_off, l->flags, &h);
	int r;

	if (idx) {
		*ret_idx = idx;
		return 0;
	}
	if (p->locations.n >= TABLE_MAX || n_frames > TABLE_MAX - p->frame_runs.n)
		return -ENOSPC;
	r = vec_reserve(&p->locations, p->locations.n + 1);
	if (!r)
		r = vec_reserve(&p->frame_runs, p->frame_runs.n + n_frames);
	if (!r)
		r = hash_set(&p->index->locations, h, p->locations.n);
	if (r)
		return r;
	copy.first_frame = p->frame_runs.n;
	copy.n_frames = n_frames;
	if (n_frames)
		memcpy(p->frame_runs.at + p->frame_runs.n, frames, n_frames * sizeof(*frames));
	p->frame_runs.n += n_frames;
	*ret_idx = p->locations.n;
	p->locations.at[p->locations.n++] = copy;
	return 0;
}

static bool stack_is(const struct profile *p, const struct profile_stack *s,
		     const uint32_t *locations, size_t n, enum stack_stop stop)
{
	return s->n == n && s->stop == stop &&
	       (!n || !memcmp(p->stack_runs.at + s->first, locations, n * sizeof(*locations)));
}

int profile_add_stack(struct profile *p, const uint32_t *locations, size_t n, enum stack_stop stop,
		      uint32_t *ret_idx)
{
	uint64_t h, *found;
	int r;

	if (n > TABLE_MAX - p->stack_runs.n || p->stacks.n >= TABLE_MAX)
		return -ENOSPC;
	h = hash_bytes(locations, n * sizeof(*locations), p->index->stacks.seed + stop);
	for (; (found = hash_get(&p->index->stacks, h)); h++) {
		if (stack_is(p, &p->stacks.at[*found], locations, n, stop)) {
			*ret_idx = *found;
			return 0;
		}
	}
	r = vec_reserve(&p->stacks, p->stacks.n + 1);
	if (!r)
		r = vec_reserve(&p->stack_runs, p->stack_runs.n + n);
	if (!r)
		r = hash_set(&p->index->stacks, h, p->stacks.n);
	if (r)
		return r;
	*ret_idx = p->stacks.n;
	p->stacks.at[p->stacks.n++] =
		(struct profile_stack){.first = p->stack_runs.n, .n = n, .stop = stop, .hash = h};
	if (n)
		memcpy(p->stack_runs.at + p->stack_runs.n, locations, n * sizeof(*locations));
	p->stack_runs.n += n;
	return 0;
}

int profile_synthetic_stack(struct profile *p, const char *text, uint32_t *ret_idx)
{
	struct profile_frame frame = {.flags = PROFILE_FRAME_SYNTHETIC};
	struct profile_location location = {.flags = PROFILE_LOCATION_SYNTHETIC};
	uint32_t frame_idx, location_idx;
	int r;

	r = strpool_add(p->strings, text, &frame.function);
	if (r)
		return r;
	frame.system_name = frame.function;
	r = profile_add_frame(p, &frame, &frame_idx);
	if (r)
		return r;
	location.module_off = frame_idx;
	r = profile_add_location(p, &location, &frame_idx, 1, &location_idx);
	if (r)
		return r;
	return profile_add_stack(p, &location_idx, 1, STACK_STOP_NONE, ret_idx);
}

const char *profile_gap_text(enum profile_gap gap)
{
	static const char *const texts[] = {
		[PROFILE_GAP_BEFORE] = "[before threshold]",
		[PROFILE_GAP_LOST] = "[lost snapshots]",
		[PROFILE_GAP_SHORT] = "[short waits]",
		[PROFILE_GAP_TICKS] = "[between ticks]",
		[PROFILE_GAP_MEMORY] = "[not kept: memory limit]",
	};

	_Static_assert(sizeof(texts) / sizeof(*texts) == PROFILE_GAP_MAX, "a text for each gap");
	return texts[gap];
}

bool profile_frame_is_gap(const struct profile *p, uint32_t frame, enum profile_gap gap)
{
	const struct profile_frame *f = &p->frames.at[frame];

	return f->flags & PROFILE_FRAME_SYNTHETIC &&
	       !strcmp(strpool_get(p->strings, f->function), profile_gap_text(gap));
}

double profile_span_completeness(const struct profile_span *s)
{
	return s->n_due ? (double)s->n_kept / s->n_due : 1.0;
}

double profile_completeness(const struct profile *p)
{
	uint64_t due = 0, kept = 0;

	for (size_t i = 1; i < p->spans.n; i++) {
		due += p->spans.at[i].n_due;
		kept += p->spans.at[i].n_kept;
	}
	return due ? (double)kept / due : 1.0;
}

void profile_clear_spans(struct profile *p)
{
	p->spans.n = 1;
	p->samples.n = 1;
}

static size_t hash_heap_bytes(const struct hash *h)
{
	return h->cap * sizeof(*h->slots);
}

size_t profile_bytes(const struct profile *p)
{
	return sizeof(*p) + sizeof(*p->index) + p->modules.cap * sizeof(*p->modules.at) +
	       p->frames.cap * sizeof(*p->frames.at) +
	       p->frame_runs.cap * sizeof(*p->frame_runs.at) +
	       p->locations.cap * sizeof(*p->locations.at) +
	       p->stack_runs.cap * sizeof(*p->stack_runs.at) +
	       p->stacks.cap * sizeof(*p->stacks.at) + p->endpoints.cap * sizeof(*p->endpoints.at) +
	       p->spans.cap * sizeof(*p->spans.at) + p->samples.cap * sizeof(*p->samples.at) +
	       hash_heap_bytes(&p->index->modules) + hash_heap_bytes(&p->index->frames) +
	       hash_heap_bytes(&p->index->locations) + hash_heap_bytes(&p->index->stacks) +
	       strpool_bytes(p->strings);
}
