/* SPDX-License-Identifier: Apache-2.0 */
#include "task/task.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/glob.h"

#define NS_PER_MS  1000000ULL
#define NS_PER_MIN (60000ULL * NS_PER_MS)

/* SkyWalking's limits: the same in OAP and in every agent. */
enum {
	SERVER_DURATION_MIN_MIN = 1,
	SERVER_DURATION_MAX_MIN = 15,
	SERVER_PERIOD_MIN_MS = 10,
	SERVER_COUNT_MAX = 9,
	THRESHOLD_MAX_MS = 86400000, /* ours: a day, so that no sum overflows */
	PERIOD_MAX_MS = 3600000,
};

#define LOCAL_DURATION_MAX_NS (366 * 24 * 60 * NS_PER_MIN)

static const char *const state_names[] = {
	[TASK_STATE_QUEUED] = "queued",     [TASK_STATE_RUNNING] = "running",
	[TASK_STATE_FLUSHING] = "flushing", [TASK_STATE_FINISHED] = "finished",
	[TASK_STATE_REJECTED] = "rejected",
};
static_assert(ARRAY_SIZE(state_names) == TASK_STATE_MAX, "a state has no name");

static const char *const event_names[] = {
	[TASK_EVENT_RECEIVED] = "received",
	[TASK_EVENT_REJECTED] = "rejected",
	[TASK_EVENT_NOT_FOR_US] = "not_for_us",
	[TASK_EVENT_QUEUED] = "queued",
	[TASK_EVENT_STARTED] = "started",
	[TASK_EVENT_FINISHED] = "finished",
	[TASK_EVENT_CANCELLED] = "cancelled",
	[TASK_EVENT_LOST] = "lost",
	[TASK_EVENT_INTERRUPTED] = "interrupted",
	[TASK_EVENT_RESUMED] = "resumed",
	[TASK_EVENT_NOTE] = "note",
};
static_assert(ARRAY_SIZE(event_names) == TASK_EVENT_MAX, "an event has no name");

const char *task_state_name(enum task_state state)
{
	return (unsigned int)state < TASK_STATE_MAX ? state_names[state] : "unknown";
}

const char *task_event_name(enum task_event event)
{
	return (unsigned int)event < TASK_EVENT_MAX ? event_names[event] : "unknown";
}

/* Copies without the white space around it, as OAP does; false when it does not fit. */
static bool copy_trimmed(char *to, size_t to_bytes, const char *from)
{
	size_t n;

	if (!from)
		from = "";
	while (*from == ' ' || *from == '\t')
		from++;
	n = strlen(from);
	while (n && (from[n - 1] == ' ' || from[n - 1] == '\t'))
		n--;
	if (n >= to_bytes)
		return false;
	memcpy(to, from, n);
	to[n] = 0;
	return true;
}

/* Control characters in names would reach logs, terminals and JSON of others. */
static bool is_clean(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return false;
	return true;
}

static int copy_texts(const struct task_raw *raw, struct task *t, struct errmsg *e)
{
	if (!copy_trimmed(t->id, sizeof(t->id), raw->id))
		return errmsg_set(e, -EINVAL, "task id is longer than %d bytes", TASK_ID_MAX - 1);
	if (!copy_trimmed(t->service, sizeof(t->service), raw->service))
		return errmsg_set(e, -EINVAL, "service name of task '%s' is longer than %d bytes",
				  t->id, TASK_SERVICE_MAX - 1);
	if (!copy_trimmed(t->instance, sizeof(t->instance), raw->instance))
		return errmsg_set(e, -EINVAL,
				  "instance selector of task '%s' is longer than %d bytes", t->id,
				  TASK_INSTANCE_MAX - 1);
	if (!copy_trimmed(t->endpoint, sizeof(t->endpoint), raw->endpoint))
		return errmsg_set(e, -EINVAL, "endpoint name of task '%s' is longer than %d bytes",
				  t->id, TASK_ENDPOINT_MAX - 1);
	return 0;
}

/* In the order in which OAP checks, so that both give the same first reason. */
static int check_server_numbers(const struct task_raw *raw, struct errmsg *e)
{
	if (raw->duration_min < SERVER_DURATION_MIN_MIN)
		return errmsg_set(e, -EINVAL,
				  "duration of %" PRId64 " min is too short: at least %d",
				  raw->duration_min, SERVER_DURATION_MIN_MIN);
	if (raw->threshold_ms < 0)
		return errmsg_set(e, -EINVAL,
				  "min duration threshold of %" PRId64
				  " ms is negative: at least 0",
				  raw->threshold_ms);
	if (raw->max_count <= 0)
		return errmsg_set(e, -EINVAL,
				  "max sampling count of %" PRId64 " is too small: 1 to %d",
				  raw->max_count, SERVER_COUNT_MAX);
	if (raw->duration_min > SERVER_DURATION_MAX_MIN)
		return errmsg_set(e, -EINVAL, "duration of %" PRId64 " min is too long: at most %d",
				  raw->duration_min, SERVER_DURATION_MAX_MIN);
	if (raw->period_ms < SERVER_PERIOD_MIN_MS)
		return errmsg_set(e, -EINVAL,
				  "dump period of %" PRId64 " ms is too short: at least %d",
				  raw->period_ms, SERVER_PERIOD_MIN_MS);
	if (raw->max_count > SERVER_COUNT_MAX)
		return errmsg_set(e, -EINVAL,
				  "max sampling count of %" PRId64 " is too large: 1 to %d",
				  raw->max_count, SERVER_COUNT_MAX);
	/* Beyond OAP's checks: it has no maximum here, but arithmetic has. */
	if (raw->threshold_ms > THRESHOLD_MAX_MS)
		return errmsg_set(e, -EINVAL,
				  "min duration threshold of %" PRId64 " ms: at most %d",
				  raw->threshold_ms, THRESHOLD_MAX_MS);
	if (raw->period_ms > PERIOD_MAX_MS)
		return errmsg_set(e, -EINVAL, "dump period of %" PRId64 " ms: at most %d",
				  raw->period_ms, PERIOD_MAX_MS);
	return 0;
}

int task_from_raw(const struct task_raw *raw, const char *source, struct task *ret,
		  struct errmsg *e)
{
	struct task t = {};
	int r = copy_texts(raw, &t, e);

	if (r)
		return r;
	if (!copy_trimmed(t.source, sizeof(t.source), source))
		return errmsg_set(e, -EINVAL, "source name '%s' is too long", source);
	if (!t.id[0])
		return errmsg_set(e, -EINVAL, "the task has no id");
	if (!t.service[0])
		return errmsg_set(e, -EINVAL, "task '%s' names no service", t.id);
	if (!t.endpoint[0])
		return errmsg_set(e, -EINVAL, "task '%s' names no endpoint", t.id);
	r = check_server_numbers(raw, e);
	if (r)
		return r;
	t.create_ms = raw->create_ms;
	t.start_ms = raw->start_ms > 0 ? raw->start_ms : 0;
	t.duration_ns = raw->duration_min * NS_PER_MIN;
	t.threshold_ns = raw->threshold_ms * NS_PER_MS;
	t.period_ns = raw->period_ms * NS_PER_MS;
	t.max_spans = raw->max_count;
	r = task_check(&t, TASK_LIMITS_SERVER, e);
	if (r)
		return r;
	*ret = t;
	return 0;
}

static int check_texts(const struct task *t, enum task_limits limits, struct errmsg *e)
{
	if (!t->id[0])
		return errmsg_set(e, -EINVAL, "the task has no id");
	if (!t->service[0])
		return errmsg_set(e, -EINVAL,
				  "the task names no service; say which one, see the rules file");
	if (!t->endpoint[0])
		return errmsg_set(
			e, -EINVAL,
			limits == TASK_LIMITS_LOCAL
				? "the task names no endpoint; '*' stands for every endpoint of the service"
				: "the task names no endpoint");
	if (!is_clean(t->id) || !is_clean(t->service) || !is_clean(t->instance) ||
	    !is_clean(t->endpoint))
		return errmsg_set(e, -EINVAL, "a name in the task has control characters in it");
	return 0;
}

int task_check(const struct task *t, enum task_limits limits, struct errmsg *e)
{
	int r = check_texts(t, limits, e);

	if (r)
		return r;
	if (limits == TASK_LIMITS_SERVER && !t->duration_ns)
		return errmsg_set(e, -EINVAL, "the task has no duration: 1 to 15 min");
	if (t->duration_ns > LOCAL_DURATION_MAX_NS)
		return errmsg_set(e, -EINVAL,
				  "duration is too long: at most a year, or 0 for no end");
	if (t->threshold_ns > THRESHOLD_MAX_MS * NS_PER_MS)
		return errmsg_set(e, -EINVAL, "threshold is too long: at most 24 h");
	if (t->period_ns < NS_PER_MS)
		return errmsg_set(e, -EINVAL,
				  "dump period of %" PRIu64 " us is too short: at least 1 ms",
				  t->period_ns / 1000);
	if (t->period_ns > PERIOD_MAX_MS * NS_PER_MS)
		return errmsg_set(e, -EINVAL, "dump period is too long: at most 1 h");
	if (t->end_by_count && !t->max_spans)
		return errmsg_set(e, -EINVAL, "a task that ends by count needs a count of spans");
	return 0;
}

bool selector_match(const char *selector, const char *name)
{
	return !selector || !selector[0] || !strcmp(selector, name) || glob_match(selector, name);
}

bool selector_is_glob(const char *selector)
{
	return selector && glob_is_pattern(selector);
}

bool task_is_for(const struct task *t, const struct instance *i)
{
	return !strcmp(t->service, i->service) && selector_match(t->instance, i->name);
}
