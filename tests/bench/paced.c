/* SPDX-License-Identifier: Apache-2.0 */
/*
 * paced: a server's load without a server: so many requests a second, a few of them slow, for little CPU.
 *
 *   paced FAST_PER_S SLOW_PER_S
 *
 * Fast requests work for some microseconds and come in bunches every 10 ms; a slow one waits four times
 * for 15 ms with a little work in between, as one that asks a database does. Prints "ready", begins at
 * a line on standard input, and ends at its end; a second line makes it say how many requests there were.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NS 1000000000L

enum { BUNCHES_PER_S = 100, SLOW_STEPS = 4, STEP_MS = 15, WORK = 1000 };

struct pace {
	const char *name;
	long per_s;  /* wake-ups */
	long bunch;  /* requests each time */
	int steps;   /* of each request */
	uint64_t *n; /* requests so far */
};

static volatile uint64_t sink;

static __attribute__((noinline)) void work(int n)
{
	uint64_t x = sink;

	for (int i = 0; i < n; i++)
		x = x * 2862933555777941757ULL + 3037000493ULL;
	sink = x;
}

static __attribute__((noinline, noclone)) void ask_database(void)
{
	const struct timespec t = {.tv_nsec = STEP_MS * 1000000L};

	nanosleep(&t, NULL);
}

/* The endpoint. */
static __attribute__((noinline, noclone)) int request(const char *name, int steps)
{
	work(WORK);
	for (int i = 0; i < steps; i++) {
		ask_database();
		work(20 * WORK);
	}
	return name[0] + steps;
}

static void add_ns(struct timespec *t, long ns)
{
	t->tv_nsec += ns;
	while (t->tv_nsec >= NS) {
		t->tv_nsec -= NS;
		t->tv_sec++;
	}
}

static void *play(void *arg)
{
	const struct pace *p = arg;
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	for (;;) {
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
		for (long i = 0; i < p->bunch; i++)
			sink += (uint64_t)request(p->name, p->steps);
		__atomic_add_fetch(p->n, (uint64_t)p->bunch, __ATOMIC_RELAXED);
		add_ns(&at, NS / p->per_s);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t n_fast = 0, n_slow = 0;
	long fast = argc == 3 ? atol(argv[1]) : 0, slow = argc == 3 ? atol(argv[2]) : 0;
	struct pace paces[] = {{"fast", BUNCHES_PER_S, fast / BUNCHES_PER_S, 0, &n_fast},
			       {"slow", slow, 1, SLOW_STEPS, &n_slow}};
	pthread_t thread;
	char line[16];

	if (fast < BUNCHES_PER_S || slow < 1)
		return 2;
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 0;
	for (int i = 0; i < 2; i++)
		pthread_create(&thread, NULL, play, &paces[i]);
	while (fgets(line, sizeof(line), stdin)) {
		printf("%ju %ju\n", (uintmax_t)__atomic_load_n(&n_fast, __ATOMIC_RELAXED),
		       (uintmax_t)__atomic_load_n(&n_slow, __ATOMIC_RELAXED));
		fflush(stdout);
	}
	return 0;
}
