/* SPDX-License-Identifier: Apache-2.0 */
#include "task/control.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/vec.h"

enum {
	STALE_POLL_MS = 100,
	STALE_POLLS = 20,
	CLIENTS_MAX = 32,
	BACKLOG = 64,
	READ_BYTES = 16 * 1024,
	REQUESTS_PER_TURN = 8, /* of one client before others get theirs */
	EVENTS = 16,
};

#define STALL_NS 30000000000ULL  /* a client that owes us bytes, or does not take ours */
#define IDLE_NS  600000000000ULL /* a client that asks nothing */

struct client {
	int fd;
	uid_t uid;
	char *in; /* owned; in_cap bytes, at most CONTROL_LINE_MAX + 1 */
	size_t in_n;
	size_t in_cap;
	char *out; /* owned: what is left of the reply in work */
	size_t out_off;
	size_t out_n;
	uint64_t active_ns;
	bool closing; /* once out is empty */
	bool hung_up; /* no more requests will come */
};

struct control {
	struct task_source source; /* first */
	struct control_options options;
	const struct task_intake *intake;
	char *path;  /* owned; NULL: nothing to unlink */
	uid_t *uids; /* owned */
	int listen_fd;
	int epoll_fd;
	struct client *clients[CLIENTS_MAX]; /* owned */
	struct control_stats stats;
	uint32_t next_task;
};

static struct control *control_of(const struct task_source *s)
{
	return (struct control *)s;
}

/* ---- clients ---- */

static void drop_client(struct control *c, struct client *cl)
{
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		if (c->clients[i] == cl)
			c->clients[i] = NULL;
	epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, cl->fd, NULL);
	close(cl->fd);
	free(cl->in);
	free(cl->out);
	free(cl);
	c->stats.n_clients--;
}

static void watch(struct control *c, struct client *cl)
{
	struct epoll_event ev = {.data.ptr = cl};

	if (cl->out)
		ev.events = EPOLLOUT;
	else if (!cl->hung_up)
		ev.events = EPOLLIN;
	epoll_ctl(c->epoll_fd, EPOLL_CTL_MOD, cl->fd, &ev);
}

/* Writes what the socket takes. False: the client is gone. */
static bool flush(struct client *cl)
{
	while (cl->out) {
		ssize_t n = send(cl->fd, cl->out + cl->out_off, cl->out_n - cl->out_off,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		cl->out_off += n;
		if (cl->out_off < cl->out_n)
			continue;
		free(TAKE_PTR(cl->out));
		cl->out_off = cl->out_n = 0;
	}
	return true;
}

static void set_reply(struct client *cl, char *take_reply)
{
	cl->out = take_reply;
	cl->out_off = 0;
	cl->out_n = take_reply ? strlen(take_reply) : 0;
}

static bool may_connect(const struct control *c, uid_t uid)
{
	if (uid == 0 || uid == geteuid())
		return true;
	for (size_t i = 0; i < c->options.n_uids; i++)
		if (c->uids[i] == uid)
			return true;
	return false;
}

static void refuse_connection(struct control *c, int fd, enum control_error error, const char *why)
{
	AUTO_FREE char *reply = control_reply_error("", error, why);

	if (reply && send(fd, reply, strlen(reply), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		c->stats.n_dropped++;
}

static int add_client(struct control *c, int *take_fd, uid_t uid, uint64_t now_ns)
{
	struct client *cl = calloc(1, sizeof(*cl));
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = cl};
	size_t slot = 0;

	if (!cl)
		return -ENOMEM;
	while (slot < CLIENTS_MAX && c->clients[slot])
		slot++;
	if (slot == CLIENTS_MAX || epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, *take_fd, &ev)) {
		free(cl);
		return -EBUSY;
	}
	cl->fd = TAKE_FD(*take_fd);
	cl->uid = uid;
	cl->active_ns = now_ns;
	c->clients[slot] = cl;
	c->stats.n_clients++;
	return 0;
}

static void accept_clients(struct control *c, uint64_t now_ns)
{
	for (int i = 0; i < BACKLOG; i++) {
		AUTO_CLOSE int fd = accept4(c->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct ucred peer;
		socklen_t n = sizeof(peer);

		if (fd < 0)
			return;
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) ||
		    !may_connect(c, peer.uid)) {
			c->stats.n_denied++;
			refuse_connection(
				c, fd, CONTROL_E_PERMISSION,
				"your user may not talk to this agent; see agent.socket_users in its rules file");
		} else if (add_client(c, &fd, peer.uid, now_ns)) {
			c->stats.n_dropped++;
			refuse_connection(c, fd, CONTROL_E_BUSY,
					  "the agent has too many clients; try again later");
		}
	}
}

/* ---- requests ---- */

static int create_task(struct control *c, struct control_request *r, char **ret_result,
		       enum control_error *error, struct errmsg *e)
{
	AUTO_FREE char *quoted = NULL;
	struct task *t = &r->task;
	enum task_answer answer;

	t->create_ms = (int64_t)(clock_real_ns() / 1000000);
	if (!t->id[0])
		snprintf(t->id, sizeof(t->id), "%" PRId64 "-%u", t->create_ms, ++c->next_task);
	answer = c->intake->submit(c->intake->ctx, t, 0, e);
	*error = CONTROL_E_REFUSED;
	if (answer == TASK_REFUSED)
		return -EEXIST;
	if (answer == TASK_KNOWN)
		return errmsg_set(e, -EEXIST, "there is a task '%.100s' already; choose another id",
				  t->id);
	quoted = control_quote(t->id);
	if (!quoted || asprintf(ret_result, "{\"id\":%s,\"state\":\"%s\"}", quoted,
				answer == TASK_ACCEPTED ? "accepted" : "waiting") < 0) {
		*ret_result = NULL;
		return errmsg_set(e, -ENOMEM, "out of memory");
	}
	return 0;
}

static int cancel_task(struct control *c, const struct control_request *r, char **ret_result,
		       enum control_error *error, struct errmsg *e)
{
	int got = c->intake->cancel(c->intake->ctx, r->source[0] ? r->source : NULL, r->id, e);

	*error = got == -ENOENT ? CONTROL_E_NOT_FOUND : CONTROL_E_REFUSED;
	if (got)
		return got;
	*ret_result = strdup("{}");
	return *ret_result ? 0 : errmsg_set(e, -ENOMEM, "out of memory");
}

static char *answer(struct control *c, const char *line, size_t bytes)
{
	enum control_error error = CONTROL_E_INTERNAL;
	AUTO_FREE char *result = NULL;
	struct control_request r;
	struct errmsg e = {};
	int got;

	c->stats.n_requests++;
	got = parse_control_line(line, bytes, &r, &e);
	if (got) {
		c->stats.n_bad++;
		return control_reply_error(r.req, CONTROL_E_INVALID, e.text);
	}
	if (r.command == CONTROL_PING)
		got = (result = strdup("{}")) ? 0 : -ENOMEM;
	else if (r.command == CONTROL_TASK_CREATE)
		got = create_task(c, &r, &result, &error, &e);
	else if (r.command == CONTROL_TASK_CANCEL)
		got = cancel_task(c, &r, &result, &error, &e);
	else
		got = c->options.query(c->options.ctx, &r, &result, &error, &e);
	if (got)
		return control_reply_error(r.req, error, e.text[0] ? e.text : strerror(-got));
	return control_reply(r.req, result);
}

/* The next whole line of the input is answered. False: there is none. */
static bool answer_line(struct control *c, struct client *cl)
{
	char *newline = cl->in_n ? memchr(cl->in, '\n', cl->in_n) : NULL;
	size_t n;

	if (!newline)
		return false;
	n = newline - cl->in;
	if (n && cl->in[n - 1] == '\r')
		n--;
	if (n) {
		set_reply(cl, answer(c, cl->in, n));
		if (!cl->out)
			cl->closing = true; /* out of memory: better no connection than no reply */
	}
	n = newline + 1 - cl->in;
	memmove(cl->in, cl->in + n, cl->in_n - n);
	cl->in_n -= n;
	return true;
}

/* Reads what is there. False: the connection is broken. */
static bool fill(struct client *cl)
{
	char *bigger;
	ssize_t n;

	if (cl->in_cap - cl->in_n < READ_BYTES && cl->in_cap <= CONTROL_LINE_MAX) {
		bigger = realloc(cl->in, cl->in_cap + READ_BYTES);
		if (!bigger)
			return false;
		cl->in = bigger;
		cl->in_cap += READ_BYTES;
	}
	if (cl->in_cap == cl->in_n)
		return true;
	n = recv(cl->fd, cl->in + cl->in_n, cl->in_cap - cl->in_n, MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n == 0)
		cl->hung_up = true;
	cl->in_n += n;
	return true;
}

/* False: drop the client. */
static bool serve(struct control *c, struct client *cl, uint64_t now_ns)
{
	cl->active_ns = now_ns;
	if (!flush(cl) || (!cl->out && !cl->hung_up && !fill(cl)))
		return false;
	for (int i = 0; i < REQUESTS_PER_TURN && !cl->out && !cl->closing; i++) {
		if (!answer_line(c, cl))
			break;
		if (!flush(cl))
			return false;
	}
	if (!cl->out && !cl->closing && cl->in_n > CONTROL_LINE_MAX &&
	    !memchr(cl->in, '\n', cl->in_n)) {
		c->stats.n_dropped++;
		set_reply(cl, control_reply_error("", CONTROL_E_INVALID,
						  "the line is longer than 65536 bytes"));
		cl->closing = true;
		if (!flush(cl))
			return false;
	}
	if (!cl->out && cl->closing)
		return false;
	return cl->out || !cl->hung_up || (cl->in_n && memchr(cl->in, '\n', cl->in_n));
}

static void drop_stalled(struct control *c, uint64_t now_ns)
{
	for (size_t i = 0; i < CLIENTS_MAX; i++) {
		struct client *cl = c->clients[i];

		if (!cl || now_ns - cl->active_ns < (cl->out || cl->in_n ? STALL_NS : IDLE_NS))
			continue;
		c->stats.n_dropped++;
		drop_client(c, cl);
	}
}

/* ---- the source ---- */

static int control_start(struct task_source *s, const struct task_intake *intake, struct errmsg *e)
{
	control_of(s)->intake = intake;
	return 0;
}

static int control_fd(const struct task_source *s)
{
	return control_of(s)->epoll_fd;
}

static bool has_line(const struct client *cl)
{
	return cl && !cl->out && cl->in_n && memchr(cl->in, '\n', cl->in_n);
}

static uint64_t control_deadline(const struct task_source *s)
{
	const struct control *c = control_of(s);
	uint64_t deadline = UINT64_MAX;

	for (size_t i = 0; i < CLIENTS_MAX; i++) {
		const struct client *cl = c->clients[i];
		uint64_t at;

		if (!cl)
			continue;
		if (has_line(cl))
			return 0; /* its turn was over, but it has more */
		at = cl->active_ns + (cl->out || cl->in_n ? STALL_NS : IDLE_NS);
		deadline = at < deadline ? at : deadline;
	}
	return deadline;
}

static void serve_or_drop(struct control *c, struct client *cl, uint64_t now_ns)
{
	if (serve(c, cl, now_ns))
		watch(c, cl);
	else
		drop_client(c, cl);
}

static void control_dispatch(struct task_source *s, uint64_t mono_ns)
{
	struct control *c = control_of(s);
	struct epoll_event events[EVENTS];
	int n;

	for (size_t i = 0; i < CLIENTS_MAX; i++)
		if (has_line(c->clients[i]))
			serve_or_drop(c, c->clients[i], mono_ns);
	n = epoll_wait(c->epoll_fd, events, EVENTS, 0);
	for (int i = 0; i < n; i++) {
		if (!events[i].data.ptr)
			accept_clients(c, mono_ns);
		else
			serve_or_drop(c, events[i].data.ptr, mono_ns);
	}
	drop_stalled(c, mono_ns);
}

static struct task_source *control_free(struct task_source *s)
{
	struct control *c = s ? control_of(s) : NULL;

	if (!c)
		return NULL;
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		if (c->clients[i])
			drop_client(c, c->clients[i]);
	if (c->listen_fd >= 0)
		close(c->listen_fd);
	if (c->epoll_fd >= 0)
		close(c->epoll_fd);
	if (c->path)
		unlink(c->path);
	free(c->path);
	free(c->uids);
	free(c);
	return NULL;
}

static void control_status(const struct task_source *s, struct link_status *ret)
{
	const struct control *c = control_of(s);

	*ret = (struct link_status){.state = "ready",
				    .n_sent = c->stats.n_requests,
				    .n_dropped = c->stats.n_dropped,
				    .n_errors = c->stats.n_bad + c->stats.n_denied};
}

static const struct task_source_ops control_ops = {
	.kind = "control",
	.start = control_start,
	.fd = control_fd,
	.deadline_ns = control_deadline,
	.dispatch = control_dispatch,
	.status = control_status,
	.free = control_free,
};

void control_stats(const struct task_source *s, struct control_stats *ret)
{
	*ret = control_of(s)->stats;
}

int control_set_uids(struct task_source *s, const uid_t *uids, size_t n_uids)
{
	struct control *c = control_of(s);
	uid_t *copy = calloc(n_uids + 1, sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	if (n_uids)
		memcpy(copy, uids, n_uids * sizeof(*copy));
	free(c->uids);
	c->uids = copy;
	c->options.n_uids = n_uids;
	return 0;
}

/* 0: somebody listens there, or a negative errno. */
static int try_connect(const struct sockaddr_un *addr)
{
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)addr, sizeof(*addr)))
		return errno == EAGAIN ? 0 : -errno;
	return 0;
}

/*
 * A socket file that nobody listens on is left from an agent that was killed. If that was attaching
 * probes, the process that does it for it (probe/apart.h) keeps the socket, and locks, for a moment more.
 */
static int remove_stale(const struct sockaddr_un *addr, struct errmsg *e)
{
	const struct timespec moment = {.tv_nsec = STALE_POLL_MS * 1000000L};
	struct stat st;
	int r;

	if (lstat(addr->sun_path, &st))
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return errmsg_set(
			e, -EEXIST,
			"'%s' is there and is not a socket; remove it or set agent.socket to another path",
			addr->sun_path);
	r = try_connect(addr);
	for (int i = 0; !r && i < STALE_POLLS; i++) {
		nanosleep(&moment, NULL);
		r = try_connect(addr);
	}
	if (!r)
		return errmsg_set(
			e, -EADDRINUSE,
			"another agent listens on '%s'; stop it or set agent.socket to another path",
			addr->sun_path);
	if (r == -ECONNREFUSED && unlink(addr->sun_path))
		return errmsg_set(e, -errno, "cannot remove the old socket '%s': %s",
				  addr->sun_path, strerror(errno));
	return 0;
}

static int open_socket(struct control *c, struct errmsg *e)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct epoll_event ev = {.events = EPOLLIN};
	mode_t mask;
	int r;

	if (strlen(c->options.path) >= sizeof(addr.sun_path))
		return errmsg_set(e, -ENAMETOOLONG, "agent.socket '%s' is longer than %zu bytes",
				  c->options.path, sizeof(addr.sun_path) - 1);
	strcpy(addr.sun_path, c->options.path);
	r = remove_stale(&addr, e);
	if (r)
		return r;
	c->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->listen_fd < 0)
		return errmsg_set(e, -errno, "cannot create a Unix socket: %s", strerror(errno));
	mask = umask(0177); /* nobody may connect before the mode is set */
	r = bind(c->listen_fd, (struct sockaddr *)&addr, sizeof(addr)) ? -errno : 0;
	umask(mask);
	if (r)
		return errmsg_set(
			e, r,
			"cannot create the control socket '%s': %s; its folder must exist and be writable for this user",
			addr.sun_path, strerror(-r));
	c->path = strdup(addr.sun_path);
	if (!c->path || chmod(addr.sun_path, c->options.mode) || listen(c->listen_fd, BACKLOG) ||
	    epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, c->listen_fd, &ev))
		return errmsg_set(e, -errno, "cannot listen on '%s': %s", addr.sun_path,
				  strerror(errno));
	return 0;
}

int control_new(struct task_source **ret, const struct control_options *options, struct errmsg *e)
{
	struct control *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return errmsg_set(e, -ENOMEM, "out of memory");
	c->source = (struct task_source){.ops = &control_ops, .name = "control"};
	c->options = *options;
	c->listen_fd = -1;
	c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	r = c->epoll_fd < 0
		    ? errmsg_set(e, -errno, "cannot create an epoll set: %s", strerror(errno))
		    : 0;
	if (!r && control_set_uids(&c->source, options->uids, options->n_uids))
		r = errmsg_set(e, -ENOMEM, "out of memory");
	if (!r)
		r = open_socket(c, e);
	if (r) {
		control_free(&c->source);
		return r;
	}
	*ret = &c->source;
	return 0;
}
