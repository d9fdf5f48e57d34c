/* SPDX-License-Identifier: Apache-2.0 */
/*
 * busy: calls request("tick") all the time, more often than it may be probed, and does besides what the
 * lines on its standard input say:
 *
 *   call MS   request("call") on a thread of its own, which sleeps in it; says "called" then
 *   jump MS   the same, but request("jump") is left by longjmp
 *   fork      a child that calls request("child") for 30 ms each time; says "child PID"
 *
 * The end of the input ends it. A statically defined probe is beside each tick, guarded by its semaphore.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "stage.h"

/* Of the CPU time of a tick so short its probes take more than half, on a slow machine as on a fast one. */
enum { TICK_NS = 5000, TRIED = 20000 };

FRAME void request(const char *name, long ms);

volatile unsigned short busy_tick_semaphore __attribute__((section(".probes")));

/* As <sys/sdt.h> makes it. */
#define USDT_TICK()                                                    \
	__asm__ volatile("990:	nop\n"                                  \
			 "	.pushsection .note.stapsdt,\"\",\"note\"\n" \
			 "	.balign 4\n"                                \
			 "	.4byte 992f - 991f, 994f - 993f, 3\n"       \
			 "991:	.asciz \"stapsdt\"\n"                   \
			 "992:	.balign 4\n"                            \
			 "993:	.8byte 990b, 0, busy_tick_semaphore\n"  \
			 "	.asciz \"busy\"\n"                          \
			 "	.asciz \"tick\"\n"                          \
			 "	.asciz \"\"\n"                              \
			 "994:	.balign 4\n"                            \
			 "	.popsection\n")

static _Thread_local jmp_buf back;
static long n_rounds = TRIED;

void request(const char *name, long ms)
{
	if (busy_tick_semaphore)
		USDT_TICK();
	if (ms)
		usleep((unsigned int)ms * 1000);
	else
		for (long i = 0; i < n_rounds; i++)
			__asm__ volatile(""); /* no memory: as many cycles each time */
	if (!strcmp(name, "jump"))
		longjmp(back, 1);
}

static long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Before anything probes it. */
static void measure_tick(void)
{
	long best_ns = 1000000000;

	for (int i = 0; i < 50; i++) {
		long took_ns = now_ns();

		request("", 0);
		took_ns = now_ns() - took_ns;
		if (took_ns < best_ns)
			best_ns = took_ns;
	}
	n_rounds = best_ns > 0 ? (long)TRIED * TICK_NS / best_ns + 1 : TRIED;
}

static void *tick(void *unused)
{
	for (;;)
		request("tick", 0);
	return unused;
}

struct job {
	char name[16];
	long ms;
};

static void *call(void *arg)
{
	struct job *job = arg;

	if (!setjmp(back))
		request(job->name, job->ms);
	printf("called\n");
	fflush(stdout);
	free(job);
	return NULL;
}

static void start(void *(*fn)(void *), void *arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, fn, arg) || pthread_detach(thread))
		exit(2);
}

static void be_child(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		request("child", 30);
}

int main(void)
{
	char line[64];

	measure_tick();
	printf("ready\n");
	fflush(stdout);
	start(tick, NULL);
	while (fgets(line, sizeof(line), stdin)) {
		struct job *job = calloc(1, sizeof(*job));
		pid_t pid;

		if (!job)
			return 2;
		if (sscanf(line, "%15s %ld", job->name, &job->ms) == 2) {
			start(call, job);
			continue;
		}
		free(job);
		pid = fork();
		if (!pid)
			be_child();
		printf("child %d\n", (int)pid);
		fflush(stdout);
	}
	return 0;
}
