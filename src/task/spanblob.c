/* SPDX-License-Identifier: Apache-2.0 */
/* spanblob.c: a blob read into a profile. Its bytes may be anybody's: all is checked. */
#include "task/spanblob.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "task/spanblob_priv.h"

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
