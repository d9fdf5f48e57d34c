/* SPDX-License-Identifier: Apache-2.0 */
/*
 * housekeeping [prefork]: two workers, threads or processes, serve requests of a few milliseconds. Beside
 * them a timer's function sleeps for most of each second, and one that polls for nearly all of each
 * tenth of a second. Prints "ready", works until the end of input.
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "stage.h"

FRAME long handle_request(long n);
FRAME long process_timer_query(long n);
FRAME long process_poll_event(long n);

enum { WORKERS = 2, REQUEST_US = 5000, BETWEEN_US = 20000, TIMER_US = 900000, SECOND_US = 1000000 };
enum { POLL_US = 90000, BETWEEN_POLLS_US = 10000 };

long handle_request(long n)
{
	usleep(REQUEST_US);
	return n + 1;
}

long process_timer_query(long n)
{
	usleep(TIMER_US);
	return n + 1;
}

long process_poll_event(long n)
{
	usleep(POLL_US);
	return n + 1;
}

static void *worker_main(void *unused)
{
	for (long n = 0;; usleep(BETWEEN_US))
		n = handle_request(n);
	return unused;
}

static void *timer_main(void *unused)
{
	for (long n = 0;; usleep(SECOND_US - TIMER_US))
		n = process_timer_query(n);
	return unused;
}

static void *poll_main(void *unused)
{
	for (long n = 0;; usleep(BETWEEN_POLLS_US))
		n = process_poll_event(n);
	return unused;
}

static int start_worker(bool is_process)
{
	pthread_t thread;
	pid_t pid;

	if (!is_process)
		return pthread_create(&thread, NULL, worker_main, NULL);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		worker_main(NULL);
	}
	return pid < 0;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	for (int i = 0; i < WORKERS; i++)
		if (start_worker(argc > 1 && !strcmp(argv[1], "prefork")))
			return 1;
	if (pthread_create(&thread, NULL, timer_main, NULL) ||
	    pthread_create(&thread, NULL, poll_main, NULL))
		return 1;
	wait_for_line("ready", 0);
	return 0;
}
