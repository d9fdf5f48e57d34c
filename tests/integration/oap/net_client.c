/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_client.c: a daemon of nothing but a SkyWalking backend, for tests of src/net against a server.
 *
 * usage: net_client ADDRESS[,ADDRESS] [key=value]...
 *   instance=SERVICE/NAME (several)  poll=MS  beat=MS  timeout=MS  token=T  token_file=F  ca=F  cert=F  key=F
 *   server_name=N  spool=BYTES  spool_file=F  spool_file_bytes=N
 * Commands on stdin, one a line:
 *   spans TASK INSTANCE COUNT MS   finished spans of MS milliseconds each, of a task received before
 *   name TEXT                      of the spans to come
 *   finish TASK INSTANCE | up SERVICE/NAME | down NAME | status | quit [MS]
 * What happens is printed, one line each.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "net/skywalking.h"

enum { INSTANCES_MAX = 128, TASKS_MAX = 4096, MS = 1000000 };

struct member {
	struct instance instance;
	char service[128];
	char name[128];
	int64_t last_ms; /* last command time */
	bool up;
};

struct client {
	struct backend_config config;
	const char *addresses[8];
	struct task_source *source;
	struct span_sink *sink;
	struct member members[INSTANCES_MAX];
	unsigned int n_members;
	struct task *tasks; /* TASKS_MAX */
	unsigned int n_tasks;
	uint64_t serial;
	char span_name[512];
};

static struct member *member_by_id(struct client *c, uint32_t id)
{
	for (unsigned int i = 0; i < c->n_members; i++)
		if (c->members[i].instance.id == id)
			return &c->members[i];
	return NULL;
}

static struct member *member_by_name(struct client *c, const char *name)
{
	for (unsigned int i = 0; i < c->n_members; i++)
		if (strcmp(c->members[i].name, name) == 0)
			return &c->members[i];
	return NULL;
}

/* ---- intake ---- */

static void move_last(struct member *m, int64_t create_ms)
{
	if (create_ms > m->last_ms)
		m->last_ms = create_ms;
}

static enum task_answer submit(void *ctx, const struct task *task, uint32_t instance_id,
			       struct errmsg *e)
{
	struct client *c = ctx;
	struct member *m = member_by_id(c, instance_id);

	move_last(m, task->create_ms);
	if (!selector_match(task->instance, m->name)) {
		printf("not-for-us %s %s\n", task->id, m->name);
		return TASK_NOT_FOR_US;
	}
	for (unsigned int i = 0; i < c->n_tasks; i++) {
		if (strcmp(c->tasks[i].id, task->id) == 0) {
			printf("task %s %s\n", task->id, m->name);
			return TASK_KNOWN;
		}
	}
	if (c->n_tasks == TASKS_MAX)
		return TASK_REFUSED;
	c->tasks[c->n_tasks++] = *task;
	printf("task %s %s %s period=%llu\n", task->id, m->name, task->endpoint,
	       (unsigned long long)task->period_ns / MS);
	return TASK_ACCEPTED;
}

static void refuse(void *ctx, const char *source, const char *task_id, uint32_t instance_id,
		   int64_t create_ms, const char *why)
{
	struct member *m = member_by_id(ctx, instance_id);

	move_last(m, create_ms);
	printf("refuse %s %s %s\n", *task_id ? task_id : "-", m->name, why);
}

static int64_t last_command_ms(void *ctx, const char *source, uint32_t instance_id)
{
	return member_by_id(ctx, instance_id)->last_ms;
}

/* ---- spans ---- */

static uint32_t text(struct profile *p, const char *s)
{
	uint32_t id = 0;

	strpool_add(p->strings, s, &id);
	return id;
}

static uint32_t stack_of(struct profile *p, const char *const *functions, uint32_t n)
{
	uint32_t locations[8], stack = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct profile_frame f = {.function = text(p, functions[n - 1 - i]),
					  .line = 10 + i};
		struct profile_location l = {.module_off = f.function};
		uint32_t frame = 0;

		profile_add_frame(p, &f, &frame);
		profile_add_location(p, &l, &frame, 1, &locations[i]);
	}
	profile_add_stack(p, locations, n, STACK_STOP_ENDPOINT, &stack);
	return stack;
}

/* Ticks of 10 ms in "work", and each fifth time a wait of 35 ms in "wait". */
static void fill_span(struct profile *p, uint64_t length_ns)
{
	static const char *const work[] = {"handle", "work", "inner"}, *const wait[] = {"handle",
											"wait"};
	struct profile_span *span = &p->spans.at[1];
	uint32_t stacks[] = {stack_of(p, work, 3), stack_of(p, wait, 2)};

	for (unsigned int i = 0; span->end_ns - span->start_ns < length_ns; i++) {
		bool waits = i % 5 == 4;
		uint64_t wall = waits ? 35 * MS : 10 * MS,
			 left = length_ns - (span->end_ns - span->start_ns);
		struct profile_sample s = {.span = 1,
					   .stack = stacks[waits],
					   .count = 1,
					   .seq = i,
					   .kind = waits ? SAMPLE_BLOCKED : SAMPLE_ONCPU};

		s.wall_ns = wall < left ? wall : left;
		s.start_ns = span->end_ns;
		s.end_ns = span->end_ns += s.wall_ns;
		if (vec_push(&p->samples, s))
			exit(1);
		span->n_samples++;
		span->n_due = ++span->n_kept;
	}
}

static void send_span(struct client *c, const struct task *t, struct member *m, uint64_t length_ns)
{
	struct profile_span span = {.span_id = 1, .tgid = 1, .tid = 2, .first_sample = 1};
	struct sink_span out = {
		.span = 1, .task = t, .instance = &m->instance, .serial = ++c->serial};
	struct profile *p;

	if (profile_new(&p))
		exit(1);
	p->start_mono_ns = clock_mono_ns() - length_ns;
	p->start_real_ns = clock_real_ns() - length_ns;
	span.start_ns = span.end_ns = p->start_mono_ns;
	span.name = text(p, *c->span_name ? c->span_name : t->endpoint);
	if (vec_push(&p->spans, span))
		exit(1);
	fill_span(p, length_ns);
	out.profile = p;
	c->sink->ops->span(c->sink, &out);
	profile_free(p);
}

/* ---- commands ---- */

static void add_member(struct client *c, const char *what)
{
	static struct instance_property properties[] = {{(char *)"kind", (char *)"test"}};
	struct member *m = &c->members[c->n_members];
	const char *slash = strchr(what, '/');

	if (!slash || c->n_members == INSTANCES_MAX)
		exit(2);
	*m = (struct member){.last_ms = -1};
	snprintf(m->service, sizeof(m->service), "%.*s", (int)(slash - what), what);
	snprintf(m->name, sizeof(m->name), "%s", slash + 1);
	m->instance = (struct instance){.id = ++c->n_members,
					.service = m->service,
					.name = m->name,
					.layer = (char *)"",
					.properties = properties,
					.n_properties = 1,
					.pid = (uint32_t)getpid(),
					.started_ms = (int64_t)(clock_real_ns() / MS)};
}

static void print_status(struct client *c)
{
	struct link_status source, sink;

	c->source->ops->status(c->source, &source);
	c->sink->ops->status(c->sink, &sink);
	printf("status sent=%llu dropped=%llu errors=%llu queued=%llu commands=%llu source-errors=%llu state=%s\n",
	       (unsigned long long)sink.n_sent, (unsigned long long)sink.n_dropped,
	       (unsigned long long)sink.n_errors, (unsigned long long)sink.queued_bytes,
	       (unsigned long long)source.n_sent, (unsigned long long)source.n_errors,
	       source.state);
}

static const struct task *find_task(struct client *c, const char *id)
{
	for (unsigned int i = 0; i < c->n_tasks; i++)
		if (strcmp(c->tasks[i].id, id) == 0)
			return &c->tasks[i];
	/* A task of an earlier life. */
	c->tasks[c->n_tasks] = (struct task){.period_ns = 10 * MS};
	snprintf(c->tasks[c->n_tasks].id, TASK_ID_MAX, "%s", id);
	snprintf(c->tasks[c->n_tasks].source, TASK_SOURCE_MAX, "%s", c->config.name);
	snprintf(c->tasks[c->n_tasks].endpoint, TASK_ENDPOINT_MAX, "/earlier");
	return &c->tasks[c->n_tasks++];
}

/* False: quit. */
static bool run_command(struct client *c, char *line)
{
	char a[256] = "", b[256] = "";
	unsigned int count, ms;
	struct member *m;

	if (sscanf(line, "spans %255s %255s %u %u", a, b, &count, &ms) == 4) {
		m = member_by_name(c, b);
		for (unsigned int i = 0; m && i < count; i++)
			send_span(c, find_task(c, a), m, (uint64_t)ms * MS);
	} else if (sscanf(line, "finish %255s %255s", a, b) == 2) {
		m = member_by_name(c, b);
		if (m)
			c->sink->ops->task_finished(c->sink, find_task(c, a), &m->instance,
						    TASK_EVENT_FINISHED);
	} else if (strncmp(line, "name ", 5) == 0) {
		snprintf(c->span_name, sizeof(c->span_name), "%.511s", line + 5);
	} else if (sscanf(line, "up %255s", a) == 1) {
		add_member(c, a);
		c->source->ops->instance_up(c->source, &c->members[c->n_members - 1].instance);
	} else if (sscanf(line, "down %255s", a) == 1) {
		m = member_by_name(c, a);
		if (m)
			c->source->ops->instance_down(c->source, &m->instance);
	} else if (strcmp(line, "status") == 0) {
		print_status(c);
	} else if (strncmp(line, "quit", 4) == 0) {
		c->sink->ops->shutdown(c->sink,
				       clock_mono_ns() + strtoull(line + 4, NULL, 10) * MS);
		return false;
	}
	return true;
}

/* ---- the loop ---- */

static int wait_ms(uint64_t deadline_ns)
{
	uint64_t now_ns = clock_mono_ns();

	if (deadline_ns == UINT64_MAX)
		return -1;
	return deadline_ns <= now_ns ? 0 : (int)((deadline_ns - now_ns) / MS + 1);
}

static void loop(struct client *c)
{
	struct pollfd fds[] = {{0, POLLIN, 0}, {c->source->ops->fd(c->source), POLLIN, 0}};
	uint64_t n_rounds = 0, start_ns = clock_mono_ns();
	char buf[4096];
	size_t n = 0;

	for (;;) {
		char *end;
		ssize_t got = 0;

		poll(fds, 2, wait_ms(c->source->ops->deadline_ns(c->source)));
		n_rounds++;
		if (fds[0].revents) {
			got = read(0, buf + n, sizeof(buf) - 1 - n);
			if (got <= 0)
				break;
			n += (size_t)got;
		}
		while ((end = memchr(buf, '\n', n))) {
			*end = '\0';
			if (!run_command(c, buf)) {
				print_status(c);
				printf("rounds=%llu in %.1f s\n", (unsigned long long)n_rounds,
				       (double)(clock_mono_ns() - start_ns) / 1e9);
				return;
			}
			n -= (size_t)(end + 1 - buf);
			memmove(buf, end + 1, n);
		}
		c->source->ops->dispatch(c->source, clock_mono_ns());
		fflush(stdout);
	}
}

static void set_option(struct client *c, const char *arg)
{
	struct backend_config *o = &c->config;
	const char *value = strchr(arg, '=');
	const struct {
		const char *key;
		const char **text;
		uint64_t *number;
		uint64_t factor;
	} options[] = {
		{"token", &o->token},
		{"token_file", &o->token_file},
		{"ca", &o->ca_file},
		{"cert", &o->cert_file},
		{"key", &o->key_file},
		{"server_name", &o->server_name},
		{"spool_file", &o->spool_file},
		{"poll", NULL, &o->poll_ns, MS},
		{"timeout", NULL, &o->timeout_ns, MS},
		{"beat", NULL, &o->heartbeat_ns, MS},
		{"spool", NULL, &o->spool_bytes, 1},
		{"spool_file_bytes", NULL, &o->spool_file_bytes, 1},
	};

	if (!value)
		exit(2);
	if (strncmp(arg, "instance=", 9) == 0) {
		add_member(c, value + 1);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		if (strncmp(arg, options[i].key, (size_t)(value - arg)) != 0 ||
		    options[i].key[value - arg])
			continue;
		if (options[i].text)
			*options[i].text = value + 1;
		else
			*options[i].number = strtoull(value + 1, NULL, 10) * options[i].factor;
		o->tls = o->tls || options[i].text == &o->ca_file;
		return;
	}
	exit(2);
}

int main(int argc, char **argv)
{
	struct client *c = calloc(1, sizeof(*c));
	struct task_intake intake = {c, submit, refuse, NULL, last_command_ms};
	struct errmsg e = {};
	char *list = argc > 1 ? argv[1] : NULL, *next;

	if (!c || !list)
		return 2;
	c->tasks = calloc(TASKS_MAX, sizeof(*c->tasks));
	c->config = (struct backend_config){
		.name = "oap", .kind = "skywalking", .addresses = c->addresses};
	while ((next = strsep(&list, ",")) && c->config.n_addresses < ARRAY_SIZE(c->addresses))
		c->addresses[c->config.n_addresses++] = next;
	for (int i = 2; i < argc; i++)
		set_option(c, argv[i]);
	if (skywalking_new(&c->config, &c->source, &c->sink, &e)) {
		printf("error %s\n", e.text);
		free(c->tasks);
		free(c);
		return 1;
	}
	c->serial = clock_real_ns();
	c->source->ops->start(c->source, &intake, &e);
	for (unsigned int i = 0; i < c->n_members; i++)
		c->source->ops->instance_up(c->source, &c->members[i].instance);
	printf("ready\n");
	fflush(stdout);
	loop(c);
	c->source->ops->free(c->source);
	c->sink->ops->free(c->sink);
	free(c->tasks);
	free(c);
	return 0;
}
