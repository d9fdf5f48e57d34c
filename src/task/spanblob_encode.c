/* SPDX-License-Identifier: Apache-2.0 */
/* spanblob_encode.c: a span as a blob, with what it uses of the profile's tables. */
#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "task/spanblob.h"
#include "task/spanblob_priv.h"

enum {
	PLAIN_MAX = 4096, /* not packed up to this size */
	NUMBER_MAX_BYTES = 10,
};

/* Old indexes of one table in the order of their first use; new index = position + 1. */
struct used {
	struct hash seen;
	VEC(uint32_t) order;
};

struct writer {
	const struct profile *p;
	struct used strings, modules, frames, locations, stacks;
	VEC(uint8_t) out;
	int error; /* sticky */
};

static void put(struct writer *w, uint64_t v)
{
	if (!w->error)
		w->error = vec_reserve(&w->out, w->out.n + NUMBER_MAX_BYTES);
	if (w->error)
		return;
	do {
		w->out.at[w->out.n++] = (v & 0x7f) | (v > 0x7f ? 0x80 : 0);
		v >>= 7;
	} while (v);
}

static void put_bytes(struct writer *w, const void *data, size_t n)
{
	put(w, n);
	if (!w->error)
		w->error = vec_reserve(&w->out, w->out.n + n);
	if (w->error || !n)
		return;
	memcpy(w->out.at + w->out.n, data, n);
	w->out.n += n;
}

/* The new index of an entry; true in *ret_new when it was not used before. 0 stays 0. */
static uint32_t use(struct writer *w, struct used *u, uint32_t old, bool *ret_new)
{
	uint64_t *found = old ? hash_get(&u->seen, old) : NULL;
	bool is_new = old && !found;

	if (ret_new)
		*ret_new = is_new;
	if (found)
		return *found;
	if (!is_new || w->error)
		return 0;
	w->error = vec_push(&u->order, old);
	if (!w->error)
		w->error = hash_set(&u->seen, old, u->order.n);
	return w->error ? 0 : u->order.n;
}

static uint32_t use_string(struct writer *w, uint32_t id)
{
	return use(w, &w->strings, id, NULL);
}

static void collect_location(struct writer *w, uint32_t idx)
{
	const struct profile_location *l = &w->p->locations.at[idx];
	bool is_new;

	use(w, &w->locations, idx, &is_new);
	if (!is_new)
		return;
	use(w, &w->modules, l->module, &is_new);
	if (is_new)
		use_string(w, w->p->modules.at[l->module].path);
	for (uint32_t i = 0; i < l->n_frames; i++) {
		uint32_t frame = w->p->frame_runs.at[l->first_frame + i];
		const struct profile_frame *f = &w->p->frames.at[frame];

		use(w, &w->frames, frame, &is_new);
		if (!is_new)
			continue;
		use_string(w, f->function);
		use_string(w, f->system_name);
		use_string(w, f->file);
	}
}

static void collect(struct writer *w, const struct profile_span *s)
{
	const struct profile_endpoint *ep = &w->p->endpoints.at[s->endpoint];

	use_string(w, w->p->hostname);
	use_string(w, w->p->kernel_release);
	use_string(w, ep->spec);
	use_string(w, ep->name);
	use_string(w, s->name);
	use_string(w, s->comm);
	for (uint32_t i = 0; i < s->n_samples; i++) {
		uint32_t idx = w->p->samples.at[s->first_sample + i].stack;
		const struct profile_stack *stack = &w->p->stacks.at[idx];
		bool is_new;

		use(w, &w->stacks, idx, &is_new);
		for (uint32_t k = 0; is_new && k < stack->n; k++)
			collect_location(w, w->p->stack_runs.at[stack->first + k]);
	}
}

static void put_strings_and_modules(struct writer *w)
{
	put(w, w->strings.order.n);
	for (size_t i = 0; i < w->strings.order.n; i++) {
		const char *s = strpool_get(w->p->strings, w->strings.order.at[i]);

		put_bytes(w, s, strlen(s));
	}
	put(w, w->modules.order.n);
	for (size_t i = 0; i < w->modules.order.n; i++) {
		const struct profile_module *m = &w->p->modules.at[w->modules.order.at[i]];

		put(w, use_string(w, m->path));
		put_bytes(w, m->build_id, m->build_id_bytes);
		put(w, m->start);
		put(w, m->limit);
		put(w, m->offset);
	}
}

static void put_frames(struct writer *w)
{
	put(w, w->frames.order.n);
	for (size_t i = 0; i < w->frames.order.n; i++) {
		const struct profile_frame *f = &w->p->frames.at[w->frames.order.at[i]];

		put(w, use_string(w, f->function));
		put(w, use_string(w, f->system_name));
		put(w, use_string(w, f->file));
		put(w, f->line);
		put(w, f->start_line);
		put(w, f->flags);
	}
}

static void put_locations(struct writer *w)
{
	put(w, w->locations.order.n);
	for (size_t i = 0; i < w->locations.order.n; i++) {
		const struct profile_location *l = &w->p->locations.at[w->locations.order.at[i]];

		put(w, use(w, &w->modules, l->module, NULL));
		put(w, l->flags);
		put(w, l->address);
		put(w, l->module_off);
		put(w, l->n_frames);
		for (uint32_t k = 0; k < l->n_frames; k++)
			put(w, use(w, &w->frames, w->p->frame_runs.at[l->first_frame + k], NULL));
	}
}

static void put_stacks(struct writer *w)
{
	put(w, w->stacks.order.n);
	for (size_t i = 0; i < w->stacks.order.n; i++) {
		const struct profile_stack *s = &w->p->stacks.at[w->stacks.order.at[i]];

		put(w, s->stop);
		put(w, s->n);
		for (uint32_t k = 0; k < s->n; k++)
			put(w, use(w, &w->locations, w->p->stack_runs.at[s->first + k], NULL));
	}
}

static void put_span(struct writer *w, const struct profile_span *s, const struct task *t)
{
	const struct profile_endpoint *ep = &w->p->endpoints.at[s->endpoint];
	const uint64_t numbers[] = {use_string(w, ep->spec),
				    use_string(w, ep->name),
				    t->threshold_ns,
				    t->period_ns,
				    s->span_id,
				    use_string(w, s->name),
				    s->tgid,
				    s->tid,
				    use_string(w, s->comm),
				    s->instance_id,
				    s->start_ns,
				    s->end_ns,
				    s->oncpu_ns,
				    s->runq_ns,
				    s->blocked_ns,
				    s->end_reason,
				    s->n_due,
				    s->n_kept,
				    s->n_incomplete,
				    s->n_samples};

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		put(w, numbers[i]);
}

static void put_samples(struct writer *w, const struct profile_span *s)
{
	for (uint32_t i = 0; i < s->n_samples; i++) {
		const struct profile_sample *m = &w->p->samples.at[s->first_sample + i];

		put(w, use(w, &w->stacks, m->stack, NULL));
		put(w, m->kind);
		put(w, m->cause);
		put(w, m->count);
		put(w, (uint32_t)(m->syscall_nr + 1));
		put(w, (uint32_t)(m->seq + 1));
		put(w, m->waker_tid);
		put(w, m->waker_tgid);
		put(w, m->wall_ns);
		put(w, m->start_ns);
		put(w, m->end_ns - m->start_ns);
	}
}

static void put_header(uint8_t *blob, uint32_t header)
{
	for (int i = 0; i < HEADER_BYTES; i++)
		blob[i] = (uint8_t)(header >> (8 * i));
}

/* Most spans are small; preparing to deflate would cost more than all else. */
static int keep_plain(const struct writer *w, uint8_t **ret, size_t *ret_bytes)
{
	uint8_t *blob = malloc(HEADER_BYTES + w->out.n);

	if (!blob)
		return -ENOMEM;
	put_header(blob, (uint32_t)w->out.n | HEADER_PLAIN);
	memcpy(blob + HEADER_BYTES, w->out.at, w->out.n);
	*ret = blob;
	*ret_bytes = HEADER_BYTES + w->out.n;
	return 0;
}

static int pack(const struct writer *w, uint8_t **ret, size_t *ret_bytes)
{
	uLongf packed = compressBound(w->out.n);
	AUTO_FREE uint8_t *blob = NULL;

	if (w->out.n > RAW_MAX)
		return -E2BIG;
	if (w->out.n <= PLAIN_MAX)
		return keep_plain(w, ret, ret_bytes);
	blob = malloc(HEADER_BYTES + packed);
	if (!blob ||
	    compress2(blob + HEADER_BYTES, &packed, w->out.at, w->out.n, Z_BEST_SPEED) != Z_OK)
		return -ENOMEM;
	put_header(blob, (uint32_t)w->out.n);
	*ret = TAKE_PTR(blob);
	*ret_bytes = HEADER_BYTES + packed;
	return 0;
}

static void used_deinit(struct used *u)
{
	hash_deinit(&u->seen);
	vec_free(&u->order);
}

int encode_spanblob(const struct profile *p, uint32_t span, const struct task *t, uint8_t **ret,
		    size_t *ret_bytes)
{
	const struct profile_span *s = &p->spans.at[span];
	struct writer w = {.p = p};
	struct used *all[] = {&w.strings, &w.modules, &w.frames, &w.locations, &w.stacks};
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		hash_init(&all[i]->seen);
	collect(&w, s);
	put(&w, BLOB_VERSION);
	put(&w, p->start_mono_ns);
	put(&w, p->start_real_ns);
	put(&w, use_string(&w, p->hostname));
	put(&w, use_string(&w, p->kernel_release));
	put_strings_and_modules(&w);
	put_frames(&w);
	put_locations(&w);
	put_stacks(&w);
	put_span(&w, s, t);
	put_samples(&w, s);
	r = w.error ? w.error : pack(&w, ret, ret_bytes);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		used_deinit(all[i]);
	vec_free(&w.out);
	return r;
}
