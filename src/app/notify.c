/* SPDX-License-Identifier: Apache-2.0 */
#include "app/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/units.h"

static int dial(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	AUTO_CLOSE int fd = -1;
	size_t n = strlen(path);

	if ((path[0] != '/' && path[0] != '@') || n >= sizeof(addr.sun_path))
		return -1;
	memcpy(addr.sun_path, path, n + 1);
	if (path[0] == '@')
		addr.sun_path[0] = 0; /* abstract name */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&addr,
			      offsetof(struct sockaddr_un, sun_path) + n + (path[0] == '/')))
		return -1;
	return TAKE_FD(fd);
}

static uint64_t number_of(const char *name)
{
	const char *text = getenv(name);
	uint64_t v = 0;

	if (text && parse_u64(text, UINT64_MAX / 1000, &v))
		v = 0;
	return v;
}

void notify_open(struct notify *n)
{
	const char *path = getenv("NOTIFY_SOCKET");
	uint64_t pid = number_of("WATCHDOG_PID");

	*n = (struct notify){.fd = path ? dial(path) : -1};
	if (n->fd >= 0 && (!pid || pid == (uint64_t)getpid()))
		n->watchdog_ns = number_of("WATCHDOG_USEC") * 1000 / 2;
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_PID");
	unsetenv("WATCHDOG_USEC");
}

void notify_close(struct notify *n)
{
	if (n->fd >= 0)
		close(n->fd);
	n->fd = -1;
}

void notify_send(struct notify *n, const char *message)
{
	if (n->fd >= 0 && send(n->fd, message, strlen(message), MSG_NOSIGNAL) < 0)
		return; /* systemd is away or slow: its watchdog decides what that means */
}
