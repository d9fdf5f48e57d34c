/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * returns.bpf.c: the walk through the calls that a uretprobe waits for; see returns.bpf.h.
 */
#include "kernel.h"

#include "returns.bpf.h"

#include "common.bpf.h"
#include "maps.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/*
 * Here once, not inlined: for each look at a pointer in a task the verifier searches all names of the
 * kernel's types, each time that it comes by.
 */
__noinline int returns_begin(struct returns *r)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!r)
		return 0;
	r->next = returns_pending(task);
	if (!r->next)
		return 0;
	r->trampoline = BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr);
	return 1;
}

__noinline __u64 returns_next(struct returns *r)
{
	struct return_instance *at;
	__u64 off, value = 0;

	if (!r)
		return ~0ULL;
	at = (struct return_instance *)r->next;
	off = BPF_CORE_READ(at, stack) - r->start;
	r->address = BPF_CORE_READ(at, orig_ret_vaddr);
	r->next = (__u64)BPF_CORE_READ(at, next);
	if (off >= r->bytes || r->bytes - off < sizeof(value) ||
	    bpf_probe_read_user(&value, sizeof(value), (void *)(r->start + off)) ||
	    value != r->trampoline)
		return ~0ULL;
	return off;
}

__noinline __u64 returns_find(__u64 slot, __u64 found)
{
	struct window w = {.start = slot, .bytes = sizeof(found)};
	__u64 address = found;

	returns_restore(&w, (__u8 *)&address, sizeof(address));
	return address;
}
