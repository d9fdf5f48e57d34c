/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leaves: functions that are left in all the ways that compilers know, each called COUNT times.
 *
 *   leaves WAY COUNT
 *
 * Prints "ready", waits for a line, plays, prints "calls N" (of the function named like the way) and
 * "done", waits for the end of input. The exit status is 0 only when all results were right.
 */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stage.h"

FRAME long several(long n);
FRAME long tail(long n);
FRAME long pointer(long n);
FRAME long recurse(long n);
FRAME long table(long n);
FRAME void never(long n);
FRAME long work(long n);
FRAME long place(long n);
FRAME long pair(long n);
FRAME long scattered(long n);
FRAME long guarded(long n);
FRAME long wrapped(long n);
FRAME long wrapper(long n, long by);
FRAME long outer_wrapper(long n);

/* A statically defined probe with one argument, as <sys/sdt.h> makes it; semaphore: a symbol, or "0". */
#define USDT_WITH(name, semaphore, argument)                           \
	__asm__ volatile("990:	nop\n"                                  \
			 "	.pushsection .note.stapsdt,\"\",\"note\"\n" \
			 "	.balign 4\n"                                \
			 "	.4byte 992f - 991f, 994f - 993f, 3\n"       \
			 "991:	.asciz \"stapsdt\"\n"                   \
			 "992:	.balign 4\n"                            \
			 "993:	.8byte 990b, 0, " semaphore "\n"       \
			 "	.asciz \"leaves\"\n"                        \
			 "	.asciz \"" name "\"\n"                 \
			 "	.asciz \"8@%0\"\n"                          \
			 "994:	.balign 4\n"                            \
			 "	.popsection\n"                              \
			 :                                             \
			 : "nor"(argument))
#define USDT(name, argument) USDT_WITH(name, "0", argument)

/* How many want the probe that it guards. */
volatile unsigned short leaves_guarded_semaphore __attribute__((section(".probes")));

static jmp_buf back;
static long n_calls, n_bad;

/* A table of functions that the compiler cannot look into. */
static long (*volatile next[1])(long n) = {work};

static void expect(int is_true)
{
	n_bad += !is_true;
}

long work(long n)
{
	__asm__ volatile("" : "+r"(n));
	return n + 1;
}

long several(long n)
{
	n_calls++;
	if (n % 5 == 0)
		return n;
	if (n % 3 == 0) {
		long m = work(n);

		return work(m) * 2;
	}
	for (long i = 0; i < n % 7; i++)
		if (work(i) == 4)
			return 4;
	return work(n) - 1;
}

long tail(long n)
{
	n_calls++;
	if (n % 2)
		return 7;
	return work(n * 3); /* which has to be computed: a jump, but no conditional one */
}

long pointer(long n)
{
	n_calls++;
	if (n % 2)
		return 7;
	return next[0](n);
}

long recurse(long n)
{
	long below = 0;

	n_calls++;
	if (n)
		below = recurse(n - 1);
	__asm__ volatile("" : "+r"(below));
	return n ? below + 1 : 0;
}

long table(long n)
{
	n_calls++;
	switch (n % 8) {
	case 0:
		return work(11);
	case 1:
		return work(n) * 3;
	case 2:
		return work(n) ^ work(1);
	case 3:
		return work(2) << 3;
	case 4:
		return work(n * 5) - work(9);
	case 5:
		return work(work(n));
	default:
		return 1;
	}
}

__attribute__((noreturn)) void never(long n)
{
	n_calls++;
	longjmp(back, (int)work(n));
}

/* The probe is behind some work, with a frame and saved registers around it. */
long place(long n)
{
	char text[64];
	long before = work(n);

	n_calls++;
	snprintf(text, sizeof(text), "%ld", before);
	USDT("place", before);
	return work((long)strlen(text)) + before;
}

long pair(long n)
{
	n_calls++;
	USDT("work__start", n);
	n = work(n);
	USDT("work__end", n);
	return work(n);
}

/* The same probe at two places, with its argument in different ones. */
long scattered(long n)
{
	n_calls++;
	if (n % 2) {
		USDT("scattered", n);
		return work(n) + 1;
	}
	USDT("scattered", 12345L);
	return work(n) + 2;
}

long guarded(long n)
{
	n_calls++;
	if (leaves_guarded_semaphore)
		USDT_WITH("guarded", "leaves_guarded_semaphore", n);
	return work(n);
}

long wrapped(long n)
{
	n_calls++;
	return work(n) + 1;
}

/* Optimized, these end by jumping on. */
long wrapper(long n, long by)
{
	if (next[0] != work)
		return next[0](n);
	return wrapped(n - by);
}

long outer_wrapper(long n)
{
	return wrapper(n, 3);
}

/* From the first call on, their ends are seen. */
static void play_wrapped(long count)
{
	for (long i = 0; i < count; i++)
		expect(outer_wrapper(i) == i - 1);
}

static void play_scattered(long count)
{
	for (long i = 0; i < count; i++)
		expect(scattered(i) == work(i) + 2 - i % 2);
}

static void play_guarded(long count)
{
	for (long i = 0; i < count; i++)
		expect(guarded(i) == i + 1);
}

static void play_place(long count)
{
	for (long i = 0; i < count; i++)
		expect(place(9) == 13);
}

static void play_pair(long count)
{
	for (long i = 0; i < count; i++)
		expect(pair(i) == i + 2);
}

static void play_several(long count)
{
	for (long i = 0; i < count; i++)
		expect(several(15 * i + 5) == 15 * i + 5 &&
		       several(15 * i + 3) == (15 * i + 5) * 2);
}

static void play_tail(long count)
{
	for (long i = 0; i < count; i++)
		expect(tail(i) == (i % 2 ? 7 : i * 3 + 1));
}

static void play_pointer(long count)
{
	for (long i = 0; i < count; i++)
		expect(pointer(i) == (i % 2 ? 7 : i + 1));
}

static void play_recurse(long count)
{
	for (long i = 0; i < count; i++)
		expect(recurse(9) == 9);
}

static void play_table(long count)
{
	for (long i = 0; i < count; i++)
		expect(table(8 * i) == 12 && table(8 * i + 3) == 24 && table(8 * i + 7) == 1);
}

static void play_never(long count)
{
	for (volatile long i = 0; i < count; i++)
		if (!setjmp(back))
			never(i);
}

/* Calls from code that is in no file, as a JIT compiler's is. */
static void play_jit(long count)
{
	static const unsigned char code[] = {
		0x48, 0x83, 0xec, 0x08, /* sub $8, %rsp */
		0x48, 0x89, 0xf8,       /* mov %rdi, %rax */
		0x48, 0x89, 0xf7,       /* mov %rsi, %rdi */
		0xff, 0xd0,             /* call *%rax */
		0x48, 0x83, 0xc4, 0x08, /* add $8, %rsp */
		0xc3,
	};
	long (*call)(long (*fn)(long), long n);
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		abort();
	memcpy(at, code, sizeof(code));
	if (mprotect(at, 4096, PROT_READ | PROT_EXEC))
		abort();
	memcpy(&call, &at, sizeof(call));
	/* Slow enough for the first ones to be noticed while there are others to come. */
	for (long i = 0; i < count; i++) {
		expect(call(several, 15 * i + 5) == 15 * i + 5);
		usleep(3000);
	}
}

static const struct way {
	const char *name;
	void (*play)(long count);
} ways[] = {
	{"several", play_several}, {"tail", play_tail},
	{"pointer", play_pointer}, {"recurse", play_recurse},
	{"table", play_table},     {"never", play_never},
	{"jit", play_jit},         {"place", play_place},
	{"pair", play_pair},       {"scattered", play_scattered},
	{"wrapped", play_wrapped}, {"guarded", play_guarded},
};

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (strcmp(argv[1], ways[i].name) != 0)
			continue;
		wait_for_line("ready", n_bad != 0);
		ways[i].play(atol(argv[2]));
		printf("calls %ld\n", n_calls);
		wait_for_line("done", n_bad != 0);
		return n_bad ? 1 : 0;
	}
	return 2;
}
