/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * span.bpf.c: the function probes: enter, and the three ways in which the end of a call is seen.
 *
 * A fast call costs an update of its endpoint's histogram and nothing else; these programs send
 * nothing but unknown call sites. Invariant: a thread's state is made here and nowhere else.
 */
#include "kernel.h"

#include "common.bpf.h"
#include "maps.bpf.h"
#include "name.bpf.h"
#include "returns.bpf.h"
#include "window.bpf.h"
#include "wire.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define REPORT_AGAIN_NS 200000000ULL

/* Reads the membership; makes the state of a thread of a member, or more room for its windows. NULL: not ours. */
static __noinline struct thread *thread_refresh(struct task_struct *task, struct thread *t)
{
	__u32 gen = *(volatile __u32 *)&members_gen;
	__u32 tgid = task->tgid;
	struct wire_member *m = bpf_map_lookup_elem(&members, &tgid);
	__u32 room;

	if (!m) {
		if (t) {
			t->is_member = 0;
			t->member_gen = gen;
		}
		return NULL;
	}
	if (!t) {
		t = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!t) {
			count(WIRE_C_NO_STORAGE);
			return NULL;
		}
		t->tid = task->pid;
		t->tgid = tgid;
		bpf_probe_read_kernel_str(t->comm, sizeof(t->comm), task->comm);
		window_storage(task, BPF_LOCAL_STORAGE_GET_F_CREATE, &room);
	}
	if (t->window == THREAD_WINDOW_TOO_SMALL)
		window_enlarge(task, t);
	t->is_member = 1;
	t->instance_id = m->instance_id;
	t->as_id = m->as_id;
	t->own_eps = m->own_eps;
	t->known_ret = 0;
	t->gate_gen = 0;
	t->member_gen = gen;
	return t;
}

static __always_inline struct thread *thread_enter(struct task_struct *task)
{
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);

	if (t && t->member_gen == *(volatile __u32 *)&members_gen)
		return t->is_member ? t : NULL;
	return thread_refresh(task, t);
}

/*
 * A process that has probes of its own is seen by those, all others by the probes for every process. The
 * kernel may run one process's own probes for a child that shares its memory, too (perf events do).
 */
static __always_inline bool is_others(const struct thread *t, __u64 cookie)
{
	bool has_own = t->own_eps >> (WIRE_COOKIE_EP(cookie) & 63) & 1;

	return has_own == !!(cookie & WIRE_COOKIE_F_WIDE);
}

/* At the head of each program: what the hit costs its thread does not depend on what comes of it. */
static __always_inline void hit_count(struct pt_regs *ctx)
{
	if (!knob_count_hits)
		return;
	count(WIRE_C_PROBE_HIT);
	if (bpf_get_attach_cookie(ctx) & WIRE_COOKIE_F_DEAR)
		count(WIRE_C_PROBE_HIT_DEAR);
}

/* Tells user space of a call site, again only when it has had time to place a probe. */
static __noinline int site_report(struct thread *t, __u32 ep_id, __u64 ret_addr, __u64 entry_ip)
{
	struct wire_site_key key = {};
	struct wire_retsite *r;
	__u64 now = bpf_ktime_get_ns();
	__u32 reported = WIRE_SITE_REPORTED | (__u32)(now >> 24) << 8;

	if (t->reported_ret == ret_addr && now - t->reported_ns < REPORT_AGAIN_NS)
		return 0;
	t->reported_ret = ret_addr;
	t->reported_ns = now;
	r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);
	if (!r) {
		t->reported_ret = 0;
		count(WIRE_C_RING_FULL_RETSITE);
		return 0;
	}
	key.ret_addr = ret_addr;
	key.as_id = t->as_id;
	bpf_map_update_elem(&return_sites, &key, &reported, BPF_ANY);
	header_fill(&r->h, t, WIRE_K_RETSITE, sizeof(*r), now);
	r->ret_addr = ret_addr;
	r->entry_ip = entry_ip;
	r->ep_id = ep_id;
	r->as_id = t->as_id;
	count(WIRE_C_RETSITE_NEW);
	ring_submit(r, true);
	return 0;
}

/* True when the end of a call from this site will be seen. */
static __always_inline bool site_known(struct thread *t, __u32 ep_id, __u64 ret_addr,
				       __u64 entry_ip)
{
	struct wire_site_key key = {};
	__u32 *state;

	if (t->known_ret == ret_addr)
		return true;
	key.ret_addr = ret_addr;
	key.as_id = t->as_id;
	state = bpf_map_lookup_elem(&return_sites, &key);
	if (state && *state == WIRE_SITE_ATTACHED) {
		t->known_ret = ret_addr;
		return true;
	}
	if (state && *state == WIRE_SITE_HOPELESS)
		return false;
	/* Reported a while ago, by whichever thread: once more, in case it got lost. */
	if (!state || (__u8)((__u8)(bpf_ktime_get_ns() >> 24) - (__u8)(*state >> 8)) > 12)
		site_report(t, ep_id, ret_addr, entry_ip);
	return false;
}

/* What is known of a call when it begins. */
struct call {
	__u64 sp;
	__u64 entry_ip;
	__u64 ret_addr;
	__u32 ep_id;
	__u32 flags; /* enum span_flag */
};

/* Fills the slot first and lets depth cover it last. */
static __always_inline void span_push(struct thread *t, __u32 slot, const struct call *call)
{
	struct span *s = &t->spans[slot];

	if (!slot) {
		t->waited_ns = 0;
		t->wall_ns = bpf_ktime_get_ns();
		s->start_ns = t->wall_ns;
		s->start = t->wall;
	} else {
		s->start_ns = wall_now(t, &s->start);
	}
	s->entry_sp = call->sp;
	s->ret_addr = call->ret_addr;
	s->entry_ip = call->entry_ip;
	s->ep_id = call->ep_id;
	s->flags = call->flags;
	s->sample_after_ns = t->gate_after_ns;
	s->threshold_ns = t->gate_threshold_ns;
	s->gate_gen = t->gate_gen;
	s->n_due = 0;
	s->n_lost = 0;
	t->open_eps |= 1ULL << (call->ep_id & 63);
	t->n_pushed++;
	barrier();
	*(volatile __u64 *)&s->tag = t->n_pushed << 8 | SPAN_PENDING;
	barrier();
	if (slot + 1 > t->depth)
		*(volatile __u32 *)&t->depth = slot + 1;
}

/* The span's flags for an endpoint, and whether its return site is known. */
static __always_inline __u32 call_flags(struct thread *t, const struct call *call, __u32 ep_flags)
{
	__u32 flags = 0;

	if (ep_flags & WIRE_EP_F_END_PROBE)
		flags |= SPAN_F_BY_END;
	else if (ep_flags & WIRE_EP_F_URETPROBE)
		flags |= SPAN_F_URET;
	else if (!(ep_flags & WIRE_EP_F_RET_SITES) &&
		 !site_known(t, call->ep_id, call->ret_addr, call->entry_ip))
		flags |= SPAN_F_SITE_UNKNOWN;
	if (ep_flags & WIRE_EP_F_REPORT_SLOW)
		flags |= SPAN_F_REPORT_SLOW;
	if (ep_flags & WIRE_EP_F_NAME_AT_LEAVE)
		flags |= SPAN_F_NAME_AT_LEAVE;
	return flags;
}

static __always_inline void machine_load(struct thread *t, struct pt_regs *ctx, __u64 sp,
					 __u64 entry_ip)
{
	regs_copy(t->machine.r, ctx);
	t->machine.r[WIRE_REG_RSP] = sp;
	t->machine.entry_ip = entry_ip;
}

/*
 * The slot above all open spans. Calls on several stacks (coroutines) end in any order and leave
 * holes, which are used before slots that cannot be profiled.
 */
static __always_inline __u32 slot_for(struct thread *t)
{
	__u32 slot = t->depth;

	if (slot < WIRE_NAMED_MAX)
		return slot;
	for (__u32 i = 0; i < WIRE_NAMED_MAX; i++) {
		if (!span_open(&t->spans[i]))
			return i;
	}
	return slot;
}

/* An argument's register; false: none of the first four. All are read: the verifier wants fixed offsets. */
static __always_inline bool argument(const struct pt_regs *ctx, __u32 reg, __u64 *ret)
{
	__u64 di = ctx->di, si = ctx->si, dx = ctx->dx, cx = ctx->cx;

	opaque(di);
	opaque(si);
	opaque(dx);
	opaque(cx);
	*ret = reg == WIRE_REG_RDI ? di : reg == WIRE_REG_RSI ? si : reg == WIRE_REG_RDX ? dx : cx;
	return reg == WIRE_REG_RDI || reg == WIRE_REG_RSI || reg == WIRE_REG_RDX ||
	       reg == WIRE_REG_RCX;
}

enum verdict {
	VERDICT_RUN,  /* the operations must be run */
	VERDICT_DROP, /* a condition does not hold */
	VERDICT_KEEP, /* all conditions hold, and there is nothing else in the operations */
};

/*
 * Looks at a first condition of the form "argument == number", which leaves out most calls of a
 * function that is called for everything, without the machine.
 */
static __always_inline int verdict(const struct pt_regs *ctx, const struct wire_op *ops, __u32 n)
{
	__u32 last = 1;
	__u64 v;

	if (ops[0].code != WIRE_OP_REG || !argument(ctx, ops[0].arg, &v))
		return VERDICT_RUN;
	if (ops[1].code == WIRE_OP_AND_IMM) {
		v &= ops[1].imm;
		last = 2;
	}
	if (ops[last].code != WIRE_OP_IF_EQ && ops[last].code != WIRE_OP_IF_NE)
		return VERDICT_RUN;
	if ((v == (__u64)ops[last].imm) != (ops[last].code == WIRE_OP_IF_EQ))
		return VERDICT_DROP;
	return n == last + 1 ? VERDICT_KEEP : VERDICT_RUN;
}

static __always_inline __u64 entry_sp(__u64 cookie, __u64 sp, __u64 bp)
{
	opaque(sp);
	opaque(bp);
	return (cookie & WIRE_COOKIE_F_RBP ? bp : sp) + WIRE_COOKIE_SP(cookie);
}

static __always_inline void call_count(struct thread *t, struct wire_latency *l, __u32 ep_id)
{
	__u64 bit = 1ULL << (ep_id & 63);

	__sync_fetch_and_add(&l->n_enter, 1);
	if (!knob_count_threads || (t->seen_eps & bit))
		return;
	t->seen_eps |= bit;
	__sync_fetch_and_add(&l->n_threads, 1);
}

static __always_inline int enter(struct pt_regs *ctx, bool may_sleep)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	/* Both are read: the verifier takes no offset that was chosen. */
	struct call call = {.sp = entry_sp(cookie, ctx->sp, ctx->bp),
			    .ep_id = WIRE_COOKIE_EP(cookie)};
	struct thread *t = thread_enter(bpf_get_current_task_btf());
	struct wire_endpoint *ep;
	struct wire_latency *l;
	__u32 slot;

	if (!t || is_others(t, cookie))
		return 0;
	ep = bpf_map_lookup_elem(&endpoints, &call.ep_id);
	l = bpf_map_lookup_elem(&latency, &call.ep_id);
	if (!ep || !l)
		return 0;
	if (!t->depth && verdict(ctx, ep->entry_ops, ep->n_entry_ops) == VERDICT_DROP) {
		count(WIRE_C_CONDITION_SKIP);
		return 0;
	}
	call.entry_ip = ctx->ip - WIRE_COOKIE_OFF(cookie);
	bpf_probe_read_user(&call.ret_addr, sizeof(call.ret_addr), (void *)call.sp);
	call.ret_addr = returns_true(call.sp, call.ret_addr);
	if (t->depth) {
		thread_resume_clock(t);
		spans_drop_stale(t, call.ep_id, call.sp, call.ret_addr);
	}
	if ((ep->flags & WIRE_EP_F_BEGIN_IF_NONE) && (t->open_eps >> (call.ep_id & 63) & 1)) {
		count(WIRE_C_NESTED_SKIP);
		return 0;
	}
	slot = slot_for(t);
	if (ep->flags & WIRE_EP_F_HAS_OPS) {
		machine_load(t, ctx, call.sp, call.entry_ip);
		if (!(may_sleep ? ops_run_entry_sleepable(t, ep, slot)
				: ops_run_entry(t, ep, slot))) {
			count(WIRE_C_CONDITION_SKIP);
			return 0;
		}
	} else if (slot < WIRE_NAMED_MAX) {
		t->names[slot].bytes = 0;
	}
	if ((ep->flags & WIRE_EP_F_END_PROBE) && (t->open_eps >> (call.ep_id & 63) & 1))
		spans_restart(t, call.ep_id, call.sp);
	call_count(t, l, call.ep_id);
	opaque(slot);
	if (slot >= WIRE_SPANS_MAX) {
		__sync_fetch_and_add(&l->n_unknown, 1);
		count(WIRE_C_NEST_LIMIT);
		return 0;
	}
	call.flags = call_flags(t, &call, ep->flags);
	if (t->gate_gen != *(volatile __u32 *)&gates_gen || t->gate_ep != call.ep_id)
		gate_refresh(t, call.ep_id);
	span_push(t, slot, &call);
	return 0;
}

SEC("uprobe")
int span_enter(struct pt_regs *ctx)
{
	on_own_stack();
	hit_count(ctx);
	return enter(ctx, false);
}

SEC("uprobe.s")
int span_enter_sleepable(struct pt_regs *ctx)
{
	on_own_stack();
	hit_count(ctx);
	return enter(ctx, true);
}

/* Only for spans that anybody will see. */
static __always_inline bool wants_name_at_leave(struct thread *t, __u32 slot)
{
	struct span *s = &t->spans[slot];

	if (!(s->flags & SPAN_F_NAME_AT_LEAVE) || slot >= WIRE_NAMED_MAX)
		return false;
	return SPAN_STATE(s->tag) == SPAN_PROFILING ||
	       bpf_ktime_get_ns() - s->start_ns > s->threshold_ns;
}

static __always_inline int run_at_leave(struct thread *t, const struct wire_endpoint *ep,
					__u32 slot, bool may_sleep)
{
	return may_sleep ? ops_run_leave_sleepable(t, ep, slot) : ops_run_leave(t, ep, slot);
}

static __always_inline void name_at_leave(struct pt_regs *ctx, struct thread *t, __u32 slot,
					  bool may_sleep)
{
	struct span *s = &t->spans[slot];
	__u32 ep_id = s->ep_id;
	struct wire_endpoint *ep;

	if (!wants_name_at_leave(t, slot))
		return;
	ep = bpf_map_lookup_elem(&endpoints, &ep_id);
	if (!ep)
		return;
	machine_load(t, ctx, ctx->sp, s->entry_ip);
	run_at_leave(t, ep, slot, may_sleep);
}

/*
 * A return site or a uretprobe: calls whose frame is below SP are over. The one that returned here
 * has SP just above its return address, or its return address just before the site.
 */
static __always_inline int leave(struct pt_regs *ctx, bool is_uret, bool may_sleep)
{
	struct thread *t = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
	__u64 sp = ctx->sp, ip = ctx->ip;

	if (!t || !t->depth)
		return 0;
	thread_is_back(t);
	for_each_slot (i, t) {
		struct span *s = &t->spans[i];
		bool is_return;

		if (!span_open(s) || (s->flags & SPAN_F_BY_END))
			continue;
		if (sp <= s->entry_sp || sp - s->entry_sp >= WIRE_STACK_SPREAD)
			continue;
		is_return =
			sp == s->entry_sp + 8 || (!is_uret && ip - s->ret_addr < RETURN_SPREAD &&
						  sp - s->entry_sp < RETURN_SPREAD);
		/* Far below, but intact: it is on another stack, or its slot will tell later. */
		if (!is_return && span_slot_intact(t, i))
			continue;
		if (is_return)
			name_at_leave(ctx, t, i, may_sleep);
		span_close(t, i, is_return ? WIRE_END_RETURN : WIRE_END_UNWOUND);
	}
	return 0;
}

SEC("uprobe")
int span_leave(struct pt_regs *ctx)
{
	on_own_stack();
	hit_count(ctx);
	return leave(ctx, false, false);
}

/* The sleepable ones are for endpoints that read memory when a call ends. */
SEC("uprobe.s")
int span_leave_sleepable(struct pt_regs *ctx)
{
	on_own_stack();
	hit_count(ctx);
	return leave(ctx, false, true);
}

SEC("uprobe")
int span_uret(struct pt_regs *ctx)
{
	on_own_stack();
	hit_count(ctx);
	return leave(ctx, true, false);
}

/*
 * An instruction by which a function is left, with its frame gone: SP is what it was at its entry. With
 * any other SP it is a jump to a part of the function that lies elsewhere.
 */
static __always_inline int leave_at_ret(struct pt_regs *ctx, bool may_sleep)
{
	struct thread *t = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
	__u64 sp = ctx->sp;
	__u32 ep_id = WIRE_COOKIE_EP(bpf_get_attach_cookie(ctx));

	if (!t || !t->depth)
		return 0;
	thread_resume_clock(t);
	for_each_slot (i, t) {
		struct span *s = &t->spans[i];

		if (!span_open(s) || s->ep_id != ep_id || s->entry_sp != sp)
			continue;
		name_at_leave(ctx, t, i, may_sleep);
		span_close(t, i, WIRE_END_RETURN);
		break;
	}
	return 0;
}

SEC("uprobe")
int span_ret(struct pt_regs *ctx)
{
	on_own_stack();
	hit_count(ctx);
	return leave_at_ret(ctx, false);
}

SEC("uprobe.s")
int span_ret_sleepable(struct pt_regs *ctx)
{
	on_own_stack();
	hit_count(ctx);
	return leave_at_ret(ctx, true);
}

/* A declared end function: ends the innermost open span of its endpoint. */
static __always_inline int end(struct pt_regs *ctx, bool may_sleep)
{
	struct thread *t = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u64 sp = entry_sp(cookie, ctx->sp, ctx->bp), ip = ctx->ip - WIRE_COOKIE_OFF(cookie);
	__u32 ep_id = WIRE_COOKIE_EP(cookie), slot = WIRE_SPANS_MAX;
	struct wire_endpoint *ep;
	int what;

	if (!t || !t->depth || is_others(t, cookie))
		return 0;
	ep = bpf_map_lookup_elem(&endpoints, &ep_id);
	if (!ep)
		return 0;
	for_each_slot (i, t) {
		if (span_open(&t->spans[i]) && t->spans[i].ep_id == ep_id) {
			slot = i;
			break;
		}
	}
	forget(slot);
	opaque(slot);
	if (slot >= WIRE_SPANS_MAX)
		return 0;
	what = ep->flags & WIRE_EP_F_END_OPS ? verdict(ctx, ep->leave_ops, ep->n_leave_ops)
					     : VERDICT_KEEP;
	if (what == VERDICT_DROP)
		return 0;
	machine_load(t, ctx, sp, ip);
	if (what == VERDICT_RUN && !run_at_leave(t, ep, WIRE_NAMED_MAX, may_sleep))
		return 0;
	thread_is_back(t);
	if (wants_name_at_leave(t, slot))
		run_at_leave(t, ep, slot, may_sleep);
	span_close(t, slot, WIRE_END_END_PROBE);
	return 0;
}

SEC("uprobe")
int span_end(struct pt_regs *ctx)
{
	on_own_stack();
	hit_count(ctx);
	return end(ctx, false);
}

SEC("uprobe.s")
int span_end_sleepable(struct pt_regs *ctx)
{
	on_own_stack();
	hit_count(ctx);
	return end(ctx, true);
}
