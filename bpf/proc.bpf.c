/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * proc.bpf.c: processes that come, change and go: membership follows fork, exec and exit here, so
 * that no call is missed until user space hears of them.
 */
#include "kernel.h"

#include "common.bpf.h"
#include "maps.bpf.h"
#include "wire.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static __always_inline struct wire_proc *proc_begin(struct task_struct *task, __u32 kind)
{
	struct wire_proc *p = bpf_ringbuf_reserve(&ring, sizeof(*p), 0);

	if (!p) {
		count(WIRE_C_RING_FULL_PROC);
		return NULL;
	}
	__builtin_memset(p, 0, sizeof(*p));
	p->h.size = sizeof(*p);
	p->h.kind = kind;
	p->h.cpu = bpf_get_smp_processor_id();
	p->h.mono_ns = bpf_ktime_get_ns();
	p->h.tgid = task->tgid;
	p->h.tid = task->pid;
	bpf_probe_read_kernel_str(p->comm, sizeof(p->comm), task->comm);
	return p;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 tgid = parent->tgid, child_tgid = child->tgid;
	struct wire_member *m, copy;
	struct wire_proc *p;

	if (tgid == child_tgid)
		return 0;
	m = bpf_map_lookup_elem(&members, &tgid);
	if (!m || !(m->flags & WIRE_MEMBER_F_FOLLOW_FORK))
		return 0;
	copy = *m;
	copy.own_eps = 0;
	if (bpf_map_update_elem(&members, &child_tgid, &copy, BPF_ANY)) {
		count(WIRE_C_MEMBER_FULL);
		return 0;
	}
	p = proc_begin(parent, WIRE_K_FORK);
	if (!p)
		return 0;
	p->child_tgid = child_tgid;
	p->as_id = copy.as_id;
	p->instance_id = copy.instance_id;
	ring_submit(p, true);
	return 0;
}

/* The thread's state survives exec: what it knew of the old program is forgotten. */
static __always_inline void thread_exec(struct task_struct *task)
{
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);

	if (!t)
		return;
	thread_resume_clock(t);
	spans_close_all(t, WIRE_END_EXEC);
	t->member_gen = 0;
	t->tid = task->pid;
	t->reported_ret = 0;
	bpf_probe_read_kernel_str(t->comm, sizeof(t->comm), task->comm);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task, int old_pid)
{
	__u32 tgid = task->tgid;
	struct wire_member *m, *watch, now;
	struct wire_file_key file = {};
	struct wire_proc *p;

	thread_exec(task);
	file.ino = BPF_CORE_READ(task, mm, exe_file, f_inode, i_ino);
	file.dev = BPF_CORE_READ(task, mm, exe_file, f_inode, i_sb, s_dev);
	m = bpf_map_lookup_elem(&members, &tgid);
	watch = bpf_map_lookup_elem(&watched, &file);
	if (watch)
		now = *watch;
	else if (m)
		now = *m;
	else
		return 0;
	now.own_eps = 0;
	now.as_id = __sync_fetch_and_add(&last_as_id, 1);
	/* Another program is no member from its first instruction on; user space may make it one again. */
	if (!watch) {
		bpf_map_delete_elem(&members, &tgid);
	} else if (bpf_map_update_elem(&members, &tgid, &now, BPF_ANY)) {
		count(WIRE_C_MEMBER_FULL);
		return 0;
	}
	p = proc_begin(task, WIRE_K_EXEC);
	if (!p)
		return 0;
	p->as_id = now.as_id;
	p->instance_id = now.instance_id;
	p->exe_dev = file.dev;
	p->exe_ino = file.ino;
	ring_submit(p, true);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *task)
{
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);
	struct signal_struct *signal = task->signal;
	bool is_dead = signal->live.counter == 0;
	bool is_killed = signal->flags & SIGNAL_GROUP_EXIT;
	__u32 tgid = task->tgid;
	struct wire_member *m;
	struct wire_proc *p;
	__u32 instance_id, as_id;

	if (t && t->depth) {
		thread_resume_clock(t);
		spans_close_all(t, is_dead || is_killed ? WIRE_END_PROCESS_EXIT
							: WIRE_END_THREAD_EXIT);
	}
	if (!is_dead)
		return 0;
	m = bpf_map_lookup_elem(&members, &tgid);
	if (!m)
		return 0;
	instance_id = m->instance_id;
	as_id = m->as_id;
	bpf_map_delete_elem(&members, &tgid);
	p = proc_begin(task, WIRE_K_EXIT);
	if (!p)
		return 0;
	p->instance_id = instance_id;
	p->as_id = as_id;
	p->exit_code = is_killed ? signal->group_exit_code : task->exit_code;
	ring_submit(p, true);
	return 0;
}
