/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment.c: the trace segment that makes the snapshots of a span visible: one Entry span with id 0,
 * the same ids and the same clock.
 */
#include <skywalking/tracing.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "net/label.h"
#include "net/messages.h"
#include "net/pack.h"

enum { TAGS_MAX = 24 };

static const char *const layer_names[] = {
	[SEGMENT_LAYER_UNKNOWN] = "Unknown",
	[SEGMENT_LAYER_DATABASE] = "Database",
	[SEGMENT_LAYER_RPC] = "RPCFramework",
	[SEGMENT_LAYER_HTTP] = "Http",
	[SEGMENT_LAYER_MQ] = "MQ",
	[SEGMENT_LAYER_CACHE] = "Cache",
	[SEGMENT_LAYER_FAAS] = "FAAS",
};
_Static_assert(ARRAY_SIZE(layer_names) == SEGMENT_LAYER_MAX, "a name for each");

static const char *property(const struct instance *i, const char *key)
{
	for (size_t j = 0; j < i->n_properties; j++)
		if (strcmp(i->properties[j].key, key) == 0)
			return i->properties[j].value;
	return NULL;
}

static bool has_word_of(const char *text, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcasestr(text, words[i]))
			return true;
	return false;
}

static bool begins_with_word_of(const char *text, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(words[i]);

		if (strncasecmp(text, words[i], len) == 0 && (text[len] == ' ' || !text[len]))
			return true;
	}
	return false;
}

enum segment_layer segment_layer_of(const struct instance *i, const char *endpoint)
{
	static const char *const databases[] = {"SQL", "MARIA", "DATABASE", "MONGO", "CLICKHOUSE"};
	static const char *const caches[] = {"REDIS", "CACHE", "MEMCACHED"};
	static const char *const queues[] = {"KAFKA", "RABBITMQ", "ROCKETMQ", "ACTIVEMQ", "PULSAR"};
	static const char *const methods[] = {"GET",  "POST",    "PUT",  "DELETE",
					      "HEAD", "OPTIONS", "PATCH"};
	static const char *const statements[] = {"SELECT", "INSERT", "UPDATE", "DELETE FROM",
						 "WITH",   "BEGIN",  "COMMIT", "CALL"};
	const char *wanted = property(i, "span_layer"), *layer = i->layer ? i->layer : "";

	for (int l = 0; wanted && l < SEGMENT_LAYER_MAX; l++)
		if (strcasecmp(wanted, layer_names[l]) == 0)
			return (enum segment_layer)l;
	if (begins_with_word_of(endpoint, statements, ARRAY_SIZE(statements)))
		return SEGMENT_LAYER_DATABASE;
	if (*endpoint == '/' || begins_with_word_of(endpoint, methods, ARRAY_SIZE(methods)))
		return SEGMENT_LAYER_HTTP;
	if (has_word_of(layer, databases, ARRAY_SIZE(databases)))
		return SEGMENT_LAYER_DATABASE;
	if (has_word_of(layer, caches, ARRAY_SIZE(caches)))
		return SEGMENT_LAYER_CACHE;
	if (has_word_of(layer, queues, ARRAY_SIZE(queues)))
		return SEGMENT_LAYER_MQ;
	return SEGMENT_LAYER_UNKNOWN;
}

int32_t segment_component_of(const struct instance *i)
{
	const char *text = property(i, "component_id");
	uint64_t id;

	return text && parse_u64(text, INT32_MAX, &id) == 0 ? (int32_t)id : 0;
}

static void add_number(struct pairs *tags, const char *key, uint64_t v)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	pairs_add(tags, key, text);
}

static void add_ms(struct pairs *tags, const char *key, uint64_t ns)
{
	char text[32];

	snprintf(text, sizeof(text), "%.3f", (double)ns / 1e6);
	pairs_add(tags, key, text);
}

/* What the dumps alone cannot say: how complete they are, and the exact split of the time. */
static void add_tags(const struct profile *p, const struct profile_span *span,
		     const struct snapshots *s, const struct segment_info *info, struct pairs *tags)
{
	char text[32];

	snprintf(text, sizeof(text), "%.4f", profile_span_completeness(span));
	pairs_add(tags, "spanprof.completeness", text);
	add_number(tags, "spanprof.snapshots.due", span->n_due);
	add_number(tags, "spanprof.snapshots.kept", span->n_kept);
	add_number(tags, "spanprof.snapshots.lost",
		   span->n_due > span->n_kept ? span->n_due - span->n_kept : 0);
	add_number(tags, "spanprof.snapshots.incomplete", span->n_incomplete);
	add_ms(tags, "spanprof.oncpu_ms", span->oncpu_ns);
	add_ms(tags, "spanprof.runqueue_ms", span->runq_ns);
	add_ms(tags, "spanprof.blocked_ms", span->blocked_ns);
	add_ms(tags, "spanprof.period_ms", s->period_ns);
	if (s->n_deep)
		add_number(tags, "spanprof.stacks.cut", s->n_deep);
	pairs_add(tags, "spanprof.end", end_reason_name(span->end_reason));
	add_number(tags, "pid", span->tgid);
	add_number(tags, "tid", span->tid);
	pairs_add(tags, "thread", strpool_get(p->strings, span->comm));
	if (info->context && info->context->kind == TRACECONTEXT_W3C)
		pairs_add(tags, "w3c.parent_id", info->context->parent_id);
}

struct reference {
	Skywalking__V3__SegmentReference message;
	char texts[6][TRACECONTEXT_TEXT_MAX];
};

/* Only sw8 names the segment that a reference must name. */
static void fill_reference(struct reference *r, const struct tracecontext *c)
{
	const struct {
		const char *from;
		size_t max;
	} fields[] = {
		{c->trace_id, LABEL_ID_MAX},
		{c->parent_id, LABEL_ID_MAX},
		{c->parent_service, LABEL_SERVICE_MAX},
		{c->parent_instance, LABEL_INSTANCE_MAX},
		{c->parent_endpoint, LABEL_ENDPOINT_MAX},
		{c->address, LABEL_VALUE_MAX},
	};

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		label_copy(r->texts[i], sizeof(r->texts[i]), fields[i].from, fields[i].max);
	skywalking__v3__segment_reference__init(&r->message);
	r->message.reftype = SKYWALKING__V3__REF_TYPE__CrossProcess;
	r->message.traceid = r->texts[0];
	r->message.parenttracesegmentid = r->texts[1];
	r->message.parentspanid = c->parent_span_id;
	r->message.parentservice = r->texts[2];
	r->message.parentserviceinstance = r->texts[3];
	r->message.parentendpoint = r->texts[4];
	r->message.networkaddressusedatpeer = r->texts[5];
}

struct segment_texts {
	char trace_id[LABEL_ID_MAX * 4 + 1];
	char segment_id[LABEL_ID_MAX * 4 + 1];
	char service[LABEL_SERVICE_MAX * 4 + 1];
	char instance[LABEL_INSTANCE_MAX * 4 + 1];
	char endpoint[LABEL_ENDPOINT_MAX * 4 + 1];
};

static void fill_segment(Skywalking__V3__SegmentObject *m, struct segment_texts *t,
			 const struct segment_info *info)
{
	const char *trace_id = info->context ? info->context->trace_id : info->trace_id;

	label_copy(t->trace_id, sizeof(t->trace_id), trace_id, LABEL_ID_MAX);
	label_copy(t->segment_id, sizeof(t->segment_id), info->segment_id, LABEL_ID_MAX);
	label_copy(t->service, sizeof(t->service), info->instance->service, LABEL_SERVICE_MAX);
	label_copy(t->instance, sizeof(t->instance), info->instance->name, LABEL_INSTANCE_MAX);
	label_copy(t->endpoint, sizeof(t->endpoint), info->endpoint, LABEL_ENDPOINT_MAX);
	m->traceid = t->trace_id;
	m->tracesegmentid = t->segment_id;
	m->service = t->service;
	m->serviceinstance = t->instance;
}

int encode_segment(const struct profile *p, uint32_t span, const struct snapshots *s,
		   const struct segment_info *info, struct bytes *to)
{
	Skywalking__V3__SegmentObject m = SKYWALKING__V3__SEGMENT_OBJECT__INIT;
	Skywalking__V3__SpanObject entry = SKYWALKING__V3__SPAN_OBJECT__INIT;
	Skywalking__V3__SpanObject *spans[] = {&entry};
	Skywalking__V3__SegmentReference *refs[1];
	CLEANUP(pairs_deinit) struct pairs tags = {};
	struct segment_texts texts;
	struct reference ref;
	int r = pairs_init(&tags, TAGS_MAX);

	if (r)
		return r;
	fill_segment(&m, &texts, info);
	m.spans = spans;
	m.n_spans = 1;
	entry.parentspanid = -1;
	entry.starttime = s->start_ms;
	entry.endtime = s->end_ms;
	entry.operationname = texts.endpoint;
	entry.spantype = SKYWALKING__V3__SPAN_TYPE__Entry;
	entry.spanlayer =
		(Skywalking__V3__SpanLayer)segment_layer_of(info->instance, texts.endpoint);
	entry.componentid = segment_component_of(info->instance);
	add_tags(p, &p->spans.at[span], s, info, &tags);
	entry.tags = tags.list;
	entry.n_tags = tags.n;
	if (info->context && info->context->kind == TRACECONTEXT_SW8) {
		fill_reference(&ref, info->context);
		refs[0] = &ref.message;
		entry.refs = refs;
		entry.n_refs = 1;
	}
	return pack_message(&m, to);
}
