/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/rules.h"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "probe/detach.h"
#include "probe/multi.h"

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

typedef void (*bench_fn)(void);

static bench_fn function_at(const struct bench *b, size_t fn)
{
	bench_fn call;

	memcpy(&call, &(uint8_t *){b->code + fn}, sizeof(call));
	return call;
}

/* Best of some rounds, ns per call of the function at `fn` with a probe at `site`; 0: no probe. */
static uint64_t bench_cost(const struct bench *b, const struct attach_source *source,
			   int program_fd, size_t fn, size_t site)
{
	struct attach_point at = {
		.file_fd = b->fd, .file_off = site, .pid = getpid(), .program_fd = program_fd};
	struct attachment attachment = ATTACHMENT_NONE;
	bench_fn call = function_at(b, fn);
	uint64_t best = UINT64_MAX;

	if (probe_attach(source, &at, &attachment, NULL) < 0)
		return 0;
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

/* A program that counts its calls in the first element of an array, or with map_fd -1 does nothing. */
static int load_program(const struct attach_source *source, int map_fd)
{
	const struct bpf_insn count[] = {
		{.code = BPF_LD | BPF_DW, /* and BPF_IMM, which is 0: r1 = &array[0] */
		 .dst_reg = BPF_REG_1,
		 .src_reg = BPF_PSEUDO_MAP_VALUE,
		 .imm = map_fd},
		{.imm = 0},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_2, .imm = 1},
		{.code = BPF_STX | BPF_ATOMIC | BPF_DW, /* *r1 += r2 */
		 .dst_reg = BPF_REG_1,
		 .src_reg = BPF_REG_2,
		 .imm = BPF_ADD},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K}, /* r0 = 0 */
		{.code = BPF_JMP | BPF_EXIT},
	};
	const size_t from = map_fd < 0 ? 4 : 0;
	LIBBPF_OPTS(bpf_prog_load_opts, opts,
		    .expected_attach_type =
			    source->multi ? (enum bpf_attach_type)MULTI_ATTACH_TYPE : 0);

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, "probe_trial", "GPL", count + from,
			     ARRAY_SIZE(count) - from, &opts);
}

void rules_measure_cost(const struct attach_source *source, struct rules_cost *ret)
{
	AUTO_CLOSE int program_fd = load_program(source, -1);
	struct bench b;

	*ret = (struct rules_cost){0};
	if (program_fd < 0 || bench_open(&b) < 0)
		return;
	ret->push_ns = bench_cost(&b, source, program_fd, PUSH_AT, PUSH_AT);
	ret->long_nop_ns = bench_cost(&b, source, program_fd, NOP_AT, NOP_AT + 1);
	ret->stepped_ns = bench_cost(&b, source, program_fd, MOV_AT, MOV_AT);
	bench_close(&b);
}

/* The page of code in which the kernel steps over instructions: made at the first one, then kept. */
static bool has_step_page(void)
{
	AUTO_FREE char *maps = NULL;
	size_t bytes;

	return read_file(AT_FDCWD, "/proc/self/maps", 4 << 20, &maps, &bytes) == 0 &&
	       strstr(maps, "[uprobes]\n");
}

/* An emulated nop costs what a push costs; a stepped one costs half as much again or more. */
static bool is_cheap_nop(const struct attach_source *source)
{
	struct rules_cost cost;

	rules_measure_cost(source, &cost);
	return cost.push_ns && cost.long_nop_ns &&
	       cost.long_nop_ns < cost.push_ns + cost.push_ns / 2;
}

static void *call_nop(void *b)
{
	function_at(b, NOP_AT)();
	return NULL;
}

/* From another thread than the first, when there can be one. */
static void call_aside(struct bench *b)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, call_nop, b) != 0)
		call_nop(b);
	else
		pthread_join(thread, NULL);
}

/* Whether the call of a probed long nop was seen; if so, whether the kernel emulated it. */
static bool try_nop(const struct attach_source *source, struct bench *b, bool *ret_emulated)
{
	AUTO_CLOSE int map_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "probe_trial", 4, 8, 1, NULL);
	AUTO_CLOSE int program_fd = map_fd < 0 ? -1 : load_program(source, map_fd);
	struct attach_point at = {.file_fd = b->fd,
				  .file_off = NOP_AT + 1,
				  .pid = getpid(),
				  .program_fd = program_fd};
	struct attachment attachment = ATTACHMENT_NONE;
	bool had_page = has_step_page();
	uint64_t n_calls = 0;
	uint32_t zero = 0;

	if (program_fd < 0 || probe_attach(source, &at, &attachment, NULL) < 0)
		return false;
	call_aside(b);
	probe_detach_later(&attachment, 1);
	if (bpf_map_lookup_elem(map_fd, &zero, &n_calls) < 0 || n_calls != 1)
		return false;
	*ret_emulated = had_page ? is_cheap_nop(source) : !has_step_page();
	return true;
}

void rules_measure(struct attach_source *source, struct site_rules *ret)
{
	struct bench b;
	bool is_seen;

	*ret = (struct site_rules){0};
	if (bench_open(&b) < 0)
		return;
	is_seen = try_nop(source, &b, &ret->long_nops);
	if (!is_seen && source->multi && source->type) {
		source->multi = false;
		try_nop(source, &b, &ret->long_nops);
	}
	bench_close(&b);
}
