/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commands.c: ProfileTaskQuery commands out of a protobuf answer.
 *
 * Numbers are read as Java's parseInt and parseLong read them, because that is what servers write
 * for; but where Java's agent throws and loses the whole answer, here only the bad command is
 * refused.
 */
#include "net/commands.h"

#include <errno.h>
#include <skywalking/command.pb-c.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "net/label.h"

/* All of an answer's memory comes from one block, given back at once. */
struct arena {
	char *base;
	size_t used;
	bool full;
};

static void *arena_alloc(void *ctx, size_t bytes)
{
	struct arena *a = ctx;
	size_t need = (bytes + 15) & ~(size_t)15;
	void *p = a->base + a->used;

	if (need < bytes || need > COMMANDS_MEMORY_MAX - a->used) {
		a->full = true;
		return NULL;
	}
	a->used += need;
	return p;
}

static void arena_free(void *ctx, void *p)
{
}

enum arg_kind { ARG_TEXT, ARG_INT, ARG_LONG };

struct arg {
	const char *key;
	enum arg_kind kind;
	size_t off; /* in struct task_raw */
};

#define ARG(key, kind, field)                               \
	{                                                   \
		key, kind, offsetof(struct task_raw, field) \
	}
static const struct arg known_args[] = {
	ARG("TaskId", ARG_TEXT, id),
	ARG("EndpointName", ARG_TEXT, endpoint),
	ARG("InstanceName", ARG_TEXT, instance),
	ARG("Duration", ARG_INT, duration_min),
	ARG("MinDurationThreshold", ARG_INT, threshold_ms),
	ARG("DumpPeriod", ARG_INT, period_ms),
	ARG("MaxSamplingCount", ARG_INT, max_count),
	ARG("StartTime", ARG_LONG, start_ms),
	ARG("CreateTime", ARG_LONG, create_ms),
};
#undef ARG
_Static_assert(ARRAY_SIZE(known_args) < 32, "a bit for each");

static bool parse_decimal(const char *text, int64_t min, int64_t max, int64_t *ret)
{
	const char *digits = text + (*text == '-' || *text == '+');
	char *end;
	long long v;

	if (*digits < '0' || *digits > '9')
		return false;
	errno = 0;
	v = strtoll(text, &end, 10);
	if (errno || *end || v < min || v > max)
		return false;
	*ret = v;
	return true;
}

static int set_text(struct task_raw *raw, const struct arg *arg, const char *value, bool again,
		    struct errmsg *e)
{
	const char **to = (const char **)((char *)raw + arg->off);

	if (!label_is_clean(value))
		return errmsg_set(e, -EINVAL, "%s holds bytes that are not printable UTF-8",
				  arg->key);
	if (again && *to && strcmp(*to, value) != 0)
		return errmsg_set(e, -EINVAL, "%s is given twice with different values", arg->key);
	*to = value;
	return 0;
}

static int set_number(struct task_raw *raw, const struct arg *arg, const char *value, bool again,
		      struct errmsg *e)
{
	int64_t *to = (int64_t *)((char *)raw + arg->off);
	int64_t min = arg->kind == ARG_INT ? INT32_MIN : INT64_MIN;
	int64_t max = arg->kind == ARG_INT ? INT32_MAX : INT64_MAX;
	char shown[64];
	int64_t v;

	if (!parse_decimal(value, min, max, &v)) {
		label_copy(shown, sizeof(shown), value, sizeof(shown));
		return errmsg_set(e, -EINVAL, "%s is \"%s\", not a number of %d bits", arg->key,
				  shown, arg->kind == ARG_INT ? 32 : 64);
	}
	if (again && *to != v)
		return errmsg_set(e, -EINVAL, "%s is given twice with different values", arg->key);
	*to = v;
	return 0;
}

/* The first trouble stays in e; later arguments are read all the same: CreateTime is needed. */
static int decode_profile_task(const Skywalking__V3__Command *command, struct task_raw *ret,
			       struct errmsg *e)
{
	struct errmsg ignored;
	uint32_t seen = 0;
	int r = 0;

	*ret = (struct task_raw){};
	for (size_t i = 0; i < command->n_args; i++) {
		const Skywalking__V3__KeyStringValuePair *pair = command->args[i];

		for (size_t j = 0; j < ARRAY_SIZE(known_args); j++) {
			const struct arg *arg = &known_args[j];
			int one;

			if (strcmp(pair->key, arg->key) != 0)
				continue;
			one = (arg->kind == ARG_TEXT ? set_text : set_number)(
				ret, arg, pair->value, seen >> j & 1, r ? &ignored : e);
			if (one && strcmp(arg->key, "CreateTime") == 0)
				ret->create_ms = -1;
			r = r ? r : one;
			seen |= 1U << j;
		}
	}
	if (!r && (!ret->id || !*ret->id))
		r = errmsg_set(e, -EINVAL, "TaskId is missing");
	return r;
}

static int add_command(struct commands *c, const Skywalking__V3__Command *command)
{
	struct profile_command *to;
	struct errmsg e = {};
	int r;

	if (strcmp(command->command, "ProfileTaskQuery") != 0) {
		c->n_other++;
		return 0;
	}
	r = vec_reserve(&c->tasks, c->tasks.n + 1);
	if (r)
		return r;
	to = &c->tasks.at[c->tasks.n++];
	*to = (struct profile_command){};
	if (decode_profile_task(command, &to->raw, &e)) {
		to->why = strdup(e.text);
		if (!to->why)
			return -ENOMEM;
	}
	return 0;
}

static int compare_create(const void *a, const void *b)
{
	const struct profile_command *x = a, *y = b;

	if (x->raw.create_ms != y->raw.create_ms)
		return x->raw.create_ms < y->raw.create_ms ? -1 : 1;
	return 0;
}

int decode_commands(const void *data, size_t bytes, struct commands *ret)
{
	CLEANUP(commands_deinit) struct commands c = {};
	Skywalking__V3__Commands *m;
	struct arena arena = {};
	ProtobufCAllocator allocator = {arena_alloc, arena_free, &arena};
	int r = 0;

	if (bytes > COMMANDS_BYTES_MAX)
		return COMMANDS_E_LIMIT;
	if (bytes) {
		/* Untouched pages cost nothing. */
		c.arena = arena.base = malloc(COMMANDS_MEMORY_MAX);
		if (!c.arena)
			return -ENOMEM;
		m = skywalking__v3__commands__unpack(&allocator, bytes, data);
		if (!m)
			return arena.full ? COMMANDS_E_LIMIT : COMMANDS_E_FORM;
		for (size_t i = 0; i < m->n_commands && !r; i++)
			r = add_command(&c, m->commands[i]);
		if (r)
			return r;
		if (c.tasks.n)
			qsort(c.tasks.at, c.tasks.n, sizeof(*c.tasks.at), compare_create);
	}
	*ret = c;
	c = (struct commands){};
	return COMMANDS_OK;
}

void commands_deinit(struct commands *c)
{
	for (size_t i = 0; i < c->tasks.n; i++)
		free(c->tasks.at[i].why);
	vec_free(&c->tasks);
	free(c->arena);
	*c = (struct commands){};
}
