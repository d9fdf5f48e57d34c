/* SPDX-License-Identifier: Apache-2.0 */
#include "app/child.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/rights.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "proc/process.h"

#define DEBUG_REGISTER(n) (offsetof(struct user, u_debugreg) + (n) * sizeof(long))
enum { DR7_ENABLE_0 = 1 }; /* stops where the instruction at DR0 is about to run */

/* What the child writes when it does not get as far as the command. */
struct failure {
	int error;
	bool by_ptrace;
};

bool child_keeps_rights(void)
{
	return process_own_capabilities() & 1ULL << CAP_SYS_PTRACE;
}

/* With the right to trace any process the parent seizes it, and says so by a byte. */
static bool wait_for_tracer(int go_fd)
{
	char go;

	if (!child_keeps_rights())
		return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0;
	if (read(go_fd, &go, 1) != 1)
		_exit(127);
	errno = EPERM;
	return go;
}

static _Noreturn void run_child(char **command, const sigset_t *mask, sighandler_t on_child, int fd)
{
	struct failure f = {0};

	signal(SIGCHLD, on_child);
	sigprocmask(SIG_SETMASK, mask, NULL);
	if (wait_for_tracer(fd))
		execvp(command[0], command);
	else
		f.by_ptrace = true;
	f.error = errno;
	if (write(fd, &f, sizeof(f)) < 0)
		_exit(126);
	_exit(127);
}

static int shell_status(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int child_ended_early(const char *name, int status, struct errmsg *e)
{
	return errmsg_set(e, -ECHILD, "'%s' ended before it was attached (status %d)", name,
			  status);
}

static int why_not(int error_fd, int status, const char *name, struct errmsg *e)
{
	struct failure f;

	if (read(error_fd, &f, sizeof(f)) != sizeof(f))
		return child_ended_early(name, shell_status(status), e);
	if (f.by_ptrace)
		return errmsg_set(
			e, -f.error,
			"cannot hold '%s' at its start: %s (is it traced already, as by strace -f, or ptrace forbidden here?); start it first and name it with -p",
			name, strerror(f.error));
	return errmsg_set(e, -f.error, "cannot start '%s': %s", name, strerror(f.error));
}

bool child_is_held(const struct child *c)
{
	errno = 0;
	ptrace(PTRACE_PEEKUSER, c->pid, NULL, NULL);
	return !errno;
}

int child_kill(const struct child *c)
{
	int status;
	pid_t pid;

	kill(c->pid, SIGKILL);
	do
		pid = waitpid(c->pid, &status, 0);
	while ((pid < 0 && errno == EINTR) || (pid == c->pid && WIFSTOPPED(status)));
	return pid == c->pid ? shell_status(status) : 128 + SIGKILL;
}

static int refuse(const struct child *c, const char *name, struct errmsg *e)
{
	child_kill(c);
	return errmsg_set(
		e, -EPERM,
		"'%s' has rights of its own (set-user-ID or file capabilities), which the kernel leaves out of a program that is held at its start: give spanprof CAP_SYS_PTRACE, or start it first and name it with -p",
		name);
}

/* AT_ENTRY: where the dynamic linker jumps to when all libraries are mapped; 0: not known. */
static uint64_t entry_point(pid_t pid)
{
	AUTO_FREE char *data = NULL;
	char path[64];
	Elf64_auxv_t a;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
	if (read_file(AT_FDCWD, path, 65536, &data, &n))
		return 0;
	for (size_t at = 0; n - at >= sizeof(a); at += sizeof(a)) {
		memcpy(&a, data + at, sizeof(a));
		if (a.a_type == AT_ENTRY)
			return a.a_un.a_val;
	}
	return 0;
}

/*
 * A stop at the first instruction of addr, without a change of the program: a child that it forks meanwhile
 * would run into a changed instruction. Without this process it would run into its breakpoint, so it ends
 * with it. No stop when addr is 0. False: it cannot be had.
 */
static bool set_breakpoint(struct child *c, uint64_t addr)
{
	long options = PTRACE_O_TRACEEXEC | (addr ? PTRACE_O_EXITKILL : 0);
	bool is_set = !ptrace(PTRACE_SETOPTIONS, c->pid, NULL, options) &&
		      !ptrace(PTRACE_POKEUSER, c->pid, DEBUG_REGISTER(7), 0) &&
		      !ptrace(PTRACE_POKEUSER, c->pid, DEBUG_REGISTER(0), addr) &&
		      (!addr || !ptrace(PTRACE_POKEUSER, c->pid, DEBUG_REGISTER(7), DR7_ENABLE_0));

	c->entry = is_set ? addr : 0;
	return is_set;
}

/* Whether it is stopped at its breakpoint; ret_signal: what it must be given when it is not. */
static bool is_there(const struct child *c, int status, long *ret_signal)
{
	struct user_regs_struct regs;

	*ret_signal = status >> 16 ? 0 : WSTOPSIG(status);
	return *ret_signal == SIGTRAP && c->entry && !ptrace(PTRACE_GETREGS, c->pid, NULL, &regs) &&
	       regs.rip == c->entry;
}

/*
 * It has begun another program: on to its entry point. Where that is not known it enters right here: what
 * is linked in can be attached all the same.
 */
static enum child_state on_exec(struct child *c)
{
	uint64_t addr = entry_point(c->pid);

	if (!addr || !set_breakpoint(c, addr))
		return CHILD_ENTERS;
	/* It may be gone already, which the next wait tells. */
	ptrace(PTRACE_CONT, c->pid, NULL, 0);
	return CHILD_RUNS;
}

static enum child_state on_stop(struct child *c, int status)
{
	long signal;

	if (is_there(c, status, &signal)) {
		set_breakpoint(c, 0);
		return CHILD_ENTERS;
	}
	if (status >> 16 == PTRACE_EVENT_EXEC)
		return on_exec(c);
	/* Stopped by a signal like SIGSTOP, and not to run on before SIGCONT. */
	if (status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP)
		ptrace(PTRACE_LISTEN, c->pid, NULL, NULL);
	else
		ptrace(PTRACE_CONT, c->pid, NULL, signal);
	return CHILD_RUNS;
}

static void seize(pid_t pid, int fd)
{
	char go;

	if (!child_keeps_rights())
		return;
	go = ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACEEXEC) == 0;
	if (send(fd, &go, 1, MSG_NOSIGNAL) != 1)
		kill(pid, SIGKILL);
}

int child_start(char **command, const sigset_t *mask, bool to_stderr, struct child *ret,
		enum child_state *ret_state, struct errmsg *e)
{
	AUTO_CLOSE int fd = -1;
	AUTO_CLOSE int child_fd = -1;
	sighandler_t on_child;
	struct child c = {};
	struct process p = {};
	int fds[2], status;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return errmsg_set(e, -errno, "cannot start '%s': %s", command[0], strerror(errno));
	fd = fds[0];
	child_fd = fds[1];
	/* A child of a process that ignores it, as its parent may have done, cannot be waited for. */
	on_child = signal(SIGCHLD, SIG_DFL);
	c.pid = fork();
	if (c.pid < 0)
		return errmsg_set(e, -errno, "cannot start '%s': %s", command[0], strerror(errno));
	if (!c.pid && to_stderr)
		dup2(STDERR_FILENO, STDOUT_FILENO);
	if (!c.pid && !close(TAKE_FD(fd)))
		run_child(command, mask, on_child, child_fd);
	close(TAKE_FD(child_fd));
	seize(c.pid, fd);
	/* The first stop is that of exec. */
	while (waitpid(c.pid, &status, 0) < 0)
		if (errno != EINTR)
			return errmsg_set(e, -errno, "cannot wait for '%s': %s", command[0],
					  strerror(errno));
	if (!WIFSTOPPED(status))
		return why_not(fd, status, command[0], e);
	if (!child_keeps_rights() && rights_are_lost(c.pid))
		return refuse(&c, command[0], e);
	process_read(c.pid, &p, NULL);
	c.start_ticks = p.start_ticks;
	*ret_state = on_exec(&c);
	*ret = c;
	return 0;
}

int child_continue(struct child *c)
{
	c->is_followed = false;
	return ptrace(PTRACE_DETACH, c->pid, NULL, NULL) ? -errno : 0;
}

int child_follow(struct child *c)
{
	if (!set_breakpoint(c, 0) || ptrace(PTRACE_CONT, c->pid, NULL, 0))
		return -errno;
	c->is_followed = true;
	return 0;
}

bool child_is_followed(const struct child *c)
{
	return c->is_followed && process_tracer(c->pid) == getpid();
}

static enum child_state leave(struct child *c, int status)
{
	long signal;

	if (is_there(c, status, &signal))
		signal = 0;
	set_breakpoint(c, 0);
	c->is_followed = false;
	ptrace(PTRACE_DETACH, c->pid, NULL, signal);
	return CHILD_RUNS;
}

enum child_state child_look(struct child *c, int *ret_status)
{
	enum child_state state = CHILD_RUNS;
	int status;

	while (state == CHILD_RUNS && waitpid(c->pid, &status, WNOHANG) == c->pid) {
		if (WIFSTOPPED(status)) {
			state = c->is_leaving ? leave(c, status) : on_stop(c, status);
			continue;
		}
		*ret_status = shell_status(status);
		return CHILD_ENDED;
	}
	return state;
}

void child_leave(struct child *c)
{
	if (c->is_followed && !c->is_leaving)
		ptrace(PTRACE_INTERRUPT, c->pid, NULL, NULL);
	c->is_leaving = true;
}

void child_tell_left(size_t n)
{
	if (n)
		log_warning(
			"the command has ended while %zu of its child processes live%s on, which ends the run: to profile those start them first and give their pids with -p",
			n, n == 1 ? "s" : "");
}
