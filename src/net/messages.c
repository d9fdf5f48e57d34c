/* SPDX-License-Identifier: Apache-2.0 */
/*
 * messages.c: registration, task queries and finish reports, and snapshots, as bytes. Segments have
 * a file of their own, segment.c.
 */
#include "net/messages.h"

#include <errno.h>
#include <limits.h>
#include <pb_encode.h>
#include <skywalking/logging.pb-c.h>
#include <skywalking/management.pb-c.h>
#include <skywalking/profile.pb-c.h>
#include <skywalking/profile.pb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "net/label.h"
#include "net/pack.h"

enum { PROPERTIES_MAX = 64, OWN_PROPERTIES = 5, KEY_CHARS_MAX = 64 };

void bytes_deinit(struct bytes *b)
{
	vec_free(b);
}

/* protobuf-c's message base is its first member. */
int pack_message(const void *message, struct bytes *to)
{
	const ProtobufCMessage *m = message;
	size_t n = protobuf_c_message_get_packed_size(m);
	int r = vec_reserve(to, to->n + n);

	if (r)
		return r;
	to->n += protobuf_c_message_pack(m, to->at + to->n);
	return 0;
}

/* Service and instance name as a server keeps them. */
struct who {
	char service[LABEL_SERVICE_MAX * 4 + 1];
	char instance[LABEL_INSTANCE_MAX * 4 + 1];
};

static void who_init(struct who *w, const struct instance *i)
{
	label_copy(w->service, sizeof(w->service), i->service, LABEL_SERVICE_MAX);
	label_copy(w->instance, sizeof(w->instance), i->name, LABEL_INSTANCE_MAX);
}

int encode_keep_alive(const struct instance *i, struct bytes *to)
{
	Skywalking__V3__InstancePingPkg m = SKYWALKING__V3__INSTANCE_PING_PKG__INIT;
	char layer[64];
	struct who w;

	who_init(&w, i);
	label_copy(layer, sizeof(layer), i->layer, sizeof(layer));
	m.service = w.service;
	m.serviceinstance = w.instance;
	m.layer = layer;
	return pack_message(&m, to);
}

int encode_task_query(const struct instance *i, int64_t last_command_ms, struct bytes *to)
{
	Skywalking__V3__ProfileTaskCommandQuery m =
		SKYWALKING__V3__PROFILE_TASK_COMMAND_QUERY__INIT;
	struct who w;

	who_init(&w, i);
	m.service = w.service;
	m.serviceinstance = w.instance;
	m.lastcommandtime = last_command_ms;
	return pack_message(&m, to);
}

int encode_task_finish(const struct instance *i, const char *task_id, struct bytes *to)
{
	Skywalking__V3__ProfileTaskFinishReport m =
		SKYWALKING__V3__PROFILE_TASK_FINISH_REPORT__INIT;
	char id[TASK_ID_MAX];
	struct who w;

	who_init(&w, i);
	label_copy(id, sizeof(id), task_id, sizeof(id));
	m.service = w.service;
	m.serviceinstance = w.instance;
	m.taskid = id;
	return pack_message(&m, to);
}

int encode_log(const struct instance *i, int64_t time_ms, const char *text, struct bytes *to)
{
	Skywalking__V3__LogData m = SKYWALKING__V3__LOG_DATA__INIT;
	Skywalking__V3__LogDataBody body = SKYWALKING__V3__LOG_DATA_BODY__INIT;
	Skywalking__V3__TextLog content = SKYWALKING__V3__TEXT_LOG__INIT;
	char clean[LABEL_VALUE_MAX * 4 + 1];
	struct who w;

	who_init(&w, i);
	label_copy(clean, sizeof(clean), text, LABEL_VALUE_MAX);
	content.text = clean;
	body.content_case = SKYWALKING__V3__LOG_DATA_BODY__CONTENT_TEXT;
	body.text = &content;
	m.timestamp = time_ms;
	m.service = w.service;
	m.serviceinstance = w.instance;
	m.body = &body;
	return pack_message(&m, to);
}

int pairs_add(struct pairs *p, const char *key, const char *value)
{
	struct pair *pair;

	if (p->n == p->max)
		return -ENOSPC;
	pair = &p->at[p->n];
	label_copy(pair->key, sizeof(pair->key), key, PAIR_KEY_MAX);
	label_copy(pair->value, sizeof(pair->value), value, LABEL_VALUE_MAX);
	skywalking__v3__key_string_value_pair__init(&pair->message);
	pair->message.key = pair->key;
	pair->message.value = pair->value;
	p->list[p->n++] = &pair->message;
	return 0;
}

int pairs_init(struct pairs *ret, size_t max)
{
	*ret = (struct pairs){.max = max};
	ret->at = calloc(max, sizeof(*ret->at));
	ret->list = calloc(max, sizeof(void *));
	if (ret->at && ret->list)
		return 0;
	pairs_deinit(ret);
	return -ENOMEM;
}

void pairs_deinit(struct pairs *p)
{
	free(p->at);
	free((void *)p->list);
	*p = (struct pairs){};
}

static void format_start(int64_t epoch_ms, char *buf, size_t n)
{
	time_t seconds = (time_t)(epoch_ms / 1000);
	struct tm tm;

	*buf = '\0';
	if (epoch_ms > 0 && gmtime_r(&seconds, &tm))
		strftime(buf, n, "%Y-%m-%d %H:%M:%S", &tm);
}

int encode_properties(const struct instance *i, const char *hostname, struct bytes *to)
{
	Skywalking__V3__InstanceProperties m = SKYWALKING__V3__INSTANCE_PROPERTIES__INIT;
	size_t n = i->n_properties < PROPERTIES_MAX ? i->n_properties : PROPERTIES_MAX;
	CLEANUP(pairs_deinit) struct pairs pairs = {};
	char layer[64], text[64];
	struct who w;
	int r = pairs_init(&pairs, n + OWN_PROPERTIES);

	if (r)
		return r;
	pairs_add(&pairs, "OS Name", "Linux");
	pairs_add(&pairs, "hostname", hostname);
	snprintf(text, sizeof(text), "%u", i->pid);
	pairs_add(&pairs, "Process No.", text);
	pairs_add(&pairs, "language", "native");
	format_start(i->started_ms, text, sizeof(text));
	pairs_add(&pairs, "Start Time", text);
	for (size_t j = 0; j < n; j++)
		pairs_add(&pairs, i->properties[j].key, i->properties[j].value);
	who_init(&w, i);
	label_copy(layer, sizeof(layer), i->layer, sizeof(layer));
	m.service = w.service;
	m.serviceinstance = w.instance;
	m.layer = layer;
	m.properties = pairs.list;
	m.n_properties = pairs.n;
	return pack_message(&m, to);
}

static bool write_bytes(pb_ostream_t *stream, const pb_byte_t *data, size_t n)
{
	struct bytes *to = stream->state;

	if (vec_reserve(to, to->n + n))
		return false;
	memcpy(to->at + to->n, data, n);
	to->n += n;
	return true;
}

/* On failure takes back what was written. */
static int finish(struct bytes *to, size_t before, bool good)
{
	if (good)
		return 0;
	to->n = before;
	return -ENOMEM;
}

static bool write_text(pb_ostream_t *stream, uint32_t tag, const char *text)
{
	return pb_encode_tag(stream, PB_WT_STRING, tag) &&
	       pb_encode_string(stream, (const pb_byte_t *)text, strlen(text));
}

int encode_stack(const struct snapshots *s, uint32_t path, struct bytes *to)
{
	pb_ostream_t stream = {write_bytes, to, SIZE_MAX, 0};
	size_t before = to->n;
	bool good = true;

	for (uint32_t i = 0; i < s->paths.at[path].n && good; i++)
		good = write_text(&stream, skywalking_v3_ThreadStack_codeSignatures_tag,
				  snapshots_text(s, path, i));
	return finish(to, before, good);
}

/* proto3 leaves zeroes out. */
static bool write_number(pb_ostream_t *stream, uint32_t tag, int64_t v)
{
	return !v ||
	       (pb_encode_tag(stream, PB_WT_VARINT, tag) && pb_encode_varint(stream, (uint64_t)v));
}

int encode_snapshot(const struct snapshot_head *h, const uint8_t *stack, size_t stack_bytes,
		    struct bytes *to)
{
	pb_ostream_t stream = {write_bytes, to, SIZE_MAX, 0};
	size_t before = to->n;
	bool good;

	good = write_text(&stream, skywalking_v3_ThreadSnapshot_taskId_tag, h->task_id) &&
	       write_text(&stream, skywalking_v3_ThreadSnapshot_traceSegmentId_tag, h->segment_id);
	good = good && write_number(&stream, skywalking_v3_ThreadSnapshot_time_tag, h->time_ms) &&
	       write_number(&stream, skywalking_v3_ThreadSnapshot_sequence_tag, h->sequence);
	good = good &&
	       pb_encode_tag(&stream, PB_WT_STRING, skywalking_v3_ThreadSnapshot_stack_tag) &&
	       pb_encode_string(&stream, stack, stack_bytes);
	return finish(to, before, good);
}
