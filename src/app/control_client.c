/* SPDX-License-Identifier: Apache-2.0 */
#include "app/control_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "app/command.h"
#include "app/options.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "task/control_message.h"

enum { REPLY_MAX = 64 << 20, CHUNK = 64 * 1024, TIMEOUT_S = 30 };

static const char *path_of(const char *path)
{
	if (!path)
		path = getenv("SPANPROF_SOCKET");
	return path && path[0] ? path : AGENT_SOCKET_DEFAULT;
}

static int dial(const char *path, int *ret_fd, struct errmsg *e)
{
	const struct timeval timeout = {.tv_sec = TIMEOUT_S};
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return errmsg_set(e, -errno, "cannot make a socket: %s", strerror(errno));
	if (strlen(path) >= sizeof(addr.sun_path))
		return errmsg_set(e, -ENAMETOOLONG, "socket path '%s' is too long", path);
	strcpy(addr.sun_path, path);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) ||
	    connect(fd, (struct sockaddr *)&addr, sizeof(addr)))
		return errno == EACCES
			       ? errmsg_set(
					 e, -EACCES,
					 "you may not talk to the agent on '%s': be root, or have agent.socket_users and agent.socket_mode in its rules let you",
					 path)
			       : errmsg_set(
					 e, -errno,
					 "cannot reach the agent on '%s': %s; does `spanprof agent` run, and is this its socket (--socket PATH)?",
					 path, strerror(errno));
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int send_all(int fd, const char *data, size_t n)
{
	while (n) {
		ssize_t sent = send(fd, data, n, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return -errno;
		data += sent;
		n -= sent;
	}
	return 0;
}

/* One line, without its newline. */
static int receive_line(int fd, char **ret, size_t *ret_n)
{
	AUTO_FREE char *buf = NULL;
	size_t n = 0, cap = 0;

	for (;;) {
		char *bigger;
		ssize_t got;

		if (cap - n < CHUNK) {
			cap += cap + CHUNK;
			bigger = cap > REPLY_MAX ? NULL : realloc(buf, cap);
			if (!bigger)
				return -ENOMEM;
			buf = bigger;
		}
		got = recv(fd, buf + n, cap - n, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -EPIPE;
		n += got;
		if (buf[n - 1] == '\n')
			break;
	}
	*ret = TAKE_PTR(buf);
	*ret_n = n - 1;
	return 0;
}

static int take_result(json_t *reply, json_t **ret_result, struct errmsg *e)
{
	const json_t *error = json_object_get(reply, "error");
	json_t *result = json_object_get(reply, "result");

	if (json_is_true(json_object_get(reply, "ok")) && json_is_object(result)) {
		*ret_result = json_incref(result);
		return 0;
	}
	return errmsg_set(e, -EINVAL, "%s",
			  error ? control_text(error, "message")
				: "the agent's answer is not understood");
}

static int exchange(int fd, const char *path, json_t *request, json_t **ret_result,
		    struct errmsg *e)
{
	AUTO_FREE char *text = json_dumps(request, JSON_COMPACT);
	AUTO_FREE char *line = NULL;
	json_error_t error;
	json_t *reply;
	size_t n = 0;
	int r = text ? send_all(fd, text, strlen(text)) : -ENOMEM;

	if (!r)
		r = send_all(fd, "\n", 1);
	if (!r || r == -EPIPE)
		r = receive_line(fd, &line, &n); /* it may have said why it hung up */
	if (r)
		return errmsg_set(e, r, "no answer from the agent on '%s': %s", path, strerror(-r));
	reply = json_loadb(line, n, 0, &error);
	if (!reply)
		return errmsg_set(e, -EINVAL, "the agent's answer is not JSON: %s", error.text);
	r = take_result(reply, ret_result, e);
	json_decref(reply);
	return r;
}

int control_ask(const char *path, json_t *take_request, json_t **ret_result, struct errmsg *e)
{
	AUTO_CLOSE int fd = -1;
	int r;

	path = path_of(path);
	json_object_set_new(take_request, "v", json_integer(CONTROL_VERSION));
	r = dial(path, &fd, e);
	if (!r)
		r = exchange(fd, path, take_request, ret_result, e);
	json_decref(take_request);
	return r;
}

const char *control_text(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));

	return text ? text : "";
}

long long control_number(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

double control_real(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

const char *control_time(char buf[32], long long epoch_ms)
{
	time_t s = epoch_ms / 1000;
	struct tm tm;

	if (!epoch_ms || !localtime_r(&s, &tm) || !strftime(buf, 32, "%Y-%m-%d %H:%M:%S", &tm))
		strcpy(buf, "-");
	return buf;
}

int client_parse(struct client_options *o, int argc, char **argv, const struct option *longs,
		 int (*other)(void *ctx, int option), void *ctx)
{
	int option, r = 0;

	optind = 1;
	while (!r && (option = next_option(argc, argv, ":h", longs)) != -1) {
		switch (option) {
		case 'k':
			o->socket = optarg;
			break;
		case 'j':
			o->json = true;
			break;
		case 'h':
			o->help = true;
			break;
		default:
			r = other(ctx, option);
		}
	}
	return r;
}

int client_parse_end(int argc, char **argv)
{
	if (optind >= argc)
		return 0;
	log_error("%s: '%s' is too much; see 'spanprof %s --help'", argv[0], argv[optind], argv[0]);
	return EXIT_USAGE;
}

void client_print_json(const json_t *result)
{
	json_dumpf(result, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
	printf("\n");
}
