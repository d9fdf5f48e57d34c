/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/stacks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/vec.h"

enum {
	LOCATIONS_MAX = 1 << 20,
	STACK_RUNS_MAX = 16 << 20, /* location indexes in all stacks together */
	UNRESOLVED = UINT32_MAX,
};

struct location {
	struct raw_location raw;
	uint32_t resolved; /* index into profile.locations; UNRESOLVED */
	bool noted;
};

struct stack {
	uint32_t first; /* run in runs */
	uint32_t n;
	enum stack_stop stop;
	uint32_t resolved; /* index into profile.stacks; UNRESOLVED */
	bool noted;
};

struct stacks {
	VEC(struct location) locations;
	VEC(uint32_t) runs;
	VEC(struct stack) stacks;
	VEC(uint32_t) scratch;
	struct hash names;          /* name_key() -> index into profile.locations */
	struct hash location_index; /* hash of the identity -> index; collisions probe hash + 1 */
	struct hash stack_index;
	uint64_t seed;
	bool live;
};

int stacks_new(struct stacks **ret, bool live)
{
	struct stacks *s = calloc(1, sizeof(*s));
	uint32_t idx;
	int r;

	if (!s)
		return -ENOMEM;
	s->live = live;
	hash_init(&s->names);
	hash_init(&s->location_index);
	hash_init(&s->stack_index);
	s->seed = s->location_index.seed;
	r = stacks_add(s, NULL, 0, STACK_STOP_NONE, &idx);
	if (r) {
		stacks_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

struct stacks *stacks_free(struct stacks *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < s->locations.n; i++)
		module_unref(s->locations.at[i].raw.module);
	vec_free(&s->locations);
	vec_free(&s->runs);
	vec_free(&s->stacks);
	vec_free(&s->scratch);
	hash_deinit(&s->names);
	hash_deinit(&s->location_index);
	hash_deinit(&s->stack_index);
	free(s);
	return NULL;
}

static uint64_t location_hash(const struct stacks *s, const struct raw_location *l)
{
	uint64_t id[4] = {
		(uint64_t)l->kind | l->return_address << 8 | (uint64_t)l->flags << 16 |
			(uint64_t)l->pid << 32,
		(uintptr_t)l->module,
		l->address,
		(uintptr_t)l->text,
	};

	return hash_bytes(id, sizeof(id), s->seed);
}

static bool same_location(const struct raw_location *a, const struct raw_location *b)
{
	return a->kind == b->kind && a->return_address == b->return_address &&
	       a->flags == b->flags && a->pid == b->pid && a->module == b->module &&
	       a->address == b->address && a->text == b->text;
}

int stacks_add_location(struct stacks *s, const struct raw_location *l, uint32_t *ret_idx)
{
	uint64_t h = location_hash(s, l), *found;
	int r;

	for (; (found = hash_get(&s->location_index, h)); h++) {
		if (same_location(&s->locations.at[*found].raw, l)) {
			*ret_idx = *found;
			return 0;
		}
	}
	if (s->locations.n >= LOCATIONS_MAX)
		return -ENOSPC;
	r = vec_push(&s->locations, (struct location){.raw = *l, .resolved = UNRESOLVED});
	if (r)
		return r;
	r = hash_set(&s->location_index, h, s->locations.n - 1);
	if (r) {
		s->locations.n--;
		return r;
	}
	if (l->module)
		module_ref(l->module);
	*ret_idx = s->locations.n - 1;
	return 0;
}

static bool same_stack(const struct stacks *s, const struct stack *have, const uint32_t *locations,
		       size_t n, enum stack_stop stop)
{
	return have->n == n && have->stop == stop &&
	       (!n || !memcmp(s->runs.at + have->first, locations, n * sizeof(*locations)));
}

int stacks_add(struct stacks *s, const uint32_t *locations, size_t n, enum stack_stop stop,
	       uint32_t *ret_idx)
{
	uint64_t h = hash_bytes(locations, n * sizeof(*locations), s->seed + stop), *found;
	int r;

	for (; (found = hash_get(&s->stack_index, h)); h++) {
		if (same_stack(s, &s->stacks.at[*found], locations, n, stop)) {
			*ret_idx = *found;
			return 0;
		}
	}
	if (n > STACK_RUNS_MAX - s->runs.n)
		return -ENOSPC;
	r = vec_reserve(&s->runs, s->runs.n + n);
	if (r)
		return r;
	r = vec_push(
		&s->stacks,
		(struct stack){.first = s->runs.n, .n = n, .stop = stop, .resolved = UNRESOLVED});
	if (r)
		return r;
	r = hash_set(&s->stack_index, h, s->stacks.n - 1);
	if (r) {
		s->stacks.n--;
		return r;
	}
	if (n)
		memcpy(s->runs.at + s->runs.n, locations, n * sizeof(*locations));
	s->runs.n += n;
	*ret_idx = s->stacks.n - 1;
	return 0;
}

/* How many locations of a complete stack are further out than the program's innermost one. */
static uint32_t n_callers(const struct stacks *s, const struct stack *k)
{
	uint32_t i = 0;

	if (k->stop != STACK_STOP_ENDPOINT)
		return 0;
	while (i < k->n && s->locations.at[s->runs.at[k->first + i]].raw.kind == RAW_KERNEL)
		i++;
	return i < k->n ? k->n - i - 1 : 0;
}

int stacks_add_shared(struct stacks *s, uint32_t a, uint32_t b, const char *text, uint32_t *ret_idx)
{
	const struct raw_location leaf = {.kind = RAW_SYNTHETIC, .text = text};
	struct stack x = s->stacks.at[a < s->stacks.n ? a : 0];
	struct stack y = s->stacks.at[b < s->stacks.n ? b : 0];
	uint32_t x_callers = n_callers(s, &x), y_callers = n_callers(s, &y), n = 0, idx;
	int r;

	while (n < x_callers && n < y_callers &&
	       s->runs.at[x.first + x.n - 1 - n] == s->runs.at[y.first + y.n - 1 - n])
		n++;
	if (n < 3) /* the endpoint's function, and a place in it */
		return -ENOENT;
	r = stacks_add_location(s, &leaf, &idx);
	s->scratch.n = 0;
	if (!r)
		r = vec_push(&s->scratch, idx);
	for (uint32_t i = x.n - n; i < x.n && !r; i++)
		r = vec_push(&s->scratch, s->runs.at[x.first + i]);
	return r ? r : stacks_add(s, s->scratch.at, s->scratch.n, STACK_STOP_ENDPOINT, ret_idx);
}

enum stack_stop stacks_stop(const struct stacks *s, uint32_t stack)
{
	return stack < s->stacks.n ? s->stacks.at[stack].stop : STACK_STOP_NONE;
}

static int resolve_synthetic(struct profile *profile, const char *text, uint32_t *ret)
{
	uint32_t stack;
	int r = profile_synthetic_stack(profile, text, &stack);

	if (r)
		return r;
	*ret = profile->stack_runs.at[profile->stacks.at[stack].first];
	return 0;
}

/* A file that cannot be read has neither symbols nor program headers: all that is known is the offset. */
static int resolve_file(struct profile *profile, const struct raw_location *raw, uint32_t *ret)
{
	struct profile_frame frame = {.flags = PROFILE_FRAME_UNKNOWN};
	struct profile_location location = {.flags = raw->flags, .address = raw->pc};
	struct profile_module module = {};
	char path[256], name[256 + 32];
	uint32_t frame_idx;
	int r;

	location.module_off = raw->address - raw->return_address;
	text_show(path, sizeof(path), raw->text);
	snprintf(name, sizeof(name), "%s+0x%" PRIx64, text_base_name(path), location.module_off);
	r = strpool_add(profile->strings, path, &module.path);
	if (!r)
		r = strpool_add(profile->strings, name, &frame.function);
	frame.system_name = frame.function;
	if (!r)
		r = profile_add_module(profile, &module, &location.module);
	if (!r)
		r = profile_add_frame(profile, &frame, &frame_idx);
	return r ? r : profile_add_location(profile, &location, &frame_idx, 1, ret);
}

/* Collisions are as unlikely as in any 64-bit hash, and cost a wrong name in a replay. */
static uint64_t name_key(const struct stacks *s, unsigned int kind, uint32_t pid, uint64_t address)
{
	uint64_t id[2] = {(uint64_t)kind << 32 | pid, address};

	return hash_bytes(id, sizeof(id), s->seed);
}

static int add_named_location(struct profile *profile, const struct stacks_name *name,
			      uint32_t *ret)
{
	struct profile_module module = {};
	struct profile_frame frame = {.flags = name->frame_flags};
	struct profile_location location = {.module_off = name->address, .address = name->address};
	uint32_t frame_idx;
	int r;

	r = strpool_add(profile->strings, name->module, &module.path);
	if (!r)
		r = strpool_add(profile->strings, name->function, &frame.function);
	if (!r)
		r = strpool_add(profile->strings, name->system_name, &frame.system_name);
	if (!r)
		r = profile_add_module(profile, &module, &location.module);
	if (!r)
		r = profile_add_frame(profile, &frame, &frame_idx);
	if (!r)
		r = profile_add_location(profile, &location, &frame_idx, 1, ret);
	return r;
}

int stacks_add_name(struct stacks *s, struct profile *profile, const struct stacks_name *name)
{
	uint32_t location;
	int r = add_named_location(profile, name, &location);

	return r ? r
		 : hash_set(&s->names, name_key(s, name->kind, name->pid, name->address), location);
}

static int resolve_location(const struct stacks *s, struct location *l,
			    struct symbolizer *symbolizer, struct profile *profile)
{
	const struct raw_location *raw = &l->raw;
	uint64_t *named = NULL;

	if (raw->kind == RAW_ANONYMOUS || raw->kind == RAW_KERNEL)
		named = hash_get(&s->names, name_key(s, raw->kind, raw->pid, raw->address));
	if (named) {
		l->resolved = *named;
		return 0;
	}
	/* This system's kernel and processes are not those that were recorded. */
	if (!s->live && (raw->kind == RAW_ANONYMOUS || raw->kind == RAW_KERNEL))
		return resolve_synthetic(
			profile, raw->kind == RAW_KERNEL ? "[kernel]" : "[unknown]", &l->resolved);

	switch ((enum raw_kind)raw->kind) {
	case RAW_MODULE:
		return symbolize_module(symbolizer, raw->module, raw->address, raw->return_address,
					raw->flags, raw->pc, &l->resolved);
	case RAW_ANONYMOUS:
		return symbolize_anonymous(symbolizer, raw->pid, raw->address, raw->return_address,
					   raw->flags, &l->resolved);
	case RAW_KERNEL:
		return symbolize_kernel(symbolizer, raw->address, &l->resolved);
	case RAW_SYNTHETIC:
		return resolve_synthetic(profile, raw->text, &l->resolved);
	case RAW_FILE:
		return resolve_file(profile, raw, &l->resolved);
	}
	return -EINVAL;
}

static uint32_t outermost_function(const struct profile *profile, uint32_t location)
{
	const struct profile_location *l = &profile->locations.at[location];

	if (!l->n_frames)
		return 0;
	return profile->frames.at[profile->frame_runs.at[l->first_frame + l->n_frames - 1]]
		.function;
}

/* The endpoint below a stack that ends in it; a function that it has jumped to has taken its place. */
static bool ends_twice(const struct stacks *s, const struct stack *k, const struct profile *profile)
{
	const struct location *last =
		k->n ? &s->locations.at[s->runs.at[k->first + k->n - 1]] : NULL;
	const size_t n = s->scratch.n;

	return n > 1 && k->stop == STACK_STOP_ENDPOINT &&
	       last->raw.flags & PROFILE_LOCATION_FUNCTION &&
	       outermost_function(profile, s->scratch.at[n - 1]) ==
		       outermost_function(profile, s->scratch.at[n - 2]);
}

bool stacks_is_resolved(const struct stacks *s, uint32_t stack)
{
	return s->stacks.at[stack < s->stacks.n ? stack : 0].resolved != UNRESOLVED;
}

int stacks_resolve(struct stacks *s, uint32_t stack, struct symbolizer *symbolizer,
		   struct profile *profile, uint32_t *ret_profile_stack)
{
	struct stack *k = &s->stacks.at[stack < s->stacks.n ? stack : 0];
	int r;

	s->scratch.n = 0;
	for (uint32_t i = 0; k->resolved == UNRESOLVED && i < k->n; i++) {
		struct location *l = &s->locations.at[s->runs.at[k->first + i]];

		if (l->resolved == UNRESOLVED) {
			r = resolve_location(s, l, symbolizer, profile);
			if (r)
				return r;
		}
		r = vec_push(&s->scratch, l->resolved);
		if (r)
			return r;
	}
	if (k->resolved == UNRESOLVED) {
		s->scratch.n -= ends_twice(s, k, profile);
		r = profile_add_stack(profile, s->scratch.at, s->scratch.n, k->stop, &k->resolved);
		if (r)
			return r;
	}
	*ret_profile_stack = k->resolved;
	return 0;
}

static int note_location(struct stacks *s, struct location *l, struct symbolizer *symbolizer,
			 struct profile *profile)
{
	if (l->noted || l->resolved != UNRESOLVED)
		return 0;
	l->noted = true;
	if (l->raw.kind == RAW_MODULE)
		return symbolizer_note_module(symbolizer, l->raw.module, l->raw.address, l->raw.pc);
	return l->raw.kind == RAW_ANONYMOUS ? resolve_location(s, l, symbolizer, profile) : 0;
}

int stacks_note(struct stacks *s, uint32_t stack, struct symbolizer *symbolizer,
		struct profile *profile)
{
	struct stack *k = &s->stacks.at[stack < s->stacks.n ? stack : 0];
	int r = 0;

	for (uint32_t i = 0; !k->noted && i < k->n && !r; i++)
		r = note_location(s, &s->locations.at[s->runs.at[k->first + i]], symbolizer,
				  profile);
	k->noted = !r;
	return r;
}

/* Indexes into locations, in the order in which they are looked up. */
struct work {
	VEC(uint32_t) at;
};

static void work_deinit(struct work *w)
{
	vec_free(&w->at);
}

/* Those of one kind that have no symbols yet. */
static int list_work(const struct stacks *s, enum raw_kind kind, bool noted_only, struct work *w)
{
	int r = 0;

	for (uint32_t i = 0; i < s->locations.n && !r; i++) {
		const struct location *l = &s->locations.at[i];

		if (l->raw.kind == kind && l->resolved == UNRESOLVED && (l->noted || !noted_only))
			r = vec_push(&w->at, i);
	}
	return r;
}

static int compare_places(const void *a, const void *b, void *ctx)
{
	const struct stacks *s = ctx;
	const struct raw_location *x = &s->locations.at[*(const uint32_t *)a].raw;
	const struct raw_location *y = &s->locations.at[*(const uint32_t *)b].raw;
	uint32_t x_id = x->module ? module_id(x->module) : 0;
	uint32_t y_id = y->module ? module_id(y->module) : 0;

	if (x_id != y_id)
		return x_id < y_id ? -1 : 1;
	return x->address < y->address ? -1 : x->address > y->address;
}

static void sort_work(struct stacks *s, struct work *w)
{
	if (w->at.n > 1)
		qsort_r(w->at.at, w->at.n, sizeof(w->at.at[0]), compare_places, s);
}

/* Names of this system's kernel functions, in one pass over its symbols. */
static int resolve_kernel(struct stacks *s, bool noted_only, struct symbolizer *symbolizer,
			  struct profile *profile)
{
	CLEANUP(work_deinit) struct work w = {};
	AUTO_FREE uint64_t *pcs = NULL;
	AUTO_FREE uint32_t *found = NULL;
	int r = s->live ? list_work(s, RAW_KERNEL, noted_only, &w) : 0;

	if (r || !w.at.n)
		return r;
	sort_work(s, &w);
	pcs = calloc(w.at.n, sizeof(*pcs));
	found = calloc(w.at.n, sizeof(*found));
	if (!pcs || !found)
		return -ENOMEM;
	for (size_t i = 0; i < w.at.n; i++)
		pcs[i] = s->locations.at[w.at.at[i]].raw.address;
	r = symbolize_kernel_all(symbolizer, pcs, w.at.n, found);
	for (size_t i = 0; i < w.at.n && !r; i++)
		s->locations.at[w.at.at[i]].resolved = found[i];
	return r;
}

static int resolve_modules(struct stacks *s, struct symbolizer *symbolizer, struct profile *profile)
{
	CLEANUP(work_deinit) struct work w = {};
	const struct module *last = NULL;
	int r = list_work(s, RAW_MODULE, true, &w);

	sort_work(s, &w);
	for (size_t i = 0; i < w.at.n && !r; i++) {
		struct location *l = &s->locations.at[w.at.at[i]];

		if (last && last != l->raw.module)
			symbolizer_close_module(symbolizer, last);
		last = l->raw.module;
		r = resolve_location(s, l, symbolizer, profile);
	}
	if (last)
		symbolizer_close_module(symbolizer, last);
	return r;
}

int stacks_resolve_noted(struct stacks *s, struct symbolizer *symbolizer, struct profile *profile)
{
	uint32_t stack;
	int r = resolve_kernel(s, true, symbolizer, profile);

	if (!r)
		r = resolve_modules(s, symbolizer, profile);
	for (uint32_t i = 0; i < s->stacks.n && !r; i++)
		if (s->stacks.at[i].noted)
			r = stacks_resolve(s, i, symbolizer, profile, &stack);
	return r;
}

static int hand_out_name(const struct profile *profile, const struct location *l,
			 int (*fn)(void *ctx, const struct stacks_name *name), void *ctx)
{
	const struct profile_location *location = &profile->locations.at[l->resolved];
	const struct profile_frame *frame;
	struct stacks_name name = {
		.kind = l->raw.kind,
		.pid = l->raw.pid,
		.address = l->raw.address,
	};

	if (!location->n_frames)
		return 0;
	frame = &profile->frames.at[profile->frame_runs.at[location->first_frame]];
	name.frame_flags = frame->flags;
	name.module = strpool_get(profile->strings, profile->modules.at[location->module].path);
	name.function = strpool_get(profile->strings, frame->function);
	name.system_name = strpool_get(profile->strings, frame->system_name);
	return fn(ctx, &name);
}

int stacks_each_name(struct stacks *s, struct symbolizer *symbolizer, struct profile *profile,
		     int (*fn)(void *ctx, const struct stacks_name *name), void *ctx)
{
	int r = resolve_kernel(s, false, symbolizer, profile);

	for (size_t i = 0; i < s->locations.n && !r; i++) {
		struct location *l = &s->locations.at[i];

		if (l->raw.kind != RAW_ANONYMOUS && l->raw.kind != RAW_KERNEL)
			continue;
		r = l->resolved == UNRESOLVED ? resolve_location(s, l, symbolizer, profile) : 0;
		if (!r)
			r = hand_out_name(profile, l, fn, ctx);
	}
	return r;
}
