/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/walk_program.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { FDS_MAX = 1024 };

int walk_program_load(int map_fd)
{
	const struct bpf_insn insns[] = {
		{.code = 0xbf, .dst_reg = 6, .src_reg = 1},  /* r6 = ctx */
		{.code = 0x62, .dst_reg = 10, .off = -4},    /* *(u32 *)(fp - 4) = 0 */
		{.code = 0xbf, .dst_reg = 2, .src_reg = 10}, /* r2 = fp */
		{.code = 0x07, .dst_reg = 2, .imm = -4},     /* r2 -= 4 */
		{.code = 0x18, .dst_reg = 1, .src_reg = 1, .imm = map_fd},
		{}, /* r1 = map */
		{.code = 0x85, .imm = BPF_FUNC_map_lookup_elem},
		{.code = 0x15, .dst_reg = 0, .off = 5},     /* if !r0 goto end */
		{.code = 0xbf, .dst_reg = 1, .src_reg = 6}, /* r1 = ctx */
		{.code = 0xbf, .dst_reg = 2, .src_reg = 0}, /* r2 = buffer */
		{.code = 0xb7, .dst_reg = 3, .imm = WALK_STACK_BYTES},
		{.code = 0xb7, .dst_reg = 4, .imm = BPF_F_USER_STACK},
		{.code = 0x85, .imm = BPF_FUNC_get_stack},
		{.code = 0xb7},
		{.code = 0x95}, /* end: return 0 */
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_PERF_EVENT, "walk", "GPL", insns, ARRAY_SIZE(insns),
			       NULL);

	return fd < 0 ? -errno : fd;
}

int program_find(const char *name)
{
	for (int fd = 0; fd < FDS_MAX; fd++) {
		struct bpf_prog_info info = {};
		uint32_t bytes = sizeof(info);

		if (!bpf_obj_get_info_by_fd(fd, &info, &bytes) && !strcmp(info.name, name))
			return fcntl(fd, F_DUPFD_CLOEXEC, 0);
	}
	return -1;
}

struct run_time program_run_time(int prog_fd)
{
	struct bpf_prog_info info = {};
	uint32_t bytes = sizeof(info);

	if (bpf_obj_get_info_by_fd(prog_fd, &info, &bytes))
		return (struct run_time){};
	return (struct run_time){info.run_time_ns, info.run_cnt};
}
