/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/detach.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/vec.h"

enum { HEIRS_MAX = 8 };

/* Pipes between this process and its heirs; an end that is closed tells. */
struct talk {
	int ready[2]; /* the heirs have no descriptors but their own share any more */
	int go[2];    /* this process has none either */
};

/* Part `part` of `n_parts` of an array. */
struct share {
	const struct attachment *all;
	size_t n;
	size_t part;
	size_t n_parts;
};

/*
 * Children that have not been waited for. They are the process's, not an object's; and to wait for any child
 * would meet one that is traced, too, whatever the wait is for.
 */
static VEC(pid_t) heirs;

static bool is_in_share(const struct share *s, size_t i)
{
	return i * s->n_parts / s->n == s->part;
}

static void wait_for_end_of(int fd)
{
	char c;

	while (read(fd, &c, 1) < 0 && errno == EINTR)
		;
}

static void keep_lower(int fd, int from, int *lowest)
{
	if (fd >= from && (*lowest < 0 || fd < *lowest))
		*lowest = fd;
}

/* The lowest descriptor that an heir keeps, of those that are not below `from`; -1: none. */
static int next_kept(const struct share *share, const struct talk *talk, int from)
{
	int lowest = -1;

	for (size_t i = 0; i < share->n; i++) {
		if (!is_in_share(share, i))
			continue;
		keep_lower(share->all[i].link_fd, from, &lowest);
		keep_lower(share->all[i].perf_fd, from, &lowest);
	}
	keep_lower(talk->go[0], from, &lowest);
	keep_lower(talk->ready[1], from, &lowest);
	return lowest;
}

/*
 * All other descriptors are closed at once: what this process closes must be closed, for its peers and
 * for its epoll sets.
 */
static void close_others(const struct share *share, const struct talk *talk)
{
	int from = 0, kept;

	while ((kept = next_kept(share, talk, from)) >= 0) {
		if (kept > from)
			syscall(SYS_close_range, from, kept - 1, 0);
		from = kept + 1;
	}
	syscall(SYS_close_range, from, ~0U, 0);
}

/* In the child, which may only make system calls: other threads' locks are held for ever. */
static _Noreturn void be_heir(const struct share *share, const struct talk *talk)
{
	close_others(share, talk);
	close(talk->ready[1]);
	wait_for_end_of(talk->go[0]);
	syscall(SYS_exit_group, 0);
	__builtin_unreachable();
}

/*
 * A child without a signal at its end, which no other wait of this process meets (__WCLONE). fork()
 * would run the handlers of libraries.
 */
static bool start_heir(const struct share *share, const struct talk *talk)
{
	long pid;

	if (vec_reserve(&heirs, heirs.n + 1))
		return false;
	pid = syscall(SYS_clone, 0UL, NULL, NULL, NULL, 0UL);
	if (pid == 0)
		be_heir(share, talk);
	if (pid > 0)
		heirs.at[heirs.n++] = (pid_t)pid;
	return pid > 0;
}

static bool open_talk(struct talk *t)
{
	if (pipe2(t->ready, O_CLOEXEC) < 0)
		return false;
	if (pipe2(t->go, O_CLOEXEC) < 0) {
		close(t->ready[0]);
		close(t->ready[1]);
		return false;
	}
	return true;
}

/* Without pipes or children (limits) the probes are taken off by this process, at the next line. */
static void hand_over(const struct attachment *all, size_t n)
{
	struct share share = {.all = all, .n = n, .n_parts = n < HEIRS_MAX ? n : HEIRS_MAX};
	struct talk talk;
	bool can_talk = open_talk(&talk);

	for (share.part = 0; can_talk && share.part < share.n_parts; share.part++)
		if (!start_heir(&share, &talk))
			break;
	if (can_talk) {
		close(talk.ready[1]);
		wait_for_end_of(talk.ready[0]);
	}
	for (size_t i = 0; i < n; i++) {
		struct attachment a = all[i];

		probe_detach(&a);
	}
	if (can_talk) {
		close(talk.ready[0]);
		close(talk.go[0]);
		close(talk.go[1]);
	}
}

static void reap(int flags)
{
	size_t n_left = 0;

	for (size_t i = 0; i < heirs.n; i++) {
		pid_t pid;

		do
			pid = waitpid(heirs.at[i], NULL, __WCLONE | flags);
		while (pid < 0 && errno == EINTR);
		if (!pid)
			heirs.at[n_left++] = heirs.at[i];
	}
	heirs.n = n_left;
	if (!n_left)
		vec_free(&heirs);
}

void probe_detach_later(const struct attachment *all, size_t n)
{
	reap(WNOHANG);
	if (n)
		hand_over(all, n);
}

void probe_detach_all(struct attachment *all, size_t n)
{
	probe_detach_later(all, n);
	for (size_t i = 0; i < n; i++)
		all[i] = ATTACHMENT_NONE;
	probe_detach_wait();
}

void probe_detach_wait(void)
{
	reap(0);
}

bool probe_detach_is_done(void)
{
	reap(WNOHANG);
	return !heirs.n;
}
