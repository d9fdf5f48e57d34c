/* SPDX-License-Identifier: Apache-2.0 */
/*
 * housekeeping: two workers serve requests of a few milliseconds, and beside them a timer's function
 * sleeps for most of each second. Prints "ready", works until the end of input.
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "stage.h"

FRAME long handle_request(long n);
FRAME long process_timer_query(long n);

enum { WORKERS = 2, REQUEST_US = 5000, BETWEEN_US = 20000, TIMER_US = 900000, SECOND_US = 1000000 };

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

int main(void)
{
	pthread_t thread;

	for (int i = 0; i < WORKERS; i++)
		if (pthread_create(&thread, NULL, worker_main, NULL))
			return 1;
	if (pthread_create(&thread, NULL, timer_main, NULL))
		return 1;
	wait_for_line("ready", 0);
	return 0;
}
