/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * kernel.h: the few kernel types and fields that the programs read.
 *
 * Kept by hand, so that the build does not depend on any kernel's BTF: field offsets are relocated
 * against the running kernel when the programs are loaded. Only names and types of the fields
 * matter here, not their order. Invariant: no field that a supported kernel (6.1 and later) lacks.
 */
#ifndef SPANPROF_KERNEL_H
#define SPANPROF_KERNEL_H

/* clang-format off */
#include <stdbool.h>
#include <linux/bpf.h> /* first: the others use its types */
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
/* clang-format on */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long r15;
	unsigned long r14;
	unsigned long r13;
	unsigned long r12;
	unsigned long bp;
	unsigned long bx;
	unsigned long r11;
	unsigned long r10;
	unsigned long r9;
	unsigned long r8;
	unsigned long ax;
	unsigned long cx;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned short cs;
	unsigned long flags;
	unsigned long sp;
};

typedef struct {
	int counter;
} atomic_t;

struct super_block {
	unsigned long s_magic;
	__u32 s_dev;
};

struct inode {
	unsigned long i_ino;
	__u32 i_generation;
	struct super_block *i_sb;
};

struct file {
	struct inode *f_inode;
};

struct xol_area {
	unsigned long
		vaddr; /* of the page for stepped instructions and the uretprobes' trampoline */
};

/* A call that a uretprobe waits for. */
struct return_instance {
	unsigned long stack; /* where its return address was */
	unsigned long orig_ret_vaddr;
	struct return_instance *next;
};

/* Of a thread that has met a probe: the place of the last one, and of the copy that it steps in. */
struct uprobe_task {
	unsigned long vaddr;
	unsigned long xol_vaddr;
	struct return_instance *return_instances;
};

struct uprobes_state {
	struct xol_area *xol_area;
};

struct vm_userfaultfd_ctx { /* without CONFIG_USERFAULTFD it is empty */
	void *ctx;
};

struct vm_area_struct {
	struct file *vm_file;
	struct vm_userfaultfd_ctx vm_userfaultfd_ctx;
};

struct mm_struct {
	struct file *exe_file;
	unsigned long env_start;
	unsigned long env_end;
	struct uprobes_state uprobes_state;
};

struct signal_struct {
	atomic_t live;
	unsigned int flags;
	int group_exit_code;
};

/* The scheduler's own clock of a CPU, read when it last looked. */
struct rq {
	__u64 clock;
};

struct cfs_rq {
	struct rq *rq;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

/* Only where the kernel keeps it (CONFIG_SCHED_INFO), by the clock above. */
struct sched_info {
	unsigned long long last_arrival; /* on a CPU */
};

struct task_struct {
	int pid;
	int tgid;
	int exit_code;
	void *stack;
	unsigned int in_iowait : 1;
	char comm[16];
	struct mm_struct *mm;
	struct signal_struct *signal;
	struct bpf_local_storage *bpf_storage;
	struct uprobe_task *utask;
	struct sched_entity se;
	struct sched_info sched_info;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

/* Context of perf_event programs: the user ABI's pt_regs (asm/ptrace.h), not relocated. */
struct bpf_perf_event_data {
	unsigned long r15;
	unsigned long r14;
	unsigned long r13;
	unsigned long r12;
	unsigned long bp;
	unsigned long bx;
	unsigned long r11;
	unsigned long r10;
	unsigned long r9;
	unsigned long r8;
	unsigned long ax;
	unsigned long cx;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned long cs;
	unsigned long flags;
	unsigned long sp;
	unsigned long ss;
};

/* include/linux/sched/signal.h */
#define SIGNAL_GROUP_EXIT 0x00000004

#endif
