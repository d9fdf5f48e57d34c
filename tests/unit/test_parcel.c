/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <skywalking/profile.pb-c.h>
#include <skywalking/tracing.pb-c.h>
#include <stdlib.h>
#include <string.h>

#include "net/parcel.h"
#include "tests/unit/unit.h"

static const struct instance web = {.service = "web", .name = "web-1"};
static const struct segment_info info = {
	.instance = &web, .segment_id = "s.1", .trace_id = "t.1", .endpoint = "/api"};

static uint32_t text(struct snapshots *s, const char *t)
{
	uint32_t id;

	assert_int_equal(strpool_add(s->strings, t, &id), 0);
	return id;
}

static void fill(struct snapshots *s)
{
	static const char *const frames[] = {"main", "a:1", "main", "b:2"};

	*s = (struct snapshots){.start_ms = 5000, .end_ms = 5030, .period_ns = 10000000};
	assert_int_equal(strpool_new(&s->strings, 4096), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(vec_push(&s->texts, text(s, frames[i])), 0);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(vec_push(&s->paths, (struct snapshot_path){2 * i, 2}), 0);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(vec_push(&s->list, (struct snapshot){5000 + 10 * i, i / 2}), 0);
}

static int pack(size_t max_bytes, void **ret_data, size_t *ret_bytes)
{
	struct profile *p;
	struct snapshots s;
	int r;

	fill(&s);
	assert_int_equal(profile_new(&p), 0);
	assert_int_equal(vec_push(&p->spans, (struct profile_span){.span_id = 1}), 0);
	r = pack_parcel(&(struct parcel_input){p, 1, &s, &info, "task\n1", max_bytes}, ret_data,
			ret_bytes);
	profile_free(p);
	snapshots_deinit(&s);
	return r;
}

static void assert_snapshot(const struct parcel *p, uint32_t i, const char *leaf)
{
	Skywalking__V3__ThreadSnapshot *m;
	struct bytes b = {};

	assert_int_equal(encode_parcel_snapshot(p, i, &b), 0);
	m = skywalking__v3__thread_snapshot__unpack(NULL, b.n, b.at);
	assert_non_null(m);
	assert_string_equal(m->taskid, "task?1");
	assert_string_equal(m->tracesegmentid, "s.1");
	assert_int_equal(m->time, 5000 + 10 * i);
	assert_int_equal(m->sequence, i);
	assert_string_equal(m->stack->codesignatures[1], leaf);
	skywalking__v3__thread_snapshot__free_unpacked(m, NULL);
	bytes_deinit(&b);
}

static void test_round_trip(void **state)
{
	Skywalking__V3__SegmentObject *segment;
	struct parcel p;
	void *data;
	size_t n;

	assert_int_equal(pack(4096, &data, &n), 0);
	assert_int_equal(decode_parcel(data, n, &p), PARCEL_OK);
	assert_int_equal(p.n_snapshots, 4);
	assert_int_equal(p.n_stacks, 2);
	assert_snapshot(&p, 0, "a:1");
	assert_snapshot(&p, 1, "a:1");
	assert_snapshot(&p, 3, "b:2");
	segment = skywalking__v3__segment_object__unpack(NULL, p.segment_bytes, p.segment);
	assert_non_null(segment);
	assert_string_equal(segment->tracesegmentid, "s.1");
	skywalking__v3__segment_object__free_unpacked(segment, NULL);
	free(data);
}

static void test_limit(void **state)
{
	void *data = NULL;
	size_t n;

	assert_int_equal(pack(200, &data, &n), -EFBIG);
	assert_int_equal(pack(8, &data, &n), -EFBIG);
	assert_null(data);
}

static void test_every_cut_is_noticed(void **state)
{
	struct parcel p;
	void *data, *cut;
	size_t n;

	assert_int_equal(pack(4096, &data, &n), 0);
	for (size_t i = 0; i < n; i++) {
		cut = malloc(i + 1);
		memcpy(cut, data, i);
		assert_int_equal(decode_parcel(cut, i, &p), PARCEL_E_FORM);
		free(cut);
	}
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_every_cut_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
