/* SPDX-License-Identifier: Apache-2.0 */
#include "code/rootfile.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "base/cleanup.h"

int rootfile_open(int root_fd, const char *path, int *ret_fd, struct stat *ret_st)
{
	struct open_how how = {
		.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	AUTO_CLOSE int fd = -1;

	for (int tries = 0; fd < 0 && tries < 4; tries++) {
		fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
		/* EAGAIN: a rename happened meanwhile and the kernel could not be sure. */
		if (fd < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
	}
	if (fd < 0)
		return -EAGAIN;
	if (fstat(fd, ret_st) < 0)
		return -errno;
	if (!S_ISREG(ret_st->st_mode))
		return -ENOENT;
	*ret_fd = TAKE_FD(fd);
	return 0;
}
