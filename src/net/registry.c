/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry.c: keepAlive, instance properties and task polls of all instances.
 */
#include "net/registry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "net/commands.h"

#define SECOND_NS 1000000000ULL
#define DAY_MS    86400000LL

enum {
	POLL_S = 20,
	HEARTBEAT_S = 30,
	PROPERTIES_EVERY = 10, /* heartbeats */
	TASKS_PER_POLL = 64,   /* the rest comes with the next poll */
	POLL_WAIT_MAX_S = 600,
	NO_PROFILING_S = 300, /* an hour at most, doubling */
	NO_PROFILING_MAX_S = 3600,
};

enum call_kind { CALL_KEEP_ALIVE, CALL_PROPERTIES, CALL_POLL };

struct entry {
	const struct instance *instance; /* borrowed */
	uint64_t next_beat_ns;
	uint64_t next_poll_ns;
	uint32_t n_beats;
	uint32_t n_bad_polls; /* in a row */
	bool beating;         /* calls are out */
	bool polling;
	bool properties_due;
};

struct registry {
	struct rpc *rpc;
	struct link *link;
	const char *source;
	struct task_intake intake;
	bool started;
	uint64_t poll_ns;
	uint64_t heartbeat_ns;
	uint64_t no_poll_until_ns;
	uint64_t hold_ns;         /* no memory for a call: not before */
	uint32_t n_unimplemented; /* in a row */
	VEC(struct entry) entries;
	char hostname[256];
	struct registry_status status;
};

int registry_new(struct registry **ret, const struct registry_options *o)
{
	struct registry *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->rpc = o->rpc;
	r->link = o->link;
	r->source = o->source;
	r->poll_ns = o->poll_ns ? o->poll_ns : POLL_S * SECOND_NS;
	r->heartbeat_ns = o->heartbeat_ns ? o->heartbeat_ns : HEARTBEAT_S * SECOND_NS;
	if (gethostname(r->hostname, sizeof(r->hostname) - 1))
		strcpy(r->hostname, "unknown");
	*ret = r;
	return 0;
}

struct registry *registry_free(struct registry *r)
{
	if (!r)
		return NULL;
	vec_free(&r->entries);
	free(r);
	return NULL;
}

void registry_start(struct registry *r, const struct task_intake *intake)
{
	r->intake = *intake;
	r->started = true;
}

void registry_reported(struct registry *r, const char *task_id, const char *instance)
{
	if (r->intake.reported)
		r->intake.reported(r->intake.ctx, r->source, task_id, instance);
}

void registry_stop(struct registry *r)
{
	r->started = false;
	r->entries.n = 0;
}

static struct entry *find(struct registry *r, uint32_t instance_id)
{
	for (size_t i = 0; i < r->entries.n; i++)
		if (r->entries.at[i].instance->id == instance_id)
			return &r->entries.at[i];
	return NULL;
}

int registry_add(struct registry *r, const struct instance *i)
{
	struct entry entry = {.instance = i, .properties_due = true};
	struct entry *known = find(r, i->id);

	if (known) {
		known->instance = i;
		return 0;
	}
	return vec_push(&r->entries, entry);
}

void registry_remove(struct registry *r, uint32_t instance_id)
{
	struct entry *e = find(r, instance_id);

	if (e)
		*e = r->entries.at[--r->entries.n];
}

void registry_status(const struct registry *r, struct registry_status *ret)
{
	*ret = r->status;
	ret->no_profiling = r->n_unimplemented > 0;
}

/* ---- answers ---- */

static void hand_on(struct registry *r, struct entry *e, const struct profile_command *c)
{
	const char *id = c->raw.id ? c->raw.id : "";
	struct task_raw raw = c->raw;
	struct errmsg why = {};
	struct task task;

	r->status.n_commands++;
	raw.service = e->instance->service;
	if (c->why) {
		r->intake.refuse(r->intake.ctx, r->source, id, e->instance->id, raw.create_ms,
				 c->why);
	} else if (raw.create_ms > (int64_t)(clock_real_ns() / 1000000) + DAY_MS) {
		/* Moving the last command time there would shut out all tasks to come. */
		r->intake.refuse(
			r->intake.ctx, r->source, id, e->instance->id, -1,
			"CreateTime is more than a day ahead; check the clocks of this host and of the server");
	} else if (task_from_raw(&raw, r->source, &task, &why)) {
		r->intake.refuse(r->intake.ctx, r->source, id, e->instance->id, raw.create_ms,
				 why.text);
	} else {
		r->intake.submit(r->intake.ctx, &task, e->instance->id, &why);
	}
}

/* True when the answer made sense. *ret_more: tasks were left for the next poll. */
static bool take_answer(struct registry *r, uint32_t instance_id, const struct bytes *answer,
			bool *ret_more)
{
	struct commands c;

	*ret_more = false;
	if (decode_commands(answer->at, answer->n, &c) != COMMANDS_OK)
		return false;
	for (size_t i = 0; i < c.tasks.n && i < TASKS_PER_POLL; i++) {
		struct entry *e = find(r, instance_id);

		if (e)
			hand_on(r, e, &c.tasks.at[i]);
	}
	*ret_more = c.tasks.n > TASKS_PER_POLL;
	commands_deinit(&c);
	return true;
}

static uint64_t doubled(uint64_t ns, uint32_t times, uint64_t max_ns)
{
	while (times-- && ns < max_ns)
		ns *= 2;
	return ns < max_ns ? ns : max_ns;
}

static void poll_unimplemented(struct registry *r, uint64_t now_ns)
{
	/* All instances are told the same within one round; it counts once. */
	if (now_ns < r->no_poll_until_ns)
		return;
	r->no_poll_until_ns = now_ns + doubled(NO_PROFILING_S * SECOND_NS, r->n_unimplemented++,
					       NO_PROFILING_MAX_S * SECOND_NS);
}

static void end_poll(struct registry *r, const struct rpc_call *c, enum link_verdict verdict,
		     uint64_t now_ns)
{
	uint32_t instance_id = (uint32_t)(c->arg >> 8);
	struct entry *e = find(r, instance_id);
	bool good = verdict == LINK_V_ANSWERED && c->status == RPC_OK, more = false;

	if (good) {
		r->n_unimplemented = 0;
		r->status.n_answers++;
		good = take_answer(r, instance_id, &c->answer, &more);
		e = find(r, instance_id);
	} else if (c->status == RPC_UNIMPLEMENTED) {
		poll_unimplemented(r, now_ns);
	}
	r->status.n_errors += !good;
	if (!e)
		return;
	e->polling = false;
	e->n_bad_polls = good || verdict == LINK_V_LOST ? 0 : e->n_bad_polls + 1;
	/* The link's own wait comes on top when the backend was not reached. */
	e->next_poll_ns = verdict == LINK_V_LOST
				  ? now_ns
				  : c->start_ns + doubled(r->poll_ns, e->n_bad_polls,
							  POLL_WAIT_MAX_S * SECOND_NS);
	if (more && e->next_poll_ns > now_ns + SECOND_NS)
		e->next_poll_ns = now_ns + SECOND_NS;
}

static void end_beat(struct registry *r, const struct rpc_call *c, enum call_kind kind,
		     enum link_verdict verdict, uint64_t now_ns)
{
	struct entry *e = find(r, (uint32_t)(c->arg >> 8));

	r->status.n_errors += c->status != RPC_OK;
	if (!e)
		return;
	if (kind == CALL_PROPERTIES) {
		e->properties_due = verdict == LINK_V_LOST;
		return;
	}
	e->beating = false;
	e->n_beats++;
	if (e->n_beats % PROPERTIES_EVERY == 0)
		e->properties_due = true;
	e->next_beat_ns = verdict == LINK_V_LOST ? now_ns : c->start_ns + r->heartbeat_ns;
}

static void call_done(void *ctx, struct rpc_call *c)
{
	struct registry *r = ctx;
	enum call_kind kind = c->arg & 0xff;
	uint64_t now_ns = clock_mono_ns();
	bool reconnect;
	enum link_verdict verdict = link_ended(r->link, c->status, c->start_ns, now_ns, &reconnect);

	if (reconnect)
		rpc_next_address(r->rpc);
	if (kind == CALL_POLL)
		end_poll(r, c, verdict, now_ns);
	else
		end_beat(r, c, kind, verdict, now_ns);
	rpc_call_free(c);
}

/* ---- questions ---- */

static int encode(struct registry *r, const struct instance *i, enum call_kind kind,
		  struct bytes *to)
{
	switch (kind) {
	case CALL_KEEP_ALIVE:
		return encode_keep_alive(i, to);
	case CALL_PROPERTIES:
		return encode_properties(i, r->hostname, to);
	default:
		return encode_task_query(
			i, r->intake.last_command_ms(r->intake.ctx, r->source, i->id), to);
	}
}

/* False when the link does not allow it or there is no memory. */
static bool start(struct registry *r, const struct instance *i, enum call_kind kind,
		  uint64_t now_ns)
{
	static const char *const paths[] = {
		[CALL_KEEP_ALIVE] = "/skywalking.v3.ManagementService/keepAlive",
		[CALL_PROPERTIES] = "/skywalking.v3.ManagementService/reportInstanceProperties",
		[CALL_POLL] = "/skywalking.v3.ProfileTask/getProfileTaskCommands",
	};
	struct rpc_call *c = rpc_call_new(paths[kind]);

	if (!c || encode(r, i, kind, &c->body) ||
	    vec_push(&c->messages, (struct rpc_message){c->body.at, c->body.n}) ||
	    !link_may_start(r->link, now_ns)) {
		rpc_call_free(c);
		return false;
	}
	c->done = call_done;
	c->ctx = r;
	c->arg = (uint64_t)i->id << 8 | kind;
	if (rpc_start(r->rpc, c, now_ns) == 0)
		return true;
	link_cancelled(r->link);
	return false;
}

static uint64_t poll_due_ns(const struct registry *r, const struct entry *e)
{
	if (e->polling)
		return UINT64_MAX;
	return e->next_poll_ns > r->no_poll_until_ns ? e->next_poll_ns : r->no_poll_until_ns;
}

static bool dispatch_entry(struct registry *r, struct entry *e, uint64_t now_ns)
{
	if (!e->beating && e->next_beat_ns <= now_ns) {
		if (!start(r, e->instance, CALL_KEEP_ALIVE, now_ns))
			return false;
		e->beating = true;
	}
	/* The instance must be known before it can have properties. */
	if (e->properties_due && e->n_beats) {
		if (!start(r, e->instance, CALL_PROPERTIES, now_ns))
			return false;
		e->properties_due = false;
	}
	if (poll_due_ns(r, e) <= now_ns) {
		if (!start(r, e->instance, CALL_POLL, now_ns))
			return false;
		e->polling = true;
	}
	return true;
}

void registry_dispatch(struct registry *r, uint64_t now_ns)
{
	for (size_t i = 0; r->started && i < r->entries.n; i++)
		if (!dispatch_entry(r, &r->entries.at[i], now_ns)) {
			if (link_free_ns(r->link) <= now_ns)
				r->hold_ns = now_ns + SECOND_NS;
			return;
		}
}

uint64_t registry_deadline_ns(const struct registry *r)
{
	uint64_t first_ns = UINT64_MAX, free_ns = link_free_ns(r->link);

	for (size_t i = 0; r->started && i < r->entries.n; i++) {
		const struct entry *e = &r->entries.at[i];
		uint64_t due_ns = poll_due_ns(r, e);

		if (!e->beating && e->next_beat_ns < due_ns)
			due_ns = e->next_beat_ns;
		if (e->properties_due && e->n_beats)
			due_ns = 0;
		if (due_ns < first_ns)
			first_ns = due_ns;
	}
	if (first_ns < r->hold_ns)
		first_ns = r->hold_ns;
	return first_ns > free_ns ? first_ns : free_ns;
}
