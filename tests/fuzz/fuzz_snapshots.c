/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_snapshots.c: a span of any samples, four bytes each: frames, stop and kind, wall time. Dumps must
 * be in order, inside the segment, within the limit, and encodable.
 */
#include <assert.h>
#include <string.h>

#include "net/messages.h"
#include "net/snapshots.h"
#include "tests/fuzz/fuzz.h"

static uint32_t stack_of(struct profile *p, uint8_t shape, uint8_t stop)
{
	uint32_t locations[8], stack = 0, depth = shape >> 5;

	for (uint32_t i = 0; i < depth; i++) {
		struct profile_frame f = {.line = (shape >> i) & 3, .flags = stop >> 5};
		struct profile_location l = {.module_off = (uint64_t)f.flags << 8 | f.line};
		uint32_t frame;
		char name[2] = {(char)('a' + f.line)};

		if (strpool_add(p->strings, name, &f.function) ||
		    profile_add_frame(p, &f, &frame) ||
		    profile_add_location(p, &l, &frame, 1, &locations[i]))
			return 0;
	}
	profile_add_stack(p, locations, depth, stop % STACK_STOP_MAX, &stack);
	return stack;
}

static void add_samples(struct profile *p, const uint8_t *data, size_t n)
{
	struct profile_span *span = &p->spans.at[1];

	for (size_t i = 0; i + 3 < n; i += 4) {
		struct profile_sample s = {.span = 1, .kind = data[i + 1] % SAMPLE_KIND_MAX};

		s.stack = stack_of(p, data[i], data[i + 1]);
		s.wall_ns = (uint64_t)data[i + 2] << data[i + 3] % 28;
		s.start_ns = data[i + 3] & 0x80 ? span->end_ns : data[i + 2] * 1000000ULL;
		/* Sometimes the parts do not add up to the whole. */
		span->end_ns += data[i + 3] & 0x40 ? s.wall_ns / 2 : s.wall_ns;
		if (vec_push(&p->samples, s) == 0)
			span->n_samples++;
	}
}

static void check(const struct profile *p, const struct snapshots_options *o)
{
	static const struct instance instance = {.service = "s", .name = "i"};
	struct segment_info info = {
		.instance = &instance, .segment_id = "1", .trace_id = "2", .endpoint = "/"};
	struct bytes b = {};
	struct snapshots s;

	if (snapshots_of_span(p, 1, o, &s))
		return;
	assert(s.list.n >= 1 && s.list.n <= o->max_snapshots);
	for (size_t i = 0; i < s.list.n; i++) {
		assert(s.list.at[i].time_ms >= (i ? s.list.at[i - 1].time_ms : s.start_ms));
		assert(s.list.at[i].time_ms <= s.end_ms);
		assert(s.list.at[i].path < s.paths.n);
	}
	for (uint32_t i = 0; i < s.paths.n; i++)
		assert(s.paths.at[i].n >= 1 && s.paths.at[i].n <= 8 && !encode_stack(&s, i, &b));
	assert(!encode_segment(p, 1, &s, &info, &b));
	bytes_deinit(&b);
	snapshots_deinit(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct snapshots_options o = {.max_depth = 4, .max_snapshots = 64};
	struct profile_span span = {.first_sample = 1};
	struct profile *p;

	if (n < 2 || n > 2048 || profile_new(&p))
		return 0;
	o.period_ns = data[0] * 1000000ULL;
	p->start_real_ns = data[1] * 10000ULL;
	if (vec_push(&p->spans, span) == 0) {
		add_samples(p, data + 2, n - 2);
		check(p, &o);
	}
	profile_free(p);
	return 0;
}
