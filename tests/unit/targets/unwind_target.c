/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unwind_target.c: the program whose stacks test_unwind_live walks. Built with several sets of
 * flags. It stops with a breakpoint instruction where its tracer is to take over.
 */
#include <alloca.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile int sink;

static inline void stop(void)
{
	__asm__ volatile("int3" ::: "memory");
}

static NOINLINE int deep(int n)
{
	volatile char local[40] = {(char)n};

	if (n == 0)
		stop();
	else
		sink += deep(n - 1);
	return local[n % 40] + sink;
}

static void on_signal(int nr)
{
	sink += nr;
	stop();
	sink += nr;
}

static NOINLINE void by_signal(int flags)
{
	static char other_stack[65536];
	stack_t ss = {.ss_sp = other_stack, .ss_size = sizeof(other_stack)};
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = flags};

	if (flags & SA_ONSTACK)
		sigaltstack(&ss, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	raise(SIGUSR1);
	sink++;
}

static int compare(const void *a, const void *b)
{
	const int *x = a, *y = b;

	if (sink++ == 2)
		stop();
	return (*x > *y) - (*x < *y);
}

static NOINLINE void by_qsort(void)
{
	int v[] = {9, 3, 7, 1, 4};

	qsort(v, 5, sizeof(v[0]), compare);
	sink += v[0];
}

/* The first call of a library function resolves its symbol. */
static NOINLINE void by_plt(const char *text)
{
	stop();
	sink += (int)strtol(text, NULL, 10);
	sink += (int)strcspn(text, "x");
	sink += (int)strtol(text, NULL, 10);
}

static NOINLINE void by_vdso(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	stop();
	clock_gettime(CLOCK_MONOTONIC, &ts);
	sink += (int)ts.tv_nsec;
}

/* A frame that is realigned and one whose size is known only at run time. */
static NOINLINE void by_odd_frames(int n)
{
	char wide[64] __attribute__((aligned(64)));
	char *more = alloca(n);

	memset(wide, n, sizeof(wide));
	memset(more, n, n);
	sink += deep(n % 8);
	sink += wide[n % 64] + more[n / 2];
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int n = argc > 2 ? atoi(argv[2]) : 0;

	if (!strcmp(what, "deep"))
		sink += deep(n);
	else if (!strcmp(what, "signal"))
		by_signal(0);
	else if (!strcmp(what, "altstack"))
		by_signal(SA_ONSTACK);
	else if (!strcmp(what, "qsort"))
		by_qsort();
	else if (!strcmp(what, "plt"))
		by_plt("17");
	else if (!strcmp(what, "vdso"))
		by_vdso();
	else if (!strcmp(what, "odd"))
		by_odd_frames(n);
	return sink == -1;
}
