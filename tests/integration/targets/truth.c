/* SPDX-License-Identifier: Apache-2.0 */
/*
 * truth.c: events of all threads in one fixed table, taken by an atomic index, so that noting one
 * costs no lock, no memory and no system call in the middle of what is measured.
 */
#include "truth.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS_MAX = 1 << 17 };

struct truth_event {
	const char *what;
	const char *name;
	uint64_t start_ns;
	uint64_t end_ns;
	int tid;
};

static struct truth_event events[EVENTS_MAX];
static atomic_int n_events;
static int truth_fd = -1;
static __thread int own_tid;

uint64_t truth_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void truth_open(const char *path)
{
	if (!path)
		return;
	truth_fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (truth_fd < 0) {
		perror(path);
		exit(1);
	}
}

static int tid_of_thread(void)
{
	if (!own_tid)
		own_tid = syscall(SYS_gettid);
	return own_tid;
}

void truth_add(const char *what, const char *name, uint64_t start_ns, uint64_t end_ns)
{
	int i = atomic_fetch_add(&n_events, 1);

	if (i >= EVENTS_MAX)
		abort();
	events[i] = (struct truth_event){what, name, start_ns, end_ns, tid_of_thread()};
}

static void write_event(const struct truth_event *e)
{
	char line[256];
	int n = snprintf(line, sizeof(line), "%s %s %d %llu %llu\n", e->what, e->name, e->tid,
			 (unsigned long long)e->start_ns, (unsigned long long)e->end_ns);

	if (truth_fd >= 0 && write(truth_fd, line, n) != n)
		abort();
}

void truth_note(const char *what, const char *name, uint64_t start_ns, uint64_t end_ns)
{
	struct truth_event e = {what, name, start_ns, end_ns, syscall(SYS_gettid)};

	write_event(&e);
}

void truth_write(void)
{
	int n = atomic_load(&n_events);

	for (int i = 0; i < n; i++)
		write_event(&events[i]);
	atomic_store(&n_events, 0);
}
