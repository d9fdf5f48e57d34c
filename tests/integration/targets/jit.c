/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jit: request() runs machine code that is in no file, as a JIT compiler's is, with frame pointers and
 * with names in /tmp/perf-PID.map. It spins in there and sleeps below, each for NAP_MS, twice.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "stage.h"

enum { CALLS = 2, NAP_MS = 60, RENDER_AT = 0, LEAF_AT = 32 };

FRAME void request(atomic_int *flag);
FRAME void nap(void);

static const unsigned char render[] = {
	0x55,                   /* push %rbp */
	0x48, 0x89, 0xe5,       /* mov %rsp, %rbp */
	0xe8, 23,   0,    0, 0, /* call leaf */
	0x5d,                   /* pop %rbp */
	0xc3,
};

static const unsigned char leaf[] = {
	0x55,             /* push %rbp */
	0x48, 0x89, 0xe5, /* mov %rsp, %rbp */
	0x83, 0x3f, 0x00, /* cmpl $0, (%rdi) */
	0x74, 0xfb,       /* je back to it */
	0xff, 0xd6,       /* call *%rsi */
	0x5d,             /* pop %rbp */
	0xc3,
};

static void (*code)(atomic_int *flag, void (*fn)(void));

void nap(void)
{
	struct timespec t = {.tv_nsec = NAP_MS * 1000000L};

	nanosleep(&t, NULL);
}

void request(atomic_int *flag)
{
	code(flag, nap);
	__asm__ volatile("");
}

static void *raise_flag(void *flag)
{
	nap();
	atomic_store((atomic_int *)flag, 1);
	return NULL;
}

static void make_code(void)
{
	char path[64];
	FILE *map;
	char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		exit(2);
	memcpy(at + RENDER_AT, render, sizeof(render));
	memcpy(at + LEAF_AT, leaf, sizeof(leaf));
	if (mprotect(at, 4096, PROT_READ | PROT_EXEC))
		exit(2);
	memcpy(&code, &at, sizeof(code));
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	map = fopen(path, "we");
	if (!map)
		exit(2);
	fprintf(map, "%lx %zx js::render\n%lx %zx js::leaf\n", (unsigned long)at + RENDER_AT,
		sizeof(render), (unsigned long)at + LEAF_AT, sizeof(leaf));
	fclose(map);
}

int main(void)
{
	pthread_t thread;

	make_code();
	wait_for_line("ready", 0);
	for (int i = 0; i < CALLS; i++) {
		atomic_int flag = 0;

		if (pthread_create(&thread, NULL, raise_flag, &flag))
			return 2;
		request(&flag);
		pthread_join(thread, NULL);
	}
	wait_for_line("done", 0);
	return 0;
}
