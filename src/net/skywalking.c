/* SPDX-License-Identifier: Apache-2.0 */
/*
 * skywalking.c: puts connection, registry and reporter together behind the tables of functions that
 * the daemon knows.
 */
#include "net/skywalking.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "net/link.h"
#include "net/registry.h"
#include "net/reporter.h"
#include "net/rpc.h"

enum { TOKEN_BYTES_MAX = 8192, WAIT_MAX_MS = 100 };

/* What source and sink share. */
struct backend {
	unsigned int n_users;
	char *name; /* owned */
	struct rpc *rpc;
	struct link link;
	struct registry *registry;
	struct reporter *reporter;
};

struct skywalking_source {
	struct task_source base;
	struct backend *backend;
};

struct skywalking_sink {
	struct span_sink base;
	struct backend *backend;
};

static struct backend *of_source(const struct task_source *s)
{
	return ((const struct skywalking_source *)s)->backend;
}

static struct backend *of_sink(const struct span_sink *s)
{
	return ((const struct skywalking_sink *)s)->backend;
}

/* The calls go first: they point into the other parts. */
static void backend_unref(struct backend *b)
{
	if (!b || --b->n_users)
		return;
	rpc_free(b->rpc);
	registry_free(b->registry);
	reporter_free(b->reporter);
	free(b->name);
	free(b);
}
DEFINE_CLEANUP(struct backend *, backend_unref)

/* ---- both ---- */

static void backend_dispatch(struct backend *b, uint64_t mono_ns)
{
	struct rpc_call *c;

	while ((c = rpc_take_done(b->rpc)))
		c->done(c->ctx, c);
	registry_dispatch(b->registry, mono_ns);
	reporter_dispatch(b->reporter, mono_ns);
}

static uint64_t backend_deadline_ns(const struct backend *b)
{
	uint64_t registry_ns = registry_deadline_ns(b->registry);
	uint64_t reporter_ns = reporter_deadline_ns(b->reporter);

	return registry_ns < reporter_ns ? registry_ns : reporter_ns;
}

static const char *backend_state(const struct backend *b)
{
	struct registry_status s;

	registry_status(b->registry, &s);
	if (b->link.state == LINK_READY && s.no_profiling)
		return "ready, but the backend does not know trace profiling";
	return link_state_text(&b->link);
}

/* ---- source ---- */

static int source_start(struct task_source *s, const struct task_intake *intake, struct errmsg *e)
{
	registry_start(of_source(s)->registry, intake);
	return 0;
}

static int source_fd(const struct task_source *s)
{
	return rpc_fd(of_source(s)->rpc);
}

static uint64_t source_deadline_ns(const struct task_source *s)
{
	return backend_deadline_ns(of_source(s));
}

static void source_dispatch(struct task_source *s, uint64_t mono_ns)
{
	backend_dispatch(of_source(s), mono_ns);
}

static void source_instance_up(struct task_source *s, const struct instance *i)
{
	/* Without memory the instance is not registered; its spans are still reported. */
	registry_add(of_source(s)->registry, i);
}

static void source_instance_down(struct task_source *s, const struct instance *i)
{
	registry_remove(of_source(s)->registry, i->id);
}

static void source_status(const struct task_source *s, struct link_status *ret)
{
	const struct backend *b = of_source(s);
	struct registry_status status;

	registry_status(b->registry, &status);
	*ret = (struct link_status){
		.state = backend_state(b),
		.n_sent = status.n_commands,
		.n_errors = status.n_errors,
	};
}

static struct task_source *source_free(struct task_source *s)
{
	if (!s)
		return NULL;
	registry_stop(of_source(s)->registry);
	backend_unref(of_source(s));
	free(s);
	return NULL;
}

static const struct task_source_ops source_ops = {
	.kind = "skywalking",
	.start = source_start,
	.fd = source_fd,
	.deadline_ns = source_deadline_ns,
	.dispatch = source_dispatch,
	.instance_up = source_instance_up,
	.instance_down = source_instance_down,
	.status = source_status,
	.free = source_free,
};

/* ---- sink ---- */

static void sink_dispatch(struct span_sink *s, uint64_t mono_ns)
{
	backend_dispatch(of_sink(s), mono_ns);
}

static void sink_span(struct span_sink *s, const struct sink_span *span)
{
	/* A task that the backend did not give means nothing to it. */
	if (strcmp(span->task->source, s->name) == 0)
		reporter_span(of_sink(s)->reporter, span);
}

static void sink_task_finished(struct span_sink *s, const struct task *t, const struct instance *i,
			       enum task_event how)
{
	if (i && strcmp(t->source, s->name) == 0)
		reporter_task_finished(of_sink(s)->reporter, t, i);
}

static void sink_shutdown(struct span_sink *s, uint64_t deadline_mono_ns)
{
	struct backend *b = of_sink(s);
	uint64_t now_ns = clock_mono_ns();

	reporter_hurry(b->reporter);
	registry_stop(b->registry);
	while (now_ns < deadline_mono_ns && !reporter_is_idle(b->reporter) &&
	       b->link.state != LINK_UNAUTHORISED && b->link.n_failures < 2) {
		struct pollfd fd = {.fd = rpc_fd(b->rpc), .events = POLLIN};
		uint64_t left_ms = (deadline_mono_ns - now_ns) / 1000000 + 1;

		backend_dispatch(b, now_ns);
		poll(&fd, 1, left_ms < WAIT_MAX_MS ? (int)left_ms : WAIT_MAX_MS);
		now_ns = clock_mono_ns();
	}
}

static void sink_status(const struct span_sink *s, struct link_status *ret)
{
	const struct backend *b = of_sink(s);
	struct reporter_status status;

	reporter_status(b->reporter, &status);
	*ret = (struct link_status){
		.state = backend_state(b),
		.n_sent = status.n_spans,
		.n_dropped = status.n_dropped,
		.n_errors = status.n_errors,
		.queued_bytes = status.waiting_bytes,
	};
}

static struct span_sink *sink_free(struct span_sink *s)
{
	if (!s)
		return NULL;
	backend_unref(of_sink(s));
	free(s);
	return NULL;
}

static const struct span_sink_ops sink_ops = {
	.kind = "skywalking",
	.dispatch = sink_dispatch,
	.span = sink_span,
	.task_finished = sink_task_finished,
	.shutdown = sink_shutdown,
	.status = sink_status,
	.free = sink_free,
};

/* ---- construction ---- */

/* The token, or the first line of its file. */
static int read_token(const struct backend_config *c, char **ret, struct errmsg *e)
{
	size_t n;
	int r;

	if (!c->token_file) {
		*ret = c->token ? strdup(c->token) : NULL;
		return c->token && !*ret ? -ENOMEM : 0;
	}
	r = read_file(AT_FDCWD, c->token_file, TOKEN_BYTES_MAX, ret, &n);
	if (r)
		return errmsg_set(e, r, "cannot read the token file \"%s\" of backend \"%s\": %s",
				  c->token_file, c->name, strerror(-r));
	(*ret)[strcspn(*ret, "\r\n")] = '\0';
	return 0;
}

static int open_connection(struct backend *b, const struct backend_config *c, struct errmsg *e)
{
	AUTO_FREE char *token = NULL;
	struct rpc_options o = {
		.addresses = c->addresses,
		.n_addresses = c->n_addresses,
		.tls = c->tls,
		.ca_file = c->ca_file,
		.cert_file = c->cert_file,
		.key_file = c->key_file,
		.server_name = c->server_name,
		.timeout_ns = c->timeout_ns,
	};
	int r = read_token(c, &token, e);

	if (r)
		return r;
	o.token = token;
	return rpc_new(&b->rpc, &o, e);
}

static void on_reported(void *ctx, const char *task_id, const char *instance)
{
	struct backend *b = ctx;

	registry_reported(b->registry, task_id, instance);
}

static int backend_new(struct backend **ret, const struct backend_config *c, struct errmsg *e)
{
	CLEANUP(backend_unrefp) struct backend *b = calloc(1, sizeof(*b));
	struct registry_options registry = {.poll_ns = c->poll_ns, .heartbeat_ns = c->heartbeat_ns};
	struct reporter_options reporter = {
		.spool_bytes = c->spool_bytes,
		.spool_file = c->spool_file,
		.spool_file_bytes = c->spool_file_bytes,
	};
	int r;

	if (!b)
		return -ENOMEM;
	b->n_users = 1;
	b->name = strdup(c->name);
	if (!b->name)
		return -ENOMEM;
	link_init(&b->link, clock_real_ns());
	r = open_connection(b, c, e);
	if (r)
		return r;
	registry.rpc = reporter.rpc = b->rpc;
	registry.link = reporter.link = &b->link;
	registry.source = b->name;
	reporter.on_reported = on_reported;
	reporter.ctx = b;
	r = registry_new(&b->registry, &registry);
	if (!r)
		r = reporter_new(&b->reporter, &reporter, e);
	if (r)
		return r;
	*ret = TAKE_PTR(b);
	return 0;
}

int skywalking_new(const struct backend_config *config, struct task_source **ret_source,
		   struct span_sink **ret_sink, struct errmsg *e)
{
	AUTO_FREE struct skywalking_source *source = calloc(1, sizeof(*source));
	AUTO_FREE struct skywalking_sink *sink = calloc(1, sizeof(*sink));
	struct backend *b;
	int r;

	if (!source || !sink)
		return -ENOMEM;
	r = backend_new(&b, config, e);
	if (r)
		return r;
	b->n_users = 2;
	*source = (struct skywalking_source){{&source_ops, b->name}, b};
	*sink = (struct skywalking_sink){{&sink_ops, b->name}, b};
	*ret_source = &TAKE_PTR(source)->base;
	*ret_sink = &TAKE_PTR(sink)->base;
	return 0;
}
