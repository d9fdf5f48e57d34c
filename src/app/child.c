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
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

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

static _Noreturn void run_child(char **command, const sigset_t *mask, int error_fd)
{
	struct failure f = {0};

	sigprocmask(SIG_SETMASK, mask, NULL);
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0)
		execvp(command[0], command);
	else
		f.by_ptrace = true;
	f.error = errno;
	if (write(error_fd, &f, sizeof(f)) < 0)
		_exit(126);
	_exit(127);
}

static int why_not(int error_fd, pid_t pid, const char *name, struct errmsg *e)
{
	struct failure f;
	int status;

	if (read(error_fd, &f, sizeof(f)) != sizeof(f))
		f = (struct failure){.error = ECHILD};
	waitpid(pid, &status, 0);
	if (f.by_ptrace)
		return errmsg_set(
			e, -f.error,
			"cannot hold '%s' at its start: %s (is it traced already, as by strace -f, or ptrace forbidden here?); start it first and name it with -p",
			name, strerror(f.error));
	return errmsg_set(e, -f.error, "cannot start '%s': %s", name, strerror(f.error));
}

/*
 * Whether the kernel has left out rights that the program's file gives, because it is traced: it would
 * run as another program than its user asked for.
 */
static bool lost_rights(pid_t pid)
{
	char path[64];
	struct statvfs fs;
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (process_own_capabilities() & 1ULL << CAP_SYS_PTRACE || stat(path, &st) ||
	    statvfs(path, &fs) || fs.f_flag & ST_NOSUID)
		return false;
	return ((st.st_mode & S_ISUID) && st.st_uid != geteuid()) ||
	       ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getegid()) ||
	       getxattr(path, "security.capability", NULL, 0) > 0;
}

static int refuse(pid_t pid, const char *name, struct errmsg *e)
{
	int status;

	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
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
 * would run into a changed instruction. No stop when addr is 0.
 */
static bool set_breakpoint(pid_t pid, uint64_t addr)
{
	return !ptrace(PTRACE_POKEUSER, pid, DEBUG_REGISTER(7), 0) &&
	       !ptrace(PTRACE_POKEUSER, pid, DEBUG_REGISTER(0), addr) &&
	       (!addr || !ptrace(PTRACE_POKEUSER, pid, DEBUG_REGISTER(7), DR7_ENABLE_0));
}

/* Whether a stopped child is at addr; ret_signal: what it must be given when it is not. */
static bool is_there(pid_t pid, int status, uint64_t addr, long *ret_signal)
{
	struct user_regs_struct regs;

	*ret_signal = status >> 16 ? 0 : WSTOPSIG(status);
	return *ret_signal == SIGTRAP && !ptrace(PTRACE_GETREGS, pid, NULL, &regs) &&
	       regs.rip == addr;
}

/*
 * Runs the stopped child up to its entry point, that of the last program when it calls exec; false when
 * it ended before that. Where that is not known it stays where it is: what is linked in can be attached all
 * the same. Without this process it would run into its breakpoint, so it ends with it.
 */
static bool run_to_entry(pid_t pid)
{
	uint64_t addr = entry_point(pid);
	bool is_armed =
		addr &&
		!ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL) &&
		set_breakpoint(pid, addr);
	long signal = 0;
	int status;

	while (is_armed) {
		if (ptrace(PTRACE_CONT, pid, NULL, signal) || waitpid(pid, &status, 0) != pid ||
		    !WIFSTOPPED(status))
			return false;
		if (is_there(pid, status, addr, &signal))
			break;
		if (status >> 16 == PTRACE_EVENT_EXEC) {
			addr = entry_point(pid);
			is_armed = addr && set_breakpoint(pid, addr);
		}
	}
	set_breakpoint(pid, 0);
	return !ptrace(PTRACE_SETOPTIONS, pid, NULL, 0);
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
	if (lost_rights(pid))
		return refuse(pid, command[0], e);
	if (!run_to_entry(pid))
		return errmsg_set(e, -ECHILD, "'%s' ended before it reached its entry point",
				  command[0]);
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

void child_tell_left(size_t n)
{
	if (n)
		log_warning(
			"the command has ended while %zu of its child processes live%s on, which ends the run: to profile those start them first and give their pids with -p",
			n, n == 1 ? "s" : "");
}
