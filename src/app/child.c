/* SPDX-License-Identifier: Apache-2.0 */
#include "app/child.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "base/cleanup.h"

static _Noreturn void run_child(char **command, const sigset_t *mask, int error_fd)
{
	int error;

	sigprocmask(SIG_SETMASK, mask, NULL);
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0)
		execvp(command[0], command);
	error = errno;
	if (write(error_fd, &error, sizeof(error)) < 0)
		_exit(126);
	_exit(127);
}

static int why_not(int error_fd, pid_t pid, const char *name, struct errmsg *e)
{
	int error = 0, status;

	if (read(error_fd, &error, sizeof(error)) != sizeof(error))
		error = ECHILD;
	waitpid(pid, &status, 0);
	return errmsg_set(e, -error, "cannot start '%s': %s", name, strerror(error));
}

int child_start(char **command, const sigset_t *mask, pid_t *ret_pid, struct errmsg *e)
{
	AUTO_CLOSE int read_fd = -1;
	AUTO_CLOSE int write_fd = -1;
	int fds[2], status;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		return errmsg_set(e, -errno, "cannot start '%s': %s", command[0], strerror(errno));
	read_fd = fds[0];
	write_fd = fds[1];
	pid = fork();
	if (pid < 0)
		return errmsg_set(e, -errno, "cannot start '%s': %s", command[0], strerror(errno));
	if (!pid)
		run_child(command, mask, write_fd);
	close(TAKE_FD(write_fd));
	/* The first stop is the SIGTRAP that a traced exec raises. */
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return errmsg_set(e, -errno, "cannot wait for '%s': %s", command[0],
					  strerror(errno));
	if (!WIFSTOPPED(status))
		return why_not(read_fd, pid, command[0], e);
	*ret_pid = pid;
	return 0;
}

int child_continue(pid_t pid)
{
	return ptrace(PTRACE_DETACH, pid, NULL, NULL) ? -errno : 0;
}

bool child_ended(pid_t pid, int *ret_status)
{
	int status;

	if (waitpid(pid, &status, WNOHANG) != pid)
		return false;
	if (WIFEXITED(status))
		*ret_status = WEXITSTATUS(status);
	else if (WIFSIGNALED(status))
		*ret_status = 128 + WTERMSIG(status);
	else
		return false;
	return true;
}
