/* SPDX-License-Identifier: Apache-2.0 */
#include "task/spanblob.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "base/hash.h"

enum {
	BLOB_VERSION = 1,
	HEADER_BYTES = 4,
	RAW_MAX = 64 << 20,
	PLAIN_MAX = 4096, /* not packed up to this size */
	NUMBER_MAX_BYTES = 10,
};

#define HEADER_PLAIN (1U << 31)

/* ---- writing ---- */

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

/* ---- reading ---- */

/* New indexes in the profile by index in the blob; [0] is 0. */
typedef VEC(uint32_t) index_map;

struct reader {
	const uint8_t *at, *end;
	struct profile *p;
	index_map strings, modules, frames, locations, stacks;
	uint64_t shift_ns; /* added to times: from the blob's clock to the profile's */
	int error;         /* sticky */
};

static uint64_t get(struct reader *r)
{
	uint64_t v = 0;

	for (unsigned int shift = 0; shift < 64; shift += 7) {
		uint8_t byte;

		if (r->error || r->at == r->end)
			break;
		byte = *r->at++;
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return v;
	}
	if (!r->error)
		r->error = -EINVAL;
	return 0;
}

static uint64_t get_max(struct reader *r, uint64_t max)
{
	uint64_t v = get(r);

	if (v <= max)
		return v;
	r->error = -EINVAL;
	return 0;
}

/* A count of things of at least one byte each, which must still be there behind it. */
static uint32_t get_count(struct reader *r)
{
	uint64_t v = get(r);

	if (v <= (uint64_t)(r->end - r->at))
		return v;
	r->error = -EINVAL;
	return 0;
}

static uint32_t get_u32(struct reader *r)
{
	return get_max(r, UINT32_MAX);
}

static uint32_t get_index(struct reader *r, const index_map *map)
{
	uint64_t i = get(r);

	if (r->error || i < map->n)
		return r->error ? 0 : map->at[i];
	r->error = -EINVAL;
	return 0;
}

static const uint8_t *get_bytes(struct reader *r, size_t max, size_t *ret_n)
{
	const uint8_t *at;

	*ret_n = get_count(r);
	if (*ret_n > max)
		r->error = -EINVAL;
	at = r->at;
	if (r->error)
		*ret_n = 0;
	r->at += *ret_n;
	return at;
}

static void remember(struct reader *r, index_map *map, uint32_t idx)
{
	if (!r->error)
		r->error = vec_push(map, idx);
}

static void read_strings(struct reader *r)
{
	remember(r, &r->strings, 0);
	for (uint32_t n = get_count(r); n && !r->error; n--) {
		size_t bytes;
		const uint8_t *s = get_bytes(r, RAW_MAX, &bytes);
		uint32_t id = 0;

		if (!r->error)
			r->error = strpool_add_n(r->p->strings, (const char *)s, bytes, &id);
		remember(r, &r->strings, id);
	}
}

static void read_modules(struct reader *r)
{
	remember(r, &r->modules, 0);
	for (uint32_t n = get_count(r); n && !r->error; n--) {
		struct profile_module m = {.path = get_index(r, &r->strings)};
		const uint8_t *id;
		size_t bytes;
		uint32_t idx = 0;

		id = get_bytes(r, BUILD_ID_MAX, &bytes);
		memcpy(m.build_id, id, bytes);
		m.build_id_bytes = bytes;
		m.start = get(r);
		m.limit = get(r);
		m.offset = get(r);
		if (!r->error)
			r->error = profile_add_module(r->p, &m, &idx);
		remember(r, &r->modules, idx);
	}
}

static void read_frames(struct reader *r)
{
	remember(r, &r->frames, 0);
	for (uint32_t n = get_count(r); n && !r->error; n--) {
		struct profile_frame f = {};
		uint32_t idx = 0;

		f.function = get_index(r, &r->strings);
		f.system_name = get_index(r, &r->strings);
		f.file = get_index(r, &r->strings);
		f.line = get_u32(r);
		f.start_line = get_u32(r);
		f.flags = get_u32(r);
		if (!r->error)
			r->error = profile_add_frame(r->p, &f, &idx);
		remember(r, &r->frames, idx);
	}
}

static void read_run(struct reader *r, const index_map *map, index_map *run)
{
	run->n = 0;
	for (uint32_t n = get_count(r); n && !r->error; n--)
		remember(r, run, get_index(r, map));
}

static void read_locations(struct reader *r)
{
	index_map run = {};

	remember(r, &r->locations, 0);
	for (uint32_t n = get_count(r); n && !r->error; n--) {
		struct profile_location l = {};
		uint32_t idx = 0;

		l.module = get_index(r, &r->modules);
		l.flags = get_u32(r);
		l.address = get(r);
		l.module_off = get(r);
		read_run(r, &r->frames, &run);
		if (l.flags & PROFILE_LOCATION_SYNTHETIC)
			l.module_off = run.n ? run.at[0] : 0;
		if (!r->error)
			r->error = profile_add_location(r->p, &l, run.at, run.n, &idx);
		remember(r, &r->locations, idx);
	}
	vec_free(&run);
}

static void read_stacks(struct reader *r)
{
	index_map run = {};

	remember(r, &r->stacks, 0);
	for (uint32_t n = get_count(r); n && !r->error; n--) {
		enum stack_stop stop = get_max(r, STACK_STOP_MAX - 1);
		uint32_t idx = 0;

		read_run(r, &r->locations, &run);
		if (!r->error)
			r->error = profile_add_stack(r->p, run.at, run.n, stop, &idx);
		remember(r, &r->stacks, idx);
	}
	vec_free(&run);
}

static uint32_t find_endpoint(struct reader *r, const struct profile_endpoint *ep)
{
	struct profile *p = r->p;

	for (size_t i = 1; i < p->endpoints.n; i++) {
		struct profile_endpoint *other = &p->endpoints.at[i];

		if (other->spec != ep->spec || other->name != ep->name)
			continue;
		/* Of several tasks: all their spans are slower than the least of their thresholds. */
		if (ep->threshold_ns < other->threshold_ns)
			other->threshold_ns = ep->threshold_ns;
		if (ep->period_ns < other->period_ns)
			other->period_ns = ep->period_ns;
		return i;
	}
	if (!r->error)
		r->error = vec_push(&p->endpoints, *ep);
	return p->endpoints.n - 1;
}

static void read_span(struct reader *r, struct profile_span *s)
{
	struct profile_endpoint ep = {};

	ep.spec = get_index(r, &r->strings);
	ep.name = get_index(r, &r->strings);
	ep.threshold_ns = get(r);
	ep.period_ns = get(r);
	s->endpoint = find_endpoint(r, &ep);
	s->span_id = get(r);
	s->name = get_index(r, &r->strings);
	s->tgid = get_u32(r);
	s->tid = get_u32(r);
	s->comm = get_index(r, &r->strings);
	s->instance_id = get_u32(r);
	s->start_ns = get(r) + r->shift_ns;
	s->end_ns = get(r) + r->shift_ns;
	s->oncpu_ns = get(r);
	s->runq_ns = get(r);
	s->blocked_ns = get(r);
	s->end_reason = get_max(r, WIRE_END_MAX - 1);
	s->n_due = get_u32(r);
	s->n_kept = get_u32(r);
	s->n_incomplete = get_u32(r);
	s->n_samples = get_count(r);
}

static void read_samples(struct reader *r, const struct profile_span *s, uint32_t span)
{
	for (uint32_t i = 0; i < s->n_samples && !r->error; i++) {
		struct profile_sample m = {.span = span};

		m.stack = get_index(r, &r->stacks);
		m.kind = get_max(r, SAMPLE_KIND_MAX - 1);
		m.cause = get_max(r, BLOCK_CAUSE_MAX - 1);
		m.count = get_max(r, UINT16_MAX);
		m.syscall_nr = (int32_t)(get_u32(r) - 1);
		m.seq = get_u32(r) - 1;
		m.waker_tid = get_u32(r);
		m.waker_tgid = get_u32(r);
		m.wall_ns = get(r);
		m.start_ns = get(r) + r->shift_ns;
		m.end_ns = m.start_ns + get(r);
		if (!r->error)
			r->error = vec_push(&r->p->samples, m);
	}
}

static void read_all(struct reader *r, uint32_t *ret_span)
{
	uint64_t mono, real, hostname, kernel;
	struct profile *p = r->p;
	struct profile_span s = {};

	if (get(r) != BLOB_VERSION)
		r->error = -EINVAL;
	mono = get(r);
	real = get(r);
	hostname = get(r);
	kernel = get(r);
	if (p->spans.n <= 1) {
		p->start_mono_ns = mono;
		p->start_real_ns = real;
	}
	r->shift_ns = (real - mono) - (p->start_real_ns - p->start_mono_ns);
	read_strings(r);
	if (!r->error && (hostname >= r->strings.n || kernel >= r->strings.n))
		r->error = -EINVAL;
	if (!r->error) {
		p->hostname = r->strings.at[hostname];
		p->kernel_release = r->strings.at[kernel];
	}
	read_modules(r);
	read_frames(r);
	read_locations(r);
	read_stacks(r);
	read_span(r, &s);
	s.first_sample = p->samples.n;
	if (!r->error)
		r->error = vec_push(&p->spans, s);
	if (r->error)
		return;
	read_samples(r, &s, p->spans.n - 1);
	if (r->error) {
		p->spans.n--;
		p->samples.n = s.first_sample;
		return;
	}
	*ret_span = p->spans.n - 1;
}

static int unpack(const uint8_t *data, size_t bytes, uint8_t **ret, size_t *ret_bytes)
{
	AUTO_FREE uint8_t *raw = NULL;
	uint32_t header = 0;
	uLongf n;

	if (bytes < HEADER_BYTES)
		return -EINVAL;
	for (int i = 0; i < HEADER_BYTES; i++)
		header |= (uint32_t)data[i] << (8 * i);
	data += HEADER_BYTES;
	bytes -= HEADER_BYTES;
	n = header & ~HEADER_PLAIN;
	/* deflate cannot pack better than about 1 : 1032: a lie about the length costs nothing */
	if (n > RAW_MAX || n / 1100 > bytes || (header & HEADER_PLAIN && n != bytes))
		return -EINVAL;
	raw = malloc(n + 1);
	if (!raw)
		return -ENOMEM;
	*ret_bytes = n;
	if (header & HEADER_PLAIN)
		memcpy(raw, data, n);
	else if (uncompress(raw, &n, data, bytes) != Z_OK || n != *ret_bytes)
		return -EINVAL;
	*ret = TAKE_PTR(raw);
	return 0;
}

int decode_spanblob(const uint8_t *data, size_t bytes, struct profile *p, uint32_t *ret_span)
{
	AUTO_FREE uint8_t *raw = NULL;
	struct reader r = {.p = p};
	size_t n;
	int error = unpack(data, bytes, &raw, &n);

	if (error)
		return error;
	r.at = raw;
	r.end = raw + n;
	read_all(&r, ret_span);
	vec_free(&r.strings);
	vec_free(&r.modules);
	vec_free(&r.frames);
	vec_free(&r.locations);
	vec_free(&r.stacks);
	return r.error;
}
