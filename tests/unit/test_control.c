/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "task/control.h"
#include "tests/unit/unit.h"

#define SECOND 1000000000ULL

/* A server and its clients in one thread: dispatch is called by hand, time is made up. */
struct world {
	struct task_source *s;
	char dir[64];
	char path[96];
	uint64_t now;
	struct task last; /* that was submitted */
	enum task_answer answer;
	size_t result_bytes; /* of a query */
};

static enum task_answer submit(void *ctx, const struct task *t, uint32_t instance_id,
			       struct errmsg *e)
{
	struct world *w = ctx;

	w->last = *t;
	assert_int_equal(instance_id, 0);
	if (w->answer == TASK_REFUSED)
		errmsg_set(e, 0, "it overlaps");
	return w->answer;
}

static int cancel(void *ctx, const char *source, const char *id, struct errmsg *e)
{
	assert_null(source);
	return strcmp(id, "known") ? errmsg_set(e, -ENOENT, "no such task") : 0;
}

static int query(void *ctx, const struct control_request *r, char **ret, enum control_error *error,
		 struct errmsg *e)
{
	struct world *w = ctx;

	*ret = malloc(w->result_bytes + 16);
	assert_non_null(*ret);
	memcpy(*ret, "{\"x\":\"", 6);
	memset(*ret + 6, 'y', w->result_bytes);
	strcpy(*ret + 6 + w->result_bytes, "\"}");
	return 0;
}

static const struct task_intake *intake(struct world *w)
{
	static struct task_intake in;

	in = (struct task_intake){.ctx = w, .submit = submit, .cancel = cancel};
	return &in;
}

static struct control_options options(struct world *w)
{
	return (struct control_options){.path = w->path, .mode = 0600, .query = query, .ctx = w};
}

static void setup(struct world *w)
{
	struct control_options o;

	memset(w, 0, sizeof(*w));
	w->now = 1000 * SECOND;
	w->result_bytes = 1;
	strcpy(w->dir, "/tmp/spanprof-unit-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->path, sizeof(w->path), "%s/sock", w->dir);
	o = options(w);
	assert_int_equal(control_new(&w->s, &o, NULL), 0);
	w->s->ops->start(w->s, intake(w), NULL);
}

static void teardown(struct world *w)
{
	w->s->ops->free(w->s);
	assert_int_equal(access(w->path, F_OK), -1);
	rmdir(w->dir);
}

static void dispatch(struct world *w)
{
	w->s->ops->dispatch(w->s, w->now);
}

static int dial(struct world *w)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", w->path);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	dispatch(w);
	return fd;
}

static void say(struct world *w, int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	dispatch(w);
}

/* What the server has sent so far; "" at the end of the connection or when there is nothing. */
static const char *hear(int fd)
{
	static char buf[4096];
	ssize_t n = recv(fd, buf, sizeof(buf) - 1, MSG_DONTWAIT);

	buf[n > 0 ? n : 0] = 0;
	return buf;
}

static bool is_closed(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

static void test_requests(void **state)
{
	struct world w;
	int fd;

	setup(&w);
	fd = dial(&w);
	say(&w, fd, "{\"v\":1,\"cmd\":\"ping\",\"req\":\"1\"}\n");
	assert_string_equal(hear(fd), "{\"v\":1,\"req\":\"1\",\"ok\":true,\"result\":{}}\n");
	say(&w, fd,
	    "{\"v\":1,\"cmd\":\"task.create\",\"task\":{\"service\":\"s\",\"endpoint\":\"e\","
	    "\"id\":\"a\\\"b\"}}\n");
	assert_string_equal(hear(fd),
			    "{\"v\":1,\"req\":\"\",\"ok\":true,\"result\":{\"id\":\"a\\\"b\","
			    "\"state\":\"accepted\"}}\n");
	assert_string_equal(w.last.id, "a\"b");
	assert_string_equal(w.last.source, "control");
	w.answer = TASK_REFUSED;
	say(&w, fd,
	    "{\"v\":1,\"cmd\":\"task.create\",\"task\":{\"service\":\"s\",\"endpoint\":\"e\"}}\n");
	assert_non_null(strstr(hear(fd), "{\"code\":\"refused\",\"message\":\"it overlaps\"}"));
	say(&w, fd, "{\"v\":1,\"cmd\":\"task.cancel\",\"id\":\"x\"}\n");
	assert_non_null(strstr(hear(fd), "\"code\":\"not_found\""));
	say(&w, fd, "{\"v\":1,\"cmd\":\"task.cancel\",\"id\":\"known\"}\n");
	assert_non_null(strstr(hear(fd), "\"ok\":true"));
	say(&w, fd, "nonsense\n\n\r\n");
	assert_non_null(strstr(hear(fd), "\"code\":\"invalid\""));
	close(fd);
	dispatch(&w);
	teardown(&w);
}

static void test_pieces_and_several_at_once(void **state)
{
	const char *ping = "{\"v\":1,\"cmd\":\"ping\"}\n";
	struct world w;
	size_t n = 0;
	int fd;

	setup(&w);
	fd = dial(&w);
	for (const char *p = ping; *p; p++) {
		char one[2] = {*p, 0};

		assert_string_equal(hear(fd), "");
		say(&w, fd, one);
	}
	assert_non_null(strstr(hear(fd), "\"ok\":true"));
	for (int i = 0; i < 50; i++)
		assert_true(send(fd, ping, strlen(ping), 0) > 0);
	shutdown(fd, SHUT_WR); /* the replies still come */
	for (int i = 0; i < 20; i++) {
		for (const char *s = hear(fd); *s; s++)
			n += *s == '\n';
		dispatch(&w);
	}
	assert_int_equal(n, 50);
	assert_true(is_closed(fd));
	close(fd);
	teardown(&w);
}

static void test_oversized_line(void **state)
{
	static char chunk[8192];
	struct control_stats stats;
	struct world w;
	int fd;

	setup(&w);
	fd = dial(&w);
	memset(chunk, 'x', sizeof(chunk));
	for (int i = 0; i < 20; i++) {
		if (send(fd, chunk, sizeof(chunk), MSG_NOSIGNAL) < 0)
			break;
		dispatch(&w);
	}
	assert_non_null(strstr(hear(fd), "longer than 65536"));
	control_stats(w.s, &stats);
	assert_int_equal(stats.n_clients, 0);
	assert_int_equal(stats.n_dropped, 1);
	close(fd);
	teardown(&w);
}

/* A client that does not take its reply holds one reply, and is dropped after a while. */
static void test_stalled_client(void **state)
{
	struct control_stats stats;
	struct world w;
	int bad, good;

	setup(&w);
	w.result_bytes = 4 << 20;
	bad = dial(&w);
	for (int i = 0; i < 100; i++)
		send(bad, "{\"v\":1,\"cmd\":\"top\"}\n", 20, MSG_NOSIGNAL);
	dispatch(&w);
	dispatch(&w);
	control_stats(w.s, &stats);
	assert_int_equal(stats.n_requests, 1);
	w.result_bytes = 1;
	good = dial(&w);
	say(&w, good, "{\"v\":1,\"cmd\":\"top\"}\n");
	assert_non_null(strstr(hear(good), "\"ok\":true"));
	assert_true(w.s->ops->deadline_ns(w.s) <= w.now + 30 * SECOND);
	w.now += 31 * SECOND;
	dispatch(&w);
	control_stats(w.s, &stats);
	assert_int_equal(stats.n_clients, 1);
	assert_int_equal(stats.n_dropped, 1);
	close(bad);
	close(good);
	dispatch(&w);
	teardown(&w);
}

static void test_too_many_clients(void **state)
{
	struct world w;
	int fds[40];

	setup(&w);
	for (int i = 0; i < 40; i++)
		fds[i] = dial(&w);
	assert_non_null(strstr(hear(fds[39]), "\"code\":\"busy\""));
	assert_true(is_closed(fds[39]));
	say(&w, fds[0], "{\"v\":1,\"cmd\":\"ping\"}\n");
	assert_non_null(strstr(hear(fds[0]), "\"ok\":true"));
	for (int i = 0; i < 40; i++)
		close(fds[i]);
	dispatch(&w);
	teardown(&w);
}

static void test_file_mode_and_stale_socket(void **state)
{
	struct control_options o;
	struct task_source *second = NULL;
	struct errmsg e = {};
	struct world w;
	struct stat st;
	char aside[128];
	pid_t helper;

	setup(&w);
	assert_int_equal(stat(w.path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	o = options(&w);
	assert_int_equal(control_new(&second, &o, &e), -EADDRINUSE);
	assert_non_null(strstr(e.text, "another agent listens"));
	teardown(&w);

	/* A socket left by a killed agent, of which a process that attached probes for it still has a copy. */
	memset(&w, 0, sizeof(w));
	setup(&w);
	o = options(&w);
	snprintf(aside, sizeof(aside), "%s.aside", w.path);
	rename(w.path, aside);
	helper = fork();
	if (!helper) {
		usleep(150000);
		_exit(0);
	}
	w.s->ops->free(w.s);
	rename(aside, w.path);
	assert_int_equal(control_new(&w.s, &o, &e), 0);
	assert_int_equal(waitpid(helper, NULL, 0), helper);
	teardown(&w);

	setup(&w);
	w.s->ops->free(w.s);
	assert_int_equal(mkdir(w.path, 0700), 0);
	assert_int_equal(control_new(&w.s, &o, &e), -EEXIST);
	rmdir(w.path);
	rmdir(w.dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_pieces_and_several_at_once),
		cmocka_unit_test(test_oversized_line),
		cmocka_unit_test(test_stalled_client),
		cmocka_unit_test(test_too_many_clients),
		cmocka_unit_test(test_file_mode_and_stale_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
