/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "app/notify.h"
#include "tests/unit/unit.h"

/* What systemd does: a datagram socket, and variables in the environment. */
static int listen_at(const char *name, struct sockaddr_un *addr, socklen_t n)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)addr, n), 0);
	setenv("NOTIFY_SOCKET", name, 1);
	return fd;
}

static void expect(int fd, const char *want)
{
	char buf[64];
	ssize_t n = recv(fd, buf, sizeof(buf) - 1, 0);

	assert_int_equal(n, strlen(want));
	buf[n] = 0;
	assert_string_equal(buf, want);
}

static void path_and_watchdog(void **state)
{
	char dir[] = "/tmp/test_notify.XXXXXX", path[64];
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct notify n;
	int fd;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/socket", dir);
	strcpy(addr.sun_path, path);
	fd = listen_at(path, &addr, sizeof(addr));
	setenv("WATCHDOG_USEC", "3000000", 1);
	notify_open(&n);
	assert_int_equal(n.watchdog_ns, 1500000000);
	assert_null(getenv("NOTIFY_SOCKET"));
	assert_null(getenv("WATCHDOG_USEC"));
	notify_send(&n, "READY=1");
	expect(fd, "READY=1");
	close(fd);
	notify_send(&n, "WATCHDOG=1"); /* nobody listens any more: no harm */
	notify_close(&n);
	unlink(path);
	rmdir(dir);
}

static void abstract_name_and_another_ones_watchdog(void **state)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	char name[64];
	struct notify n;
	socklen_t bytes;
	int fd;

	snprintf(name, sizeof(name), "@test_notify.%d", getpid());
	memcpy(addr.sun_path + 1, name + 1, strlen(name) - 1);
	bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
	fd = listen_at(name, &addr, bytes);
	setenv("WATCHDOG_USEC", "3000000", 1);
	setenv("WATCHDOG_PID", "1", 1);
	notify_open(&n);
	assert_int_equal(n.watchdog_ns, 0);
	notify_send(&n, "STOPPING=1");
	expect(fd, "STOPPING=1");
	notify_close(&n);
	close(fd);
}

static void without_systemd_nothing_happens(void **state)
{
	static const char *const bad[] = {NULL, "relative", "/nonexistent/socket", ""};
	struct notify n;

	for (int i = 0; i < 4; i++) {
		if (bad[i])
			setenv("NOTIFY_SOCKET", bad[i], 1);
		setenv("WATCHDOG_USEC", "1x", 1);
		notify_open(&n);
		assert_int_equal(n.fd, -1);
		assert_int_equal(n.watchdog_ns, 0);
		notify_send(&n, "READY=1");
		notify_close(&n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(path_and_watchdog),
		cmocka_unit_test(abstract_name_and_another_ones_watchdog),
		cmocka_unit_test(without_systemd_nothing_happens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
