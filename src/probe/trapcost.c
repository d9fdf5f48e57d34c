/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/trapcost.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "probe/detach.h"
#include "probe/trial.h"

enum { ROUNDS = 31, LINE = 64, DATA_BYTES = 1 << 20, CODE_BYTES = 512 << 10 };

/* Our programs and the trap, to the trap alone: 1.5 to 1.7 were measured in servers; a fifth more to be sure. */
enum { WITH_PROGRAM_TENTHS = 20 };

enum { SLOW_NS = 4000, SLOW_DEAR_NS = 16000, LEAST_NS = 200 };

/* What else a program does: data that is written, code that is run. */
struct chiller {
	uint8_t *data;
	uint8_t *code;
	int code_fd;
};

static void chiller_close(struct chiller *c)
{
	if (c->data)
		munmap(c->data, DATA_BYTES);
	if (c->code)
		munmap(c->code, CODE_BYTES);
	if (c->code_fd >= 0)
		close(c->code_fd);
}

/* A chain of jumps, one in each line, with a return at its end. */
static int write_code(int fd)
{
	static const uint8_t jump[LINE] = {0xeb, LINE - 2}, ret[LINE] = {0xc3};

	for (size_t off = 0; off < CODE_BYTES; off += LINE)
		if (write(fd, off + LINE < CODE_BYTES ? jump : ret, LINE) != LINE)
			return -1;
	return 0;
}

static int chiller_open(struct chiller *c)
{
	void *data =
		mmap(NULL, DATA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *code = MAP_FAILED;

	*c = (struct chiller){.code_fd = memfd_create("spanprof-cold-code", MFD_CLOEXEC)};
	if (c->code_fd >= 0 && !write_code(c->code_fd))
		code = mmap(NULL, CODE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, c->code_fd, 0);
	c->data = data == MAP_FAILED ? NULL : data;
	c->code = code == MAP_FAILED ? NULL : code;
	return c->data && c->code ? 0 : -1;
}

static void chill(const struct chiller *c)
{
	const struct trial code = {.code = c->code};

	for (size_t i = 0; i < DATA_BYTES / LINE; i++)
		((volatile uint8_t *)c->data)[i * 7 % (DATA_BYTES / LINE) * LINE]++;
	trial_call(&code, 0);
}

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Of one call of the function: the median. */
static uint64_t cold_call_ns(const struct chiller *c, const struct trial *t, size_t fn)
{
	uint64_t ns[ROUNDS];

	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint64_t start;

		chill(c);
		start = clock_mono_ns();
		trial_call(t, fn);
		ns[i] = clock_mono_ns() - start;
	}
	qsort(ns, ROUNDS, sizeof(ns[0]), by_size);
	return ns[ROUNDS / 2];
}

/* 0: it could not be measured. */
static uint64_t trap_ns(const struct chiller *c, const struct trial *t,
			const struct attach_source *source, size_t fn)
{
	AUTO_CLOSE int program_fd = trial_program(source, -1);
	struct attach_point at = {
		.file_fd = t->fd, .file_off = fn, .pid = getpid(), .program_fd = program_fd};
	struct attachment attachment = ATTACHMENT_NONE;
	uint64_t without_ns = cold_call_ns(c, t, fn), with_ns;

	if (program_fd < 0 || probe_attach(source, &at, &attachment, NULL) < 0)
		return 0;
	with_ns = cold_call_ns(c, t, fn);
	probe_detach_later(&attachment, 1);
	return with_ns > without_ns ? with_ns - without_ns : 0;
}

void trapcost_measure(const struct attach_source *source, struct trapcost *ret)
{
	CLEANUP(chiller_close) struct chiller c;
	struct trial t;
	uint64_t push_ns, mov_ns;

	*ret = (struct trapcost){.hit_ns = SLOW_NS, .dear_ns = SLOW_DEAR_NS};
	if (chiller_open(&c) < 0 || trial_open(&t) < 0)
		return;
	push_ns = trap_ns(&c, &t, source, TRIAL_PUSH_AT);
	mov_ns = trap_ns(&c, &t, source, TRIAL_MOV_AT);
	trial_close(&t);
	if (push_ns < LEAST_NS || mov_ns < LEAST_NS)
		return;
	ret->hit_ns = push_ns * WITH_PROGRAM_TENTHS / 10;
	ret->dear_ns = mov_ns * WITH_PROGRAM_TENTHS / 10;
	if (ret->dear_ns < ret->hit_ns)
		ret->dear_ns = ret->hit_ns;
}
