/* SPDX-License-Identifier: Apache-2.0 */
#include "app/callfilter.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { TOLD_MAX = 20 };

/* A signal handler has no other place to count in. */
static uint64_t n_refused;

static const int allowed[] = {
	/* files, and what SQLite does with them */
	SCMP_SYS(read),
	SCMP_SYS(write),
	SCMP_SYS(readv),
	SCMP_SYS(writev),
	SCMP_SYS(pread64),
	SCMP_SYS(pwrite64),
	SCMP_SYS(preadv),
	SCMP_SYS(pwritev),
	SCMP_SYS(lseek),
	SCMP_SYS(open),
	SCMP_SYS(openat),
	SCMP_SYS(openat2),
	SCMP_SYS(close),
	SCMP_SYS(close_range),
	SCMP_SYS(dup),
	SCMP_SYS(dup2),
	SCMP_SYS(dup3),
	SCMP_SYS(fcntl),
	SCMP_SYS(ioctl),
	SCMP_SYS(flock),
	SCMP_SYS(pipe),
	SCMP_SYS(pipe2),
	SCMP_SYS(fsync),
	SCMP_SYS(fdatasync),
	SCMP_SYS(ftruncate),
	SCMP_SYS(fallocate),
	SCMP_SYS(fadvise64),
	SCMP_SYS(stat),
	SCMP_SYS(fstat),
	SCMP_SYS(lstat),
	SCMP_SYS(newfstatat),
	SCMP_SYS(statx),
	SCMP_SYS(statfs),
	SCMP_SYS(fstatfs),
	SCMP_SYS(access),
	SCMP_SYS(faccessat),
	SCMP_SYS(faccessat2),
	SCMP_SYS(readlink),
	SCMP_SYS(readlinkat),
	SCMP_SYS(getdents64),
	SCMP_SYS(getcwd),
	SCMP_SYS(unlink),
	SCMP_SYS(unlinkat),
	SCMP_SYS(rename),
	SCMP_SYS(renameat),
	SCMP_SYS(renameat2),
	SCMP_SYS(mkdir),
	SCMP_SYS(mkdirat),
	SCMP_SYS(rmdir),
	SCMP_SYS(chmod),
	SCMP_SYS(fchmod),
	SCMP_SYS(fchmodat),
	SCMP_SYS(fchown),
	SCMP_SYS(umask),
	/* memory */
	SCMP_SYS(mmap),
	SCMP_SYS(munmap),
	SCMP_SYS(mremap),
	SCMP_SYS(mprotect),
	SCMP_SYS(madvise),
	SCMP_SYS(brk),
	SCMP_SYS(memfd_create), /* libbpf 1.4 and later: a place for a map that is not there yet */
	SCMP_SYS(mincore),
	SCMP_SYS(msync),
	/* threads, signals, ends; a new thread: see add_special */
	SCMP_SYS(futex),
	SCMP_SYS(set_robust_list),
	SCMP_SYS(get_robust_list),
	SCMP_SYS(rseq),
	SCMP_SYS(set_tid_address),
	SCMP_SYS(gettid),
	SCMP_SYS(sched_yield),
	SCMP_SYS(membarrier),
	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(sched_setaffinity),
	SCMP_SYS(sched_getparam),
	SCMP_SYS(sched_getscheduler),
	SCMP_SYS(getcpu),
	SCMP_SYS(arch_prctl),
	SCMP_SYS(prctl),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(rt_sigtimedwait),
	SCMP_SYS(sigaltstack),
	SCMP_SYS(signalfd4),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(tgkill),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	SCMP_SYS(wait4),
	SCMP_SYS(setpgid),
	/* time */
	SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_getres),
	SCMP_SYS(clock_nanosleep),
	SCMP_SYS(nanosleep),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(time),
	SCMP_SYS(times),
	SCMP_SYS(getrusage),
	SCMP_SYS(timerfd_create),
	SCMP_SYS(timerfd_settime),
	SCMP_SYS(timerfd_gettime),
	/* waiting */
	SCMP_SYS(epoll_create),
	SCMP_SYS(epoll_create1),
	SCMP_SYS(epoll_ctl),
	SCMP_SYS(epoll_wait),
	SCMP_SYS(epoll_pwait),
	SCMP_SYS(epoll_pwait2),
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(select),
	SCMP_SYS(pselect6),
	SCMP_SYS(eventfd),
	SCMP_SYS(eventfd2),
	/* sockets; which kinds: see add_special */
	SCMP_SYS(connect),
	SCMP_SYS(accept),
	SCMP_SYS(accept4),
	SCMP_SYS(bind),
	SCMP_SYS(listen),
	SCMP_SYS(shutdown),
	SCMP_SYS(getsockname),
	SCMP_SYS(getpeername),
	SCMP_SYS(setsockopt),
	SCMP_SYS(getsockopt),
	SCMP_SYS(sendto),
	SCMP_SYS(sendmsg),
	SCMP_SYS(sendmmsg),
	SCMP_SYS(recvfrom),
	SCMP_SYS(recvmsg),
	SCMP_SYS(recvmmsg),
	/* who and where we are */
	SCMP_SYS(getpid),
	SCMP_SYS(getppid),
	SCMP_SYS(getuid),
	SCMP_SYS(geteuid),
	SCMP_SYS(getgid),
	SCMP_SYS(getegid),
	SCMP_SYS(getresuid),
	SCMP_SYS(getresgid),
	SCMP_SYS(getgroups),
	SCMP_SYS(uname),
	SCMP_SYS(sysinfo),
	SCMP_SYS(getrlimit),
	SCMP_SYS(setrlimit),
	SCMP_SYS(prlimit64),
	SCMP_SYS(getpriority),
	SCMP_SYS(capget),
	SCMP_SYS(getrandom),
	/* the trade */
	SCMP_SYS(bpf),
	SCMP_SYS(perf_event_open),
};

static char *put_number(char *to, unsigned int n)
{
	char digits[12];
	int i = 0;

	do
		digits[i++] = (char)('0' + n % 10);
	while (n /= 10);
	while (i)
		*to++ = digits[--i];
	return to;
}

/* Only what is safe in a signal handler. */
static void on_refused(int number, siginfo_t *info, void *context)
{
	static const char text[] = "spanprof: warning: event=call_refused number=";
	char line[sizeof(text) + 16], *end = line + sizeof(text) - 1;
	ucontext_t *u = context;
	int error = errno;

	if (__atomic_fetch_add(&n_refused, 1, __ATOMIC_RELAXED) < TOLD_MAX) {
		memcpy(line, text, sizeof(text) - 1);
		end = put_number(end, (unsigned int)info->si_syscall);
		*end++ = '\n';
		(void)!write(STDERR_FILENO, line, (size_t)(end - line));
	}
	u->uc_mcontext.gregs[REG_RAX] = -ENOSYS;
	errno = error;
}

uint64_t callfilter_n_refused(void)
{
	return __atomic_load_n(&n_refused, __ATOMIC_RELAXED);
}

/* Threads; copies of the process that attach probes and take them off; the kinds of sockets that are in use. */
static int add_special(scmp_filter_ctx ctx)
{
	static const int families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK /* addresses */};
	int r;

	/* Its flags are in memory, where a filter cannot look; without it the C library uses clone. */
	r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	if (!r)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				     SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
	if (!r) /* probe/detach.c; a fork has SIGCHLD here, and is refused */
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				     SCMP_A0(SCMP_CMP_EQ, 0));
	if (!r) /* probe/apart.c */
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				     SCMP_A0(SCMP_CMP_EQ, CLONE_VM | CLONE_FILES | CLONE_VFORK));
	for (size_t i = 0; !r && i < ARRAY_SIZE(families); i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
				     SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i]));
	if (!r)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1,
				     SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
	return r;
}

int callfilter_load(struct errmsg *e)
{
	struct sigaction action = {.sa_sigaction = on_refused,
				   .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_TRAP);
	int r = ctx ? 0 : -ENOMEM;

	if (!r && sigaction(SIGSYS, &action, NULL))
		r = -errno;
	if (!r)
		r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
	/* A call a microsecond less: the list is long, and most calls are of a few kinds. */
	if (!r)
		seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	for (size_t i = 0; !r && i < ARRAY_SIZE(allowed); i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, allowed[i], 0);
	if (!r)
		r = add_special(ctx);
	if (!r)
		r = seccomp_load(ctx);
	if (ctx)
		seccomp_release(ctx);
	return r ? errmsg_set(e, r, "cannot filter system calls: %s", strerror(-r)) : 0;
}
