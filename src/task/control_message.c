/* SPDX-License-Identifier: Apache-2.0 */
#include "task/control_message.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "task/task.h"

enum { LIMIT_DEFAULT = 100, LIMIT_MAX = 1000 };

#define NS_PER_MS 1000000ULL

static void cleanup_json(json_t **j)
{
	json_decref(*j);
}

#define AUTO_JSON CLEANUP(cleanup_json)

static const char *const command_names[] = {
	[CONTROL_PING] = "ping",
	[CONTROL_TASK_CREATE] = "task.create",
	[CONTROL_TASK_LIST] = "task.list",
	[CONTROL_TASK_SHOW] = "task.show",
	[CONTROL_TASK_LOG] = "task.log",
	[CONTROL_TASK_CANCEL] = "task.cancel",
	[CONTROL_SPAN_LIST] = "span.list",
	[CONTROL_INSTANCE_LIST] = "instance.list",
	[CONTROL_TOP] = "top",
	[CONTROL_METRICS] = "metrics",
};
static_assert(ARRAY_SIZE(command_names) == CONTROL_COMMAND_MAX, "a command has no name");

static const char *const error_names[] = {
	[CONTROL_E_INVALID] = "invalid",     [CONTROL_E_REFUSED] = "refused",
	[CONTROL_E_NOT_FOUND] = "not_found", [CONTROL_E_PERMISSION] = "permission",
	[CONTROL_E_BUSY] = "busy",           [CONTROL_E_INTERNAL] = "internal",
};
static_assert(ARRAY_SIZE(error_names) == CONTROL_ERROR_MAX, "an error has no name");

const char *control_command_name(enum control_command c)
{
	return (unsigned int)c < CONTROL_COMMAND_MAX ? command_names[c] : "unknown";
}

const char *control_error_name(enum control_error error)
{
	return (unsigned int)error < CONTROL_ERROR_MAX ? error_names[error] : "unknown";
}

enum field_kind { FIELD_TEXT, FIELD_DURATION, FIELD_COUNT, FIELD_TIME_MS, FIELD_BOOL };

struct field {
	const char *key;
	enum field_kind kind;
	size_t off;
	size_t bytes;          /* FIELD_TEXT */
	uint64_t max;          /* FIELD_COUNT */
	unsigned int commands; /* bit mask; 0: all */
};

#define TASK_TEXT(key, member)                                   \
	{                                                        \
		key, FIELD_TEXT, offsetof(struct task, member),  \
			sizeof(((struct task *)0)->member), 0, 0 \
	}
#define TASK_VALUE(key, kind, member, max)                          \
	{                                                           \
		key, kind, offsetof(struct task, member), 0, max, 0 \
	}

static const struct field task_fields[] = {
	TASK_TEXT("id", id),
	TASK_TEXT("service", service),
	TASK_TEXT("instance", instance),
	TASK_TEXT("endpoint", endpoint),
	TASK_VALUE("threshold", FIELD_DURATION, threshold_ns, 0),
	TASK_VALUE("period", FIELD_DURATION, period_ns, 0),
	TASK_VALUE("duration", FIELD_DURATION, duration_ns, 0),
	TASK_VALUE("start_ms", FIELD_TIME_MS, start_ms, 0),
	TASK_VALUE("spans", FIELD_COUNT, max_spans, 1000000000),
	TASK_VALUE("parallel", FIELD_COUNT, max_parallel, 1000000),
	TASK_VALUE("from_start", FIELD_BOOL, from_start, 0),
	TASK_VALUE("end_by_count", FIELD_BOOL, end_by_count, 0),
};

#define ONE_TASK (1u << CONTROL_TASK_SHOW | 1u << CONTROL_TASK_LOG | 1u << CONTROL_TASK_CANCEL)
#define SPANS    (1u << CONTROL_SPAN_LIST)

#define TEXT_OF(key, member, commands)                                             \
	{                                                                          \
		key, FIELD_TEXT, offsetof(struct control_request, member),         \
			sizeof(((struct control_request *)0)->member), 0, commands \
	}

static const struct field request_fields[] = {
	TEXT_OF("id", id, ONE_TASK | SPANS),
	TEXT_OF("source", source, ONE_TASK),
	TEXT_OF("service", service, SPANS),
	TEXT_OF("instance", instance, SPANS),
	{"min_duration", FIELD_DURATION, offsetof(struct control_request, min_ns), 0, 0, SPANS},
	{"slowest", FIELD_BOOL, offsetof(struct control_request, slowest), 0, 0, SPANS},
	{"limit", FIELD_COUNT, offsetof(struct control_request, limit), 0, LIMIT_MAX,
	 SPANS | 1u << CONTROL_TASK_LOG},
};

static int take_text(const struct field *f, const json_t *v, char *to, struct errmsg *e)
{
	const char *text = json_string_value(v);

	if (!text)
		return errmsg_set(e, -EINVAL, "'%s' must be a text", f->key);
	if (json_string_length(v) >= f->bytes)
		return errmsg_set(e, -EINVAL, "'%s' is longer than %zu bytes", f->key,
				  f->bytes - 1);
	if (strlen(text) != json_string_length(v))
		return errmsg_set(e, -EINVAL, "'%s' has a NUL character in it", f->key);
	memcpy(to, text, json_string_length(v) + 1);
	return 0;
}

static int take_field(const struct field *f, const json_t *v, void *base, struct errmsg *e)
{
	char *to = (char *)base + f->off;
	json_int_t number = json_integer_value(v);

	switch (f->kind) {
	case FIELD_TEXT:
		return take_text(f, v, to, e);
	case FIELD_DURATION:
		if (!json_is_string(v) ||
		    parse_duration(json_string_value(v), (uint64_t *)(void *)to))
			return errmsg_set(
				e, -EINVAL,
				"'%s' must be a duration in a text, for example \"10ms\", \"2s\", \"5m\"",
				f->key);
		return 0;
	case FIELD_COUNT:
		if (!json_is_integer(v) || number < 0 || (uint64_t)number > f->max)
			return errmsg_set(e, -EINVAL, "'%s' must be a number from 0 to %llu",
					  f->key, (unsigned long long)f->max);
		*(uint32_t *)(void *)to = number;
		return 0;
	case FIELD_TIME_MS:
		if (!json_is_integer(v) || number < 0 || number > INT64_MAX / 4)
			return errmsg_set(e, -EINVAL, "'%s' must be milliseconds since 1970",
					  f->key);
		*(int64_t *)(void *)to = number;
		return 0;
	case FIELD_BOOL:
		if (!json_is_boolean(v))
			return errmsg_set(e, -EINVAL, "'%s' must be true or false", f->key);
		*(bool *)to = json_is_true(v);
		return 0;
	}
	return -EINVAL;
}

static const struct field *find_field(const struct field *fields, size_t n, const char *key,
				      enum control_command command)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(fields[i].key, key) &&
		    (!fields[i].commands || fields[i].commands & 1u << command))
			return &fields[i];
	return NULL;
}

static int unknown_key(const struct field *fields, size_t n, const char *key,
		       enum control_command command, struct errmsg *e)
{
	char allowed[256] = "";
	size_t used = 0;

	for (size_t i = 0; i < n && used < sizeof(allowed); i++)
		if (!fields[i].commands || fields[i].commands & 1u << command)
			used += snprintf(allowed + used, sizeof(allowed) - used, "%s%s",
					 used ? ", " : "", fields[i].key);
	return errmsg_set(e, -EINVAL, "unknown key '%.64s'; allowed here: %s", key,
			  allowed[0] ? allowed : "none");
}

static int take_task(json_t *object, struct control_request *ret, struct errmsg *e)
{
	const char *key;
	json_t *v;

	if (!json_is_object(object))
		return errmsg_set(
			e, -EINVAL,
			"'task' must be an object with service, endpoint, threshold, period, duration ...");
	ret->task = (struct task){.period_ns = 10 * NS_PER_MS,
				  .threshold_ns = 100 * NS_PER_MS,
				  .duration_ns = 300000 * NS_PER_MS};
	json_object_foreach(object, key, v)
	{
		const struct field *f =
			find_field(task_fields, ARRAY_SIZE(task_fields), key, CONTROL_TASK_CREATE);
		int r = f ? take_field(f, v, &ret->task, e)
			  : unknown_key(task_fields, ARRAY_SIZE(task_fields), key,
					CONTROL_TASK_CREATE, e);

		if (r)
			return r;
	}
	strcpy(ret->task.source, "control");
	return 0;
}

/* "v", "req" and "cmd", which every request has. */
static int take_head(json_t *root, struct control_request *ret, struct errmsg *e)
{
	json_t *v = json_object_get(root, "v"), *req = json_object_get(root, "req");
	const char *cmd = json_string_value(json_object_get(root, "cmd"));

	if (req && (!json_is_string(req) || json_string_length(req) >= sizeof(ret->req)))
		return errmsg_set(e, -EINVAL, "'req' must be a text of at most %d bytes",
				  CONTROL_REQ_MAX - 1);
	if (req)
		snprintf(ret->req, sizeof(ret->req), "%s", json_string_value(req));
	if (!json_is_integer(v) || json_integer_value(v) != CONTROL_VERSION)
		return errmsg_set(
			e, -EINVAL,
			"'v' must be %d, the version of the protocol that this agent speaks",
			CONTROL_VERSION);
	for (int i = 0; cmd && i < CONTROL_COMMAND_MAX; i++) {
		if (strcmp(cmd, command_names[i]))
			continue;
		ret->command = i;
		return 0;
	}
	return errmsg_set(e, -EINVAL, "'cmd' is '%.64s', which is not known", cmd ? cmd : "");
}

static int take_body(json_t *root, struct control_request *ret, struct errmsg *e)
{
	const char *key;
	json_t *v;

	json_object_foreach(root, key, v)
	{
		const struct field *f;
		int r;

		if (!strcmp(key, "v") || !strcmp(key, "req") || !strcmp(key, "cmd"))
			continue;
		if (!strcmp(key, "task") && ret->command == CONTROL_TASK_CREATE) {
			r = take_task(v, ret, e);
		} else {
			f = find_field(request_fields, ARRAY_SIZE(request_fields), key,
				       ret->command);
			r = f ? take_field(f, v, ret, e)
			      : unknown_key(request_fields, ARRAY_SIZE(request_fields), key,
					    ret->command, e);
		}
		if (r)
			return r;
	}
	return 0;
}

static int check_request(const struct control_request *r, struct errmsg *e)
{
	struct task probe;

	if (r->command == CONTROL_TASK_CREATE) {
		if (!r->task.period_ns)
			return errmsg_set(e, -EINVAL, "'task' is missing");
		probe = r->task;
		if (!probe.id[0])
			strcpy(probe.id, "new");
		return task_check(&probe, TASK_LIMITS_LOCAL, e);
	}
	if ((ONE_TASK & 1u << r->command) && r->command != CONTROL_TASK_LOG && !r->id[0])
		return errmsg_set(e, -EINVAL, "'id' is missing: which task?");
	return 0;
}

int parse_control_line(const char *line, size_t bytes, struct control_request *ret,
		       struct errmsg *e)
{
	AUTO_JSON json_t *root = NULL;
	json_error_t error;
	int r;

	memset(ret, 0, sizeof(*ret));
	ret->limit = LIMIT_DEFAULT;
	if (bytes > CONTROL_LINE_MAX)
		return errmsg_set(e, -EINVAL, "the line is longer than %d bytes", CONTROL_LINE_MAX);
	root = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, &error);
	if (!root)
		return errmsg_set(e, -EINVAL, "not JSON: %s at byte %d", error.text,
				  error.position);
	if (!json_is_object(root))
		return errmsg_set(
			e, -EINVAL,
			"a request must be an object, for example {\"v\":1,\"cmd\":\"task.list\"}");
	r = take_head(root, ret, e);
	if (!r)
		r = take_body(root, ret, e);
	if (!r)
		r = check_request(ret, e);
	return r;
}

/* Objects are made by hand so that `result` need not be parsed again; texts are made by jansson. */
char *control_quote(const char *text)
{
	AUTO_JSON json_t *j = json_string(text);
	char *quoted;

	if (!j)
		j = json_string("(text that is not UTF-8)");
	quoted = j ? json_dumps(j, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
	return quoted;
}

char *control_reply(const char *req, const char *result)
{
	AUTO_FREE char *quoted = control_quote(req);
	char *reply;

	if (!quoted || asprintf(&reply, "{\"v\":%d,\"req\":%s,\"ok\":true,\"result\":%s}\n",
				CONTROL_VERSION, quoted, result) < 0)
		return NULL;
	return reply;
}

char *control_reply_error(const char *req, enum control_error error, const char *message)
{
	AUTO_FREE char *quoted = control_quote(req), *text = control_quote(message);
	char *reply;

	if (!quoted || !text ||
	    asprintf(
		    &reply,
		    "{\"v\":%d,\"req\":%s,\"ok\":false,\"error\":{\"code\":\"%s\",\"message\":%s}}\n",
		    CONTROL_VERSION, quoted, control_error_name(error), text) < 0)
		return NULL;
	return reply;
}
