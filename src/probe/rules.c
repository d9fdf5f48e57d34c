/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/rules.h"

#include <bpf/bpf.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/clock.h"

enum { CODE_BYTES = 4096, ROUNDS = 15, CALLS = 20 };

/* Three functions of a file in memory, each a slot of 64 bytes; the second is probed at its nop. */
enum { PUSH_AT = 0, NOP_AT = 64, MOV_AT = 128 };

static const uint8_t push_code[] = {0x55, 0x5d, 0xc3};                        /* push; pop; ret */
static const uint8_t nop_code[] = {0x55, 0x0f, 0x1f, 0x40, 0x00, 0x5d, 0xc3}; /* push; nop; ... */
static const uint8_t mov_code[] = {0x48, 0x89, 0xf8, 0xc3};                   /* mov; ret */

struct bench {
	int fd;
	uint8_t *code;
};

static int bench_open(struct bench *ret)
{
	AUTO_CLOSE int fd = memfd_create("spanprof-probe-cost", MFD_CLOEXEC);
	uint8_t image[CODE_BYTES] = {0};
	void *at;

	memcpy(image + PUSH_AT, push_code, sizeof(push_code));
	memcpy(image + NOP_AT, nop_code, sizeof(nop_code));
	memcpy(image + MOV_AT, mov_code, sizeof(mov_code));
	if (fd < 0 || write(fd, image, sizeof(image)) != sizeof(image))
		return -1;
	at = mmap(NULL, CODE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED)
		return -1;
	ret->code = at;
	ret->fd = TAKE_FD(fd);
	return 0;
}

static void bench_close(struct bench *b)
{
	munmap(b->code, CODE_BYTES);
	close(b->fd);
}

/* Best of some rounds, ns per call of the function at `fn` with a probe at `site`; 0: no probe. */
static uint64_t bench_cost(const struct bench *b, const struct attach_source *source,
			   int program_fd, size_t fn, size_t site)
{
	struct attach_point at = {
		.file_fd = b->fd, .file_off = site, .pid = getpid(), .program_fd = program_fd};
	struct attachment attachment = ATTACHMENT_NONE;
	void (*call)(void);
	uint64_t best = UINT64_MAX;

	if (probe_attach(source, &at, &attachment, NULL) < 0)
		return 0;
	memcpy(&call, &(uint8_t *){b->code + fn}, sizeof(call));
	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint64_t start = clock_mono_ns(), took;

		for (unsigned int k = 0; k < CALLS; k++)
			call();
		took = (clock_mono_ns() - start) / CALLS;
		best = took < best ? took : best;
	}
	probe_detach(&attachment);
	return best;
}

/* A program that does nothing. */
static int load_empty_program(void)
{
	const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K}, /* r0 = 0 */
		{.code = BPF_JMP | BPF_EXIT},
	};

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, "probe_cost", "GPL", insns, ARRAY_SIZE(insns),
			     NULL);
}

void rules_measure_cost(const struct attach_source *source, int program_fd, struct rules_cost *ret)
{
	AUTO_CLOSE int own_fd = program_fd < 0 ? load_empty_program() : -1;
	struct bench b;

	*ret = (struct rules_cost){0};
	if (program_fd < 0)
		program_fd = own_fd;
	if (program_fd < 0 || bench_open(&b) < 0)
		return;
	ret->push_ns = bench_cost(&b, source, program_fd, PUSH_AT, PUSH_AT);
	ret->long_nop_ns = bench_cost(&b, source, program_fd, NOP_AT, NOP_AT + 1);
	ret->stepped_ns = bench_cost(&b, source, program_fd, MOV_AT, MOV_AT);
	bench_close(&b);
}

void rules_measure(const struct attach_source *source, int program_fd, struct site_rules *ret)
{
	struct rules_cost cost;

	rules_measure_cost(source, program_fd, &cost);
	/* An emulated nop costs what a push costs; a stepped one costs half as much again or more. */
	ret->long_nops = cost.push_ns && cost.long_nop_ns &&
			 cost.long_nop_ns < cost.push_ns + cost.push_ns / 2;
}
