/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * watch.bpf.c: tells a daemon at once of processes that may be its business: an object of its own, loaded
 * while the daemon lives.
 *
 * A busy host starts hundreds of programs a second that are nobody's business. Those are left out here
 * whose file no rule can match and whose environment has none of the variables that rules ask for. What
 * is left is limited: user space hears of so many a second, and that there were more (n_unsent), upon
 * which it looks at /proc.
 */
#include "kernel.h"

#include "watch.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Written by user space before the load. */
const volatile __u64 knob_interval_ns = 0; /* between two events in the long run */
const volatile __u64 knob_burst_ns = 0;    /* events may be ahead of that by this much */

__u32 rules_gen = 1; /* written by user space: what was ruled out before is worth nothing */
__u32 no_filter = 1; /* written by user space: rules may match any process */
struct watch_env wanted[WATCH_ENV_MAX] = {}; /* as well */
__u64 n_unsent = 0;                          /* written here, read by user space */
__u64 allowed_ns = 0; /* when an event would be on time; a lost update lets one more through */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16384);
} found SEC(".maps");

/* Executables that no rule matches -> rules_gen: written by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct watch_file);
	__type(value, __u32);
} ruled_out SEC(".maps");

/* Processes that match: written by user space, at fork and exit. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, __u32);
} followed SEC(".maps");

#define STRINGS_MAX 4096 /* of an environment; one with more is for user space to look at */

struct search {
	__u64 at, end;
	__u32 inside; /* of a long string */
	__u32 found;
};

static long look_at_string(__u32 i, void *ctx)
{
	struct search *s = ctx;
	union {
		char text[128];
		__u64 first;
	} u;
	long n;

	if (s->at >= s->end)
		return 1;
	u.first = 0;
	n = bpf_probe_read_user_str(u.text, sizeof(u.text), (void *)s->at);
	if (n <= 0) {
		s->found = 1; /* cannot tell */
		return 1;
	}
	for (__u32 k = 0; !s->inside && k < WATCH_ENV_MAX; k++) {
		if (wanted[k].mask && (u.first & wanted[k].mask) == wanted[k].first)
			s->found = 1;
	}
	s->inside = n == sizeof(u.text);
	s->at += s->inside ? n - 1 : n;
	return s->found ? 1 : 0;
}

/* Whether the program that has just begun may have a variable that a rule asks for. */
static __always_inline bool may_match_by_env(struct task_struct *task)
{
	struct search s = {};

	if (!wanted[0].mask)
		return false;
	s.at = BPF_CORE_READ(task, mm, env_start);
	s.end = BPF_CORE_READ(task, mm, env_end);
	bpf_loop(STRINGS_MAX, look_at_string, &s, 0);
	return s.found || s.at < s.end;
}

static __always_inline bool is_followed(__u32 tgid)
{
	return bpf_map_lookup_elem(&followed, &tgid);
}

/* Whether one more is within the limit. */
static __always_inline bool may_send(void)
{
	__u64 now = bpf_ktime_get_ns(), at = *(volatile __u64 *)&allowed_ns;

	if (at < now)
		at = now;
	if (at - now > knob_burst_ns) {
		__sync_fetch_and_add(&n_unsent, 1);
		return false;
	}
	*(volatile __u64 *)&allowed_ns = at + knob_interval_ns;
	return true;
}

static __always_inline struct watch_event *event_begin(__u32 kind, __u32 tgid)
{
	struct watch_event *e = bpf_ringbuf_reserve(&found, sizeof(*e), 0);

	if (!e) {
		__sync_fetch_and_add(&n_unsent, 1);
		return NULL;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->kind = kind;
	e->tgid = tgid;
	return e;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(watch_exec, struct task_struct *task)
{
	struct watch_file file = {};
	struct watch_event *e;
	__u32 *gen;

	file.ino = BPF_CORE_READ(task, mm, exe_file, f_inode, i_ino);
	file.dev = BPF_CORE_READ(task, mm, exe_file, f_inode, i_sb, s_dev);
	file.generation = BPF_CORE_READ(task, mm, exe_file, f_inode, i_generation);
	gen = bpf_map_lookup_elem(&ruled_out, &file);
	if (gen && *gen == rules_gen && !no_filter && !is_followed(task->tgid) &&
	    !may_match_by_env(task))
		return 0;
	if (!may_send())
		return 0;
	e = event_begin(WATCH_EXEC, task->tgid);
	if (!e)
		return 0;
	e->file = file;
	bpf_ringbuf_submit(e, 0);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(watch_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 tgid = parent->tgid, child_tgid = child->tgid, one = 1;
	struct watch_event *e;

	if (tgid == child_tgid || !is_followed(tgid) || !may_send())
		return 0;
	e = event_begin(WATCH_FORK, tgid);
	if (!e)
		return 0;
	e->child = child_tgid;
	bpf_map_update_elem(&followed, &child_tgid, &one, BPF_ANY);
	bpf_ringbuf_submit(e, 0);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(watch_exit, struct task_struct *task)
{
	struct signal_struct *signal = task->signal;
	__u32 tgid = task->tgid;
	struct watch_event *e;

	/* Not limited: each was let through when it came. */
	if (signal->live.counter || bpf_map_delete_elem(&followed, &tgid))
		return 0;
	e = event_begin(WATCH_EXIT, tgid);
	if (e)
		bpf_ringbuf_submit(e, 0);
	return 0;
}
