/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/multi.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

enum { MULTI_RETURN = 1 }; /* BPF_F_UPROBE_MULTI_RETURN */

/* union bpf_attr, link_create.uprobe_multi: include/uapi/linux/bpf.h of Linux 6.6. */
struct multi_attr {
	uint32_t prog_fd;
	uint32_t target_fd;
	uint32_t attach_type;
	uint32_t flags;
	uint64_t path;
	uint64_t offsets;
	uint64_t ref_ctr_offsets;
	uint64_t cookies;
	uint32_t n;
	uint32_t multi_flags;
	uint32_t pid;
	uint32_t pad[15]; /* the kernel takes a longer one when the rest is zero */
};

static int create_link(struct multi_attr *attr)
{
	int fd = (int)syscall(SYS_bpf, BPF_LINK_CREATE, attr, sizeof(*attr));

	return fd < 0 ? -errno : fd;
}

/* In the path's buffer, which the attributes point to. */
static void name_file(struct multi_attr *attr, char *path, size_t n, int file_fd)
{
	snprintf(path, n, "/proc/self/fd/%d", file_fd);
	attr->path = (uintptr_t)path;
}

int multi_attach(const struct attach_point *at)
{
	char path[32];
	struct multi_attr attr = {
		.prog_fd = (uint32_t)at->program_fd,
		.attach_type = MULTI_ATTACH_TYPE,
		.offsets = (uintptr_t)&at->file_off,
		.ref_ctr_offsets = at->semaphore_off ? (uintptr_t)&at->semaphore_off : 0,
		.cookies = (uintptr_t)&at->cookie,
		.n = 1,
		.multi_flags = at->retprobe ? MULTI_RETURN : 0,
		.pid = at->pid > 0 ? (uint32_t)at->pid : 0,
	};

	name_file(&attr, path, sizeof(path), at->file_fd);
	return create_link(&attr);
}

int multi_attach_batch(const struct attach_batch *batch)
{
	char path[32];
	struct multi_attr attr = {
		.prog_fd = (uint32_t)batch->program_fd,
		.attach_type = MULTI_ATTACH_TYPE,
		.offsets = (uintptr_t)batch->file_offs,
		.cookies = (uintptr_t)batch->cookies,
		.n = (uint32_t)batch->n,
		.pid = batch->pid > 0 ? (uint32_t)batch->pid : 0,
	};

	name_file(&attr, path, sizeof(path), batch->file_fd);
	return create_link(&attr);
}

/* No code is at offset 1, so nothing is probed even where it is allowed. */
static bool may_use_perf(void)
{
	static const char self[] = "/proc/self/exe";
	struct perf_event_attr attr = {.size = sizeof(attr)};
	AUTO_FREE char *type = NULL;
	AUTO_CLOSE int fd = -1;
	size_t n;

	if (read_file(AT_FDCWD, "/sys/bus/event_source/devices/uprobe/type", 64, &type, &n))
		return true; /* there are none at all: told by who needs them */
	attr.type = (uint32_t)strtoul(type, NULL, 10);
	attr.config1 = (uintptr_t)self; /* uprobe_path */
	attr.config2 = 1;               /* probe_offset */
	fd = (int)syscall(SYS_perf_event_open, &attr, getpid(), -1, -1, PERF_FLAG_FD_CLOEXEC);
	return fd >= 0 || (errno != EACCES && errno != EPERM);
}

/* A folder is no file to probe: EBADF comes from a kernel that has looked that far. */
bool multi_is_there(void)
{
	const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	const uint64_t offset = 0;
	struct multi_attr attr = {.attach_type = MULTI_ATTACH_TYPE,
				  .path = (uintptr_t) "/",
				  .offsets = (uintptr_t)&offset,
				  .n = 1};
	LIBBPF_OPTS(bpf_prog_load_opts, opts,
		    .expected_attach_type = (enum bpf_attach_type)MULTI_ATTACH_TYPE);
	AUTO_CLOSE int program =
		bpf_prog_load(BPF_PROG_TYPE_KPROBE, NULL, "GPL", insns, ARRAY_SIZE(insns), &opts);

	if (program < 0)
		return false;
	attr.prog_fd = (uint32_t)program;
	return create_link(&attr) == -EBADF;
}

bool multi_is_any_allowed(void)
{
	return may_use_perf() || multi_is_there();
}
