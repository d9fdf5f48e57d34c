/* SPDX-License-Identifier: Apache-2.0 */
/*
 * values: a function whose arguments lead to values of every kind that a name may be made of.
 *
 *   values COUNT
 *
 * Prints "ready", waits for a line, calls serve() and the others with two requests in turn, each call
 * for some milliseconds, prints "done", waits for the end of input.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "stage.h"

#define CLONE __attribute__((noinline)) /* and the compiler may drop a parameter */

enum { CALL_NS = 4000000 };

struct slice {
	const char *data;
	uint32_t length;
};

struct request {
	uint8_t u8;
	uint16_t u16;
	uint32_t u32;
	uint64_t u64;
	int8_t s8;
	int16_t s16;
	int32_t s32;
	int64_t s64;
	const char *method;
	struct slice uri;
	const char *start, *end;
	char peer[16];
	struct request **others;
	unsigned char raw[16];
};

static struct request requests[2];
static struct request *all_requests[] = {&requests[0], &requests[1]};
struct request *current_request;
const char *site_name = "shop";
static long n_bad;

static void expect(int is_true)
{
	n_bad += !is_true;
}

static long nap(long n)
{
	struct timespec left = {.tv_nsec = CALL_NS};

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
	return n;
}

FRAME long serve(struct request *r, const char *text, size_t bytes, long number, long five,
		 long six, const char *seventh);
FRAME long serve(struct request *r, const char *text, size_t bytes, long number, long five,
		 long six, const char *seventh)
{
	return nap(number) + five + six + (long)bytes + (seventh[0] == text[0]) + r->s8;
}

/* The first parameter has no use: the compiler may pass the others in other registers. */
static CLONE long hidden(long unused, struct request *r, const char *text)
{
	(void)unused;
	return nap(r->s32) + text[0];
}

/* The caller's buffer is filled in by the call. */
FRAME long fill(char *buffer, size_t size, size_t *ret_bytes);
FRAME long fill(char *buffer, size_t size, size_t *ret_bytes)
{
	int n = snprintf(buffer, size, "filled by %s", current_request->method);

	*ret_bytes = (size_t)n;
	nap(0);
	return n;
}

/* A pointer that leads nowhere. */
FRAME long wild(const struct request *nowhere);
FRAME long wild(const struct request *nowhere)
{
	return nap(nowhere != NULL);
}

static void make_requests(void)
{
	static const char buffer[] = "GET /index.html?x=1 rest";

	requests[0] = (struct request){.u8 = 200,
				       .u16 = 60000,
				       .u32 = 4000000000U,
				       .u64 = 1ULL << 63,
				       .s8 = -1,
				       .s16 = -300,
				       .s32 = -70000,
				       .s64 = -5000000000L,
				       .method = "GET",
				       .uri = {buffer + 4, 15},
				       .start = buffer + 4,
				       .end = buffer + 15,
				       .peer = "10.0.0.1",
				       .others = all_requests};
	requests[1] = (struct request){.u8 = 7,
				       .u16 = 8,
				       .u32 = 9,
				       .u64 = 10,
				       .s8 = 11,
				       .s16 = 12,
				       .s32 = 13,
				       .s64 = 14,
				       .method = "POST",
				       .uri = {"/login", 6},
				       .start = buffer + 4,
				       .end = buffer + 10,
				       .peer = "10.0.0.2",
				       .others = all_requests};
	for (size_t i = 0; i < sizeof(requests[0].raw); i++)
		requests[0].raw[i] = requests[1].raw[i] = (unsigned char)(i % 7 + 1);
}

static void play(long count)
{
	char buffer[64];
	size_t bytes;

	make_requests();
	for (long i = 0; i < count; i++) {
		struct request *r = &requests[i % 2];
		const char *text = i % 2 ? "second text" : "First Text";

		current_request = r;
		expect(serve(r, text, 5, 3 + 256 * (i % 2), 50, 6, "seventh") ==
		       3 + 256 * (i % 2) + 50 + 6 + 5 + (i % 2) + r->s8);
		expect(hidden(i, r, text) == r->s32 + text[0]);
		expect(fill(buffer, sizeof(buffer), &bytes) == (long)bytes);
		expect(wild((const struct request *)(i % 2 ? 0xdead000000000000
							   : 0x7ffffffff000)) == 1);
	}
}

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 2;

	wait_for_line("ready", n_bad != 0);
	play(count);
	wait_for_line("done", n_bad != 0);
	return n_bad ? 1 : 0;
}
