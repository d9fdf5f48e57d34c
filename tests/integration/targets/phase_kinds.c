/* SPDX-License-Identifier: Apache-2.0 */
/*
 * phase_kinds.c: the phases. Waiting ones wait for a helper thread, which holds a mutex, or answers on
 * a pipe or a socket, after the time it was asked for.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "phases.h"
#include "truth.h"

#define MS 1000000ULL

enum { RECURSION_DEPTH = 5, DEEP_DEPTH = 200 };

static volatile uint64_t sink;

/* Between a call and a return: the call is neither a jump nor a loop. */
#define KEEP_FRAME(value) __asm__ volatile("" : "+r"(value))

static void mix(void)
{
	uint64_t x = sink + 1;

	for (int i = 0; i < 1000; i++)
		x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ULL;
	sink = x;
}

static uint64_t thread_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Burns CPU time, not wall time: what the scheduler takes away is added to it. */
int phase_spin(int ms)
{
	uint64_t end = thread_cpu_ns() + ms * MS;

	while (thread_cpu_ns() < end)
		mix();
	return ms;
}

static FRAME int nap(int ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * (long)MS};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
	return ms;
}

int phase_sleep(int ms)
{
	int ret = nap(ms);

	KEEP_FRAME(ret);
	return ret;
}

/* A request for one answer after ms; the two ends are a pipe or a socket pair. */
struct wait {
	int ask_fd;
	int answer_fd;
	int helper_ask_fd;
	int helper_answer_fd;
	int socket;
};

static void *answer_main(void *arg)
{
	struct wait *w = arg;
	int ms;

	if (read(w->helper_ask_fd, &ms, sizeof(ms)) != sizeof(ms))
		return NULL;
	nap(ms);
	if (write(w->helper_answer_fd, &ms, sizeof(ms)) != sizeof(ms))
		abort();
	return NULL;
}

static int wait_for_answer(struct wait *w, int ms)
{
	pthread_t helper;
	int answer = 0;

	if (pthread_create(&helper, NULL, answer_main, w))
		abort();
	if (write(w->ask_fd, &ms, sizeof(ms)) != sizeof(ms))
		abort();
	if ((w->socket ? recv(w->answer_fd, &answer, sizeof(answer), 0)
		       : read(w->answer_fd, &answer, sizeof(answer))) != sizeof(answer))
		abort();
	pthread_join(helper, NULL);
	return answer;
}

int phase_pipe(int ms)
{
	int ask[2], answer[2], ret;

	if (pipe2(ask, O_CLOEXEC) || pipe2(answer, O_CLOEXEC))
		abort();
	ret = wait_for_answer(&(struct wait){ask[1], answer[0], ask[0], answer[1], 0}, ms);
	close(ask[0]);
	close(ask[1]);
	close(answer[0]);
	close(answer[1]);
	return ret;
}

int phase_socket(int ms)
{
	int pair[2], ret;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		abort();
	ret = wait_for_answer(&(struct wait){pair[0], pair[0], pair[1], pair[1], 1}, ms);
	close(pair[0]);
	close(pair[1]);
	return ret;
}

struct held {
	pthread_mutex_t mutex;
	pthread_barrier_t taken;
	int ms;
};

static void *hold_main(void *arg)
{
	struct held *held = arg;

	pthread_mutex_lock(&held->mutex);
	pthread_barrier_wait(&held->taken);
	nap(held->ms);
	pthread_mutex_unlock(&held->mutex);
	return NULL;
}

int phase_mutex(int ms)
{
	struct held held = {.mutex = PTHREAD_MUTEX_INITIALIZER, .ms = ms};
	pthread_t helper;

	pthread_barrier_init(&held.taken, NULL, 2);
	if (pthread_create(&helper, NULL, hold_main, &held))
		abort();
	pthread_barrier_wait(&held.taken);
	pthread_mutex_lock(&held.mutex);
	pthread_mutex_unlock(&held.mutex);
	pthread_join(helper, NULL);
	pthread_barrier_destroy(&held.taken);
	return ms;
}

/* Writes and syncs a file of its own until the time is over. */
int phase_disk(int ms)
{
	char path[] = "/var/tmp/spanprof-disk-XXXXXX", block[4096] = {1};
	uint64_t end = truth_now() + ms * MS;
	int fd = mkostemp(path, O_CLOEXEC);

	if (fd < 0)
		abort();
	unlink(path);
	do {
		if (pwrite(fd, block, sizeof(block), 0) != sizeof(block) || fsync(fd))
			abort();
	} while (truth_now() < end);
	close(fd);
	return ms;
}

/* An endpoint inside an endpoint, when a test probes both. */
int phase_inner(const char *name, int ms)
{
	uint64_t start = truth_now();
	int ret = nap(ms);

	truth_add("inner", name, start, truth_now());
	return ret + 1;
}

int phase_nested(int ms)
{
	return phase_inner("inner-a", ms / 2) + phase_inner("inner-b", ms - ms / 2);
}

static FRAME int recurse(int depth, int ms)
{
	int ret = depth ? recurse(depth - 1, ms) : nap(ms);

	KEEP_FRAME(ret);
	return ret + 1;
}

int phase_recursive(int ms)
{
	int ret = recurse(RECURSION_DEPTH, ms);

	KEEP_FRAME(ret);
	return ret;
}

int phase_deep(int ms)
{
	int ret = recurse(DEEP_DEPTH, ms);

	KEEP_FRAME(ret);
	return ret;
}

static const struct phase phases[] = {
	{"spin", phase_spin},     {"sleep", phase_sleep},         {"mutex", phase_mutex},
	{"pipe", phase_pipe},     {"socket", phase_socket},       {"disk", phase_disk},
	{"nested", phase_nested}, {"recursive", phase_recursive}, {"deep", phase_deep},
};

const struct phase *phase_find(const char *name)
{
	for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++)
		if (!strcmp(phases[i].name, name))
			return &phases[i];
	return NULL;
}

/* Touches what the first call would otherwise fault in. */
void phases_init(void)
{
	phase_mutex(1);
	phase_pipe(1);
}
