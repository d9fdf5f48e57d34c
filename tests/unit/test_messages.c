/* SPDX-License-Identifier: Apache-2.0 */
#include <skywalking/logging.pb-c.h>
#include <skywalking/management.pb-c.h>
#include <skywalking/profile.pb-c.h>
#include <skywalking/tracing.pb-c.h>
#include <stdlib.h>
#include <string.h>

#include "net/messages.h"
#include "tests/unit/unit.h"

/* What one library wrote, the other one reads. */

static struct instance_property properties[] = {
	{"version", "1.2"}, {"span_layer", "rpcframework"}, {"component_id", "6000"}};
static const struct instance web = {
	.id = 1,
	.service = "web",
	.name = "web-1\xff",
	.layer = "",
	.properties = properties,
	.n_properties = 3,
	.pid = 4711,
	.started_ms = 1700000000000,
};

static void test_registration(void **state)
{
	Skywalking__V3__InstancePingPkg *ping;
	Skywalking__V3__InstanceProperties *props;
	struct bytes b = {};

	assert_int_equal(encode_keep_alive(&web, &b), 0);
	ping = skywalking__v3__instance_ping_pkg__unpack(NULL, b.n, b.at);
	assert_non_null(ping);
	assert_string_equal(ping->service, "web");
	assert_string_equal(ping->serviceinstance, "web-1?");
	assert_string_equal(ping->layer, "");
	skywalking__v3__instance_ping_pkg__free_unpacked(ping, NULL);
	b.n = 0;
	assert_int_equal(encode_properties(&web, "host", &b), 0);
	props = skywalking__v3__instance_properties__unpack(NULL, b.n, b.at);
	assert_non_null(props);
	assert_int_equal(props->n_properties, 8);
	assert_string_equal(props->properties[1]->key, "hostname");
	assert_string_equal(props->properties[1]->value, "host");
	assert_string_equal(props->properties[2]->value, "4711");
	assert_string_equal(props->properties[4]->value, "2023-11-14 22:13:20");
	assert_string_equal(props->properties[5]->key, "version");
	skywalking__v3__instance_properties__free_unpacked(props, NULL);
	bytes_deinit(&b);
}

static void test_long_names_are_cut_as_the_server_cuts_them(void **state)
{
	char name[101];
	struct instance i = {.service = name, .name = name};
	Skywalking__V3__InstancePingPkg *ping;
	struct bytes b = {};

	memset(name, 'n', 100);
	name[100] = '\0';
	assert_int_equal(encode_keep_alive(&i, &b), 0);
	ping = skywalking__v3__instance_ping_pkg__unpack(NULL, b.n, b.at);
	assert_int_equal(strlen(ping->service), 70);
	assert_int_equal(strlen(ping->serviceinstance), 70);
	skywalking__v3__instance_ping_pkg__free_unpacked(ping, NULL);
	bytes_deinit(&b);
}

static void test_queries_and_reports(void **state)
{
	Skywalking__V3__ProfileTaskCommandQuery *query;
	Skywalking__V3__ProfileTaskFinishReport *report;
	struct bytes b = {};

	assert_int_equal(encode_task_query(&web, -1, &b), 0);
	query = skywalking__v3__profile_task_command_query__unpack(NULL, b.n, b.at);
	assert_non_null(query);
	assert_int_equal(query->lastcommandtime, -1);
	assert_string_equal(query->serviceinstance, "web-1?");
	skywalking__v3__profile_task_command_query__free_unpacked(query, NULL);
	b.n = 0;
	assert_int_equal(encode_task_finish(&web, "1_x.1", &b), 0);
	report = skywalking__v3__profile_task_finish_report__unpack(NULL, b.n, b.at);
	assert_string_equal(report->taskid, "1_x.1");
	skywalking__v3__profile_task_finish_report__free_unpacked(report, NULL);
	bytes_deinit(&b);
}

static void test_log_line(void **state)
{
	Skywalking__V3__LogData *log;
	struct bytes b = {};

	assert_int_equal(encode_log(&web, 1700000000000, "lost\n2", &b), 0);
	log = skywalking__v3__log_data__unpack(NULL, b.n, b.at);
	assert_non_null(log);
	assert_int_equal(log->timestamp, 1700000000000);
	assert_string_equal(log->service, "web");
	assert_string_equal(log->serviceinstance, "web-1?");
	assert_int_equal(log->body->content_case, SKYWALKING__V3__LOG_DATA_BODY__CONTENT_TEXT);
	assert_string_equal(log->body->text->text, "lost?2");
	skywalking__v3__log_data__free_unpacked(log, NULL);
	bytes_deinit(&b);
}

static void fill_snapshots(struct snapshots *s)
{
	uint32_t id;

	*s = (struct snapshots){.start_ms = 1000, .end_ms = 1040, .period_ns = 10000000};
	assert_int_equal(strpool_new(&s->strings, 4096), 0);
	assert_int_equal(strpool_add(s->strings, "main", &id), 0);
	assert_int_equal(vec_push(&s->texts, id), 0);
	assert_int_equal(strpool_add(s->strings, "leaf:7", &id), 0);
	assert_int_equal(vec_push(&s->texts, id), 0);
	assert_int_equal(vec_push(&s->paths, (struct snapshot_path){0, 2}), 0);
	assert_int_equal(vec_push(&s->list, (struct snapshot){1000, 0}), 0);
}

static void assert_snapshot(const struct bytes *stack, int32_t sequence)
{
	struct snapshot_head head = {"task", "segment", 1700000000123, sequence};
	Skywalking__V3__ThreadSnapshot *m;
	struct bytes b = {};

	assert_int_equal(encode_snapshot(&head, stack->at, stack->n, &b), 0);
	m = skywalking__v3__thread_snapshot__unpack(NULL, b.n, b.at);
	assert_non_null(m);
	assert_string_equal(m->taskid, "task");
	assert_string_equal(m->tracesegmentid, "segment");
	assert_int_equal(m->time, 1700000000123);
	assert_int_equal(m->sequence, sequence);
	assert_int_equal(m->stack->n_codesignatures, 2);
	assert_string_equal(m->stack->codesignatures[0], "main");
	assert_string_equal(m->stack->codesignatures[1], "leaf:7");
	skywalking__v3__thread_snapshot__free_unpacked(m, NULL);
	bytes_deinit(&b);
}

static void test_snapshot(void **state)
{
	struct bytes stack = {};
	struct snapshots s;

	fill_snapshots(&s);
	assert_int_equal(encode_stack(&s, 0, &stack), 0);
	assert_snapshot(&stack, 0);
	assert_snapshot(&stack, 11999);
	bytes_deinit(&stack);
	snapshots_deinit(&s);
}

static struct profile *new_profile(void)
{
	struct profile *p;
	struct profile_span span = {.span_id = 1,
				    .tgid = 10,
				    .tid = 11,
				    .start_ns = 0,
				    .end_ns = 40000000,
				    .oncpu_ns = 15000000,
				    .runq_ns = 500000,
				    .blocked_ns = 24500000,
				    .n_due = 4,
				    .n_kept = 3};

	assert_int_equal(profile_new(&p), 0);
	assert_int_equal(vec_push(&p->spans, span), 0);
	return p;
}

static const char *tag(const Skywalking__V3__SpanObject *span, const char *key)
{
	for (size_t i = 0; i < span->n_tags; i++)
		if (strcmp(span->tags[i]->key, key) == 0)
			return span->tags[i]->value;
	return NULL;
}

static Skywalking__V3__SegmentObject *segment_of(const struct segment_info *info)
{
	struct profile *p = new_profile();
	Skywalking__V3__SegmentObject *m;
	struct bytes b = {};
	struct snapshots s;

	fill_snapshots(&s);
	assert_int_equal(encode_segment(p, 1, &s, info, &b), 0);
	m = skywalking__v3__segment_object__unpack(NULL, b.n, b.at);
	assert_non_null(m);
	bytes_deinit(&b);
	snapshots_deinit(&s);
	profile_free(p);
	return m;
}

static void test_segment(void **state)
{
	struct segment_info info = {
		.instance = &web, .segment_id = "s.1", .trace_id = "t.1", .endpoint = "/api"};
	Skywalking__V3__SegmentObject *m = segment_of(&info);
	const Skywalking__V3__SpanObject *span = m->spans[0];

	assert_string_equal(m->traceid, "t.1");
	assert_string_equal(m->tracesegmentid, "s.1");
	assert_string_equal(m->service, "web");
	assert_string_equal(m->serviceinstance, "web-1?");
	assert_int_equal(m->n_spans, 1);
	assert_int_equal(span->spanid, 0);
	assert_int_equal(span->parentspanid, -1);
	assert_int_equal(span->starttime, 1000);
	assert_int_equal(span->endtime, 1040);
	assert_string_equal(span->operationname, "/api");
	assert_int_equal(span->spantype, SKYWALKING__V3__SPAN_TYPE__Entry);
	assert_int_equal(span->spanlayer, SKYWALKING__V3__SPAN_LAYER__RPCFramework);
	assert_int_equal(span->componentid, 6000);
	assert_int_equal(span->n_refs, 0);
	assert_string_equal(tag(span, "spanprof.completeness"), "0.7500");
	assert_string_equal(tag(span, "spanprof.snapshots.lost"), "1");
	assert_string_equal(tag(span, "spanprof.oncpu_ms"), "15.000");
	assert_string_equal(tag(span, "spanprof.runqueue_ms"), "0.500");
	assert_string_equal(tag(span, "spanprof.blocked_ms"), "24.500");
	assert_string_equal(tag(span, "tid"), "11");
	skywalking__v3__segment_object__free_unpacked(m, NULL);
}

static void test_segment_joins_a_skywalking_trace(void **state)
{
	struct tracecontext context = {.kind = TRACECONTEXT_SW8,
				       .trace_id = "T",
				       .parent_id = "P",
				       .parent_span_id = 3,
				       .parent_service = "front",
				       .parent_instance = "front-1",
				       .parent_endpoint = "/f",
				       .address = "10.0.0.1:80"};
	struct segment_info info = {.instance = &web,
				    .segment_id = "s.1",
				    .trace_id = "t.1",
				    .endpoint = "/api",
				    .context = &context};
	Skywalking__V3__SegmentObject *m = segment_of(&info);
	const Skywalking__V3__SegmentReference *ref;

	assert_string_equal(m->traceid, "T");
	assert_int_equal(m->spans[0]->n_refs, 1);
	ref = m->spans[0]->refs[0];
	assert_int_equal(ref->reftype, SKYWALKING__V3__REF_TYPE__CrossProcess);
	assert_string_equal(ref->traceid, "T");
	assert_string_equal(ref->parenttracesegmentid, "P");
	assert_int_equal(ref->parentspanid, 3);
	assert_string_equal(ref->parentservice, "front");
	assert_string_equal(ref->parentserviceinstance, "front-1");
	assert_string_equal(ref->parentendpoint, "/f");
	assert_string_equal(ref->networkaddressusedatpeer, "10.0.0.1:80");
	skywalking__v3__segment_object__free_unpacked(m, NULL);
}

static void test_segment_joins_a_w3c_trace(void **state)
{
	struct tracecontext context = {
		.kind = TRACECONTEXT_W3C, .trace_id = "4bf9", .parent_id = "00f0"};
	struct segment_info info = {.instance = &web,
				    .segment_id = "s.1",
				    .trace_id = "t.1",
				    .endpoint = "/api",
				    .context = &context};
	Skywalking__V3__SegmentObject *m = segment_of(&info);

	assert_string_equal(m->traceid, "4bf9");
	assert_int_equal(m->spans[0]->n_refs, 0);
	assert_string_equal(tag(m->spans[0], "w3c.parent_id"), "00f0");
	skywalking__v3__segment_object__free_unpacked(m, NULL);
}

static void test_layers(void **state)
{
	struct instance plain = {.service = "s", .name = "i", .layer = ""};
	struct instance sql = {.service = "s", .name = "i", .layer = "POSTGRESQL"};
	struct instance cache = {.service = "s", .name = "i", .layer = "REDIS"};

	assert_int_equal(segment_layer_of(&web, "/x"), SEGMENT_LAYER_RPC);
	assert_int_equal(segment_layer_of(&plain, "/x"), SEGMENT_LAYER_HTTP);
	assert_int_equal(segment_layer_of(&plain, "GET /x"), SEGMENT_LAYER_HTTP);
	assert_int_equal(segment_layer_of(&plain, "GETTER"), SEGMENT_LAYER_UNKNOWN);
	assert_int_equal(segment_layer_of(&plain, "select ?"), SEGMENT_LAYER_DATABASE);
	assert_int_equal(segment_layer_of(&sql, "exec_simple_query"), SEGMENT_LAYER_DATABASE);
	assert_int_equal(segment_layer_of(&cache, "processCommand"), SEGMENT_LAYER_CACHE);
	assert_int_equal(segment_component_of(&web), 6000);
	assert_int_equal(segment_component_of(&plain), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_registration),
		cmocka_unit_test(test_long_names_are_cut_as_the_server_cuts_them),
		cmocka_unit_test(test_queries_and_reports),
		cmocka_unit_test(test_log_line),
		cmocka_unit_test(test_snapshot),
		cmocka_unit_test(test_segment),
		cmocka_unit_test(test_segment_joins_a_skywalking_trace),
		cmocka_unit_test(test_segment_joins_a_w3c_trace),
		cmocka_unit_test(test_layers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
