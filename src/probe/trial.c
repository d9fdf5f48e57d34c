/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/trial.h"

#include <bpf/bpf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "probe/multi.h"

enum { CODE_BYTES = 4096 };

static const uint8_t push_code[] = {0x55, 0x5d, 0xc3};                        /* push; pop; ret */
static const uint8_t nop_code[] = {0x55, 0x0f, 0x1f, 0x40, 0x00, 0x5d, 0xc3}; /* push; nop; ... */
static const uint8_t mov_code[] = {0x48, 0x89, 0xf8, 0xc3};                   /* mov; ret */

int trial_open(struct trial *ret)
{
	AUTO_CLOSE int fd = memfd_create("spanprof-probe-cost", MFD_CLOEXEC);
	uint8_t image[CODE_BYTES] = {0};
	void *at;

	memcpy(image + TRIAL_PUSH_AT, push_code, sizeof(push_code));
	memcpy(image + TRIAL_NOP_AT, nop_code, sizeof(nop_code));
	memcpy(image + TRIAL_MOV_AT, mov_code, sizeof(mov_code));
	if (fd < 0 || write(fd, image, sizeof(image)) != sizeof(image))
		return -1;
	at = mmap(NULL, CODE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED)
		return -1;
	ret->code = at;
	ret->fd = TAKE_FD(fd);
	return 0;
}

void trial_close(struct trial *t)
{
	munmap(t->code, CODE_BYTES);
	close(t->fd);
}

void trial_call(const struct trial *t, size_t at)
{
	void (*call)(void);

	memcpy(&call, &(uint8_t *){t->code + at}, sizeof(call));
	call();
}

int trial_program(const struct attach_source *source, int map_fd)
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
