/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * life.bpf.c: how a span is promoted and how it ends, whatever program notices.
 *
 * Invariant: a span is counted in its gate's n_active exactly while it is PROFILING, and every call
 * that was counted in n_enter ends up in one bucket or in n_unknown, or is still open.
 */
#include "kernel.h"

#include "common.bpf.h"
#include "maps.bpf.h"
#include "snapshot.bpf.h"
#include "window.bpf.h"
#include "wire.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Without branches, of which the verifier would walk every combination. v is not 0. */
static __always_inline __u32 log2_of(__u64 v)
{
	v |= v >> 1;
	v |= v >> 2;
	v |= v >> 4;
	v |= v >> 8;
	v |= v >> 16;
	v |= v >> 32;
	/* All bits below the highest are set: count them. */
	v -= (v >> 1) & 0x5555555555555555ULL;
	v = (v & 0x3333333333333333ULL) + ((v >> 2) & 0x3333333333333333ULL);
	v = (v + (v >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return (__u32)((v * 0x0101010101010101ULL) >> 56) - 1;
}

static __always_inline __u32 bucket_of(__u64 ns)
{
	__u32 log2;

	if (ns < 16)
		return ns;
	if (ns >> 44)
		return WIRE_HIST_BUCKETS - 1;
	log2 = log2_of(ns);
	return (log2 - 3) * WIRE_HIST_SUB + ((ns >> (log2 - 4)) & 15);
}

static __always_inline bool end_is_known(__u32 reason)
{
	return reason == WIRE_END_RETURN || reason == WIRE_END_END_PROBE;
}

/* Function probes can be preempted between load and store, so plain additions would lose some. */
static __always_inline void latency_update(const struct span *s, __u64 duration_ns, __u32 reason)
{
	__u32 ep_id = s->ep_id;
	struct wire_latency *l = bpf_map_lookup_elem(&latency, &ep_id);
	__u32 bucket = bucket_of(duration_ns);

	if (!l)
		return;
	if (!end_is_known(reason)) {
		__sync_fetch_and_add(&l->n_unknown, 1);
		if (reason == WIRE_END_UNWOUND)
			__sync_fetch_and_add(&l->n_unwound, 1);
		return;
	}
	opaque(bucket);
	if (bucket < WIRE_HIST_BUCKETS)
		__sync_fetch_and_add(&l->bucket[bucket], 1);
	__sync_fetch_and_add(&l->sum_ns, duration_ns);
	if (duration_ns > s->threshold_ns)
		__sync_fetch_and_add(&l->n_slow, 1);
	for (int i = 0; i < 4; i++) {
		__u64 max = l->max_ns;

		if (duration_ns <= max ||
		    __sync_val_compare_and_swap(&l->max_ns, max, duration_ns) == max)
			break;
	}
}

static __always_inline void end_fill(struct wire_end *e, struct thread *t, const struct span *s,
				     __u32 slot, __u32 reason)
{
	e->start_ns = s->start_ns;
	e->ep_id = s->ep_id;
	e->instance_id = t->instance_id;
	e->reason = reason;
	e->pad = 0;
	e->n_due = s->n_due;
	e->n_lost = s->n_lost;
	e->name_bytes = 0;
	if (slot < WIRE_NAMED_MAX) {
		const struct span_name *name = &t->names[bounded(slot, WIRE_NAMED_MAX)];

		e->name_bytes = name->bytes;
		__builtin_memcpy(e->name, name->data, WIRE_NAME_MAX);
	}
}

static __always_inline void end_send(struct thread *t, const struct span *s, __u32 slot,
				     __u32 reason, __u64 now, const struct wire_wall *wall,
				     bool is_slow)
{
	struct wire_end *e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);

	if (!e) {
		count(is_slow ? WIRE_C_RING_FULL_SLOW : WIRE_C_RING_FULL_END);
		return;
	}
	header_fill(&e->h, t, is_slow ? WIRE_K_SLOW : WIRE_K_END, sizeof(*e), now);
	e->span_id = is_slow ? 0 : s->span_id;
	e->wall.oncpu_ns = wall->oncpu_ns - s->start.oncpu_ns;
	e->wall.runq_ns = wall->runq_ns - s->start.runq_ns;
	e->wall.blocked_ns = wall->blocked_ns - s->start.blocked_ns;
	end_fill(e, t, s, slot, reason);
	ring_submit(e, !is_slow);
}

static __always_inline bool gate_enabled(const struct thread *t, const struct span *s)
{
	struct wire_gate_key key = {s->ep_id, t->instance_id};
	struct wire_gate *g = bpf_map_lookup_elem(&gates, &key);

	return g && g->enabled;
}

__noinline int span_close(struct thread *t, __u32 slot, __u32 reason)
{
	struct wire_wall wall;
	struct span *s;
	__u64 now, tag;
	__u32 state;

	if (!t || slot >= WIRE_SPANS_MAX)
		return 0;
	s = &t->spans[slot];
	tag = __sync_lock_test_and_set(&s->tag, SPAN_FREE);
	state = SPAN_STATE(tag);
	if (state == SPAN_FREE)
		return 0;
	/* Only now: no snapshot of the span is taken later than its end, see tickrings.h. */
	now = wall_now(t, &wall);
	if (now < s->start_ns)
		now = s->start_ns;
	latency_update(s, now - s->start_ns, reason);
	if (reason == WIRE_END_UNWOUND)
		count(WIRE_C_UNWOUND);
	if (reason == WIRE_END_LEAVE_UNSEEN)
		count(WIRE_C_LEAVE_UNSEEN);
	if (state == SPAN_PROFILING) {
		struct gate_count *n = span_gate_count(t, s);

		if (n) {
			__sync_fetch_and_add(&n->n_active, -1);
			if (gate_enabled(t, s))
				end_send(t, s, slot, reason, now, &wall, false);
		}
	} else {
		bool is_slow = end_is_known(reason) && now - s->start_ns > s->threshold_ns;

		if (s->flags & SPAN_F_PROMOTE_FAILED)
			count(WIRE_C_RING_FULL_PROMOTED);
		else if (is_slow && state != SPAN_SKIPPED && !(s->flags & SPAN_F_REPORT_SLOW))
			count(WIRE_C_SLOW_UNSEEN);
		if (is_slow && (s->flags & SPAN_F_REPORT_SLOW))
			end_send(t, s, slot, reason, now, &wall, true);
	}
	if (s->ep_id < WIRE_EP_MAX)
		t->open_eps &= ~(1ULL << s->ep_id);
	for (int i = 0; i < WIRE_SPANS_MAX; i++) {
		__u32 top = thread_depth(t) - 1;

		if (top >= WIRE_SPANS_MAX || span_open(&t->spans[top]))
			break;
		t->depth = top;
	}
	/* Nobody else looks at it from now on; only an interval whose end was just missed is still open. */
	if (!t->depth && t->out_ns) {
		if (t->out_gen == sched_gen)
			waiting_add(-1);
		t->out_ns = 0;
		barrier();
		window_return(t); /* last: a walk that reads it asks for out_ns then */
	}
	return 1;
}

__noinline int spans_close_all(struct thread *t, __u32 reason)
{
	if (!t)
		return 0;
	for_each_slot (i, t)
		span_close(t, i, reason);
	t->depth = 0;
	t->open_eps = 0;
	return 0;
}

/* What the end of a span is called that was noticed late. */
static __always_inline __u32 missed_reason(const struct span *s)
{
	return s->flags & SPAN_F_SITE_UNKNOWN ? WIRE_END_LEAVE_UNSEEN : WIRE_END_UNWOUND;
}

/* A uretprobe, of whoever, puts the address of its trampoline into the slot. */
static __always_inline bool is_trampoline(__u64 address)
{
	struct mm_struct *mm = bpf_get_current_task_btf()->mm;
	__u64 page = BPF_CORE_READ(mm, uprobes_state.xol_area, vaddr);

	return page && address - page < 4096;
}

/*
 * Whether the slot of a span's return address still holds it. While the frame is there it does, also
 * when the thread is on another stack meanwhile (a coroutine); once it has been left by an exception
 * or unseen, later calls overwrite it. Of the current thread.
 */
__noinline int span_slot_intact(struct thread *t, __u32 slot)
{
	__u64 value = 0;
	struct span *s;

	if (!t || slot >= WIRE_SPANS_MAX)
		return 0;
	s = &t->spans[slot];
	if (bpf_probe_read_user(&value, sizeof(value), (void *)s->entry_sp))
		return 1;
	return value == s->ret_addr || is_trampoline(value);
}

/* Why a span cannot be open any more when ep_id is entered at sp; 0: it may be. */
static __always_inline __u32 stale_reason(const struct span *s, __u32 ep_id, __u64 sp,
					  __u64 ret_addr)
{
	if (s->flags & SPAN_F_BY_END) /* its begin function has long returned: SP says nothing */
		return 0;
	if (sp < s->entry_sp || sp - s->entry_sp >= WIRE_STACK_SPREAD)
		return 0;
	/* The same slot: a jump to another endpoint (a tail call) leaves the return address there. */
	if (sp == s->entry_sp && s->ep_id != ep_id && s->ret_addr == ret_addr &&
	    !(s->flags & SPAN_F_SITE_UNKNOWN))
		return 0;
	return missed_reason(s);
}

__noinline int spans_drop_stale(struct thread *t, __u32 ep_id, __u64 sp, __u64 ret_addr)
{
	if (!t)
		return 0;
	for_each_slot (i, t) {
		struct span *s = &t->spans[i];
		__u32 reason;

		if (!span_open(s))
			continue;
		reason = stale_reason(s, ep_id, sp, ret_addr);
		if (reason && (sp == s->entry_sp || !span_slot_intact(t, i)))
			span_close(t, i, reason);
	}
	return 0;
}

/* Whether SP and PC leave it to the slot to say that the span's frame is there. */
static __always_inline bool span_doubtful(const struct span *s, __u64 sp, __u64 ip)
{
	if (s->flags & SPAN_F_BY_END)
		return false;
	if (sp > s->entry_sp)
		return sp - s->entry_sp < WIRE_STACK_SPREAD && sp >= s->entry_sp + 8 &&
		       ip - s->ret_addr >= RETURN_SPREAD;
	return span_covers(s, sp) && !(s->flags & SPAN_F_URET);
}

__noinline int spans_restart(struct thread *t, __u32 ep_id, __u64 sp)
{
	if (!t)
		return 0;
	for_each_slot (i, t) {
		struct span *s = &t->spans[i];

		if (!span_open(s) || s->ep_id != ep_id || !(s->flags & SPAN_F_BY_END))
			continue;
		if (sp >= s->entry_sp && sp - s->entry_sp < WIRE_STACK_SPREAD)
			span_close(t, i, WIRE_END_LEAVE_UNSEEN);
	}
	return 0;
}

__noinline int spans_check(struct thread *t, __u64 sp, __u64 ip)
{
	if (!t)
		return 0;
	for_each_slot (i, t) {
		struct span *s = &t->spans[i];

		if (!span_open(s))
			continue;
		if (span_doubtful(s, sp, ip) && !span_slot_intact(t, i))
			span_close(t, i, missed_reason(s));
	}
	return 0;
}

__noinline int gate_refresh(struct thread *t, __u32 ep_id)
{
	struct wire_gate_key key = {};
	struct wire_gate *g;

	if (!t)
		return 0;
	key.ep_id = ep_id;
	key.instance_id = t->instance_id;
	t->gate_gen = *(volatile __u32 *)&gates_gen;
	t->gate_ep = ep_id;
	t->gate_after_ns = NEVER;
	t->gate_threshold_ns = NEVER;
	g = bpf_map_lookup_elem(&gates, &key);
	if (g && g->enabled) {
		t->gate_after_ns = g->sample_after_ns;
		t->gate_threshold_ns = g->threshold_ns;
	}
	return 0;
}

static __always_inline void promoted_fill(struct wire_promoted *p, struct thread *t,
					  const struct span *s, __u32 slot)
{
	p->span_id = s->span_id;
	p->start_ns = s->start_ns;
	p->entry_sp = s->entry_sp;
	p->entry_ip = s->entry_ip;
	p->ret_addr = s->flags & SPAN_F_BY_END ? 0 : s->ret_addr;
	p->ep_id = s->ep_id;
	p->instance_id = t->instance_id;
	p->as_id = t->as_id;
	p->start = s->start;
	p->name_bytes = t->names[slot].bytes;
	__builtin_memcpy(p->comm, t->comm, WIRE_COMM_MAX);
	__builtin_memcpy(p->name, t->names[slot].data, WIRE_NAME_MAX);
}

/* Takes a place in the gate's counts; 0, or the counter that says which limit is reached. */
static __always_inline int gate_take(const struct wire_gate *g, struct gate_count *n)
{
	if (__sync_fetch_and_add(&n->n_started, 1) >= g->max_spans && g->max_spans) {
		__sync_fetch_and_add(&n->n_started, -1);
		return WIRE_C_SPAN_LIMIT;
	}
	if (__sync_fetch_and_add(&n->n_active, 1) >= g->max_parallel && g->max_parallel) {
		__sync_fetch_and_add(&n->n_active, -1);
		__sync_fetch_and_add(&n->n_started, -1);
		return WIRE_C_PARALLEL_LIMIT;
	}
	return 0;
}

static __always_inline void gate_give_back(struct gate_count *n)
{
	__sync_fetch_and_add(&n->n_active, -1);
	__sync_fetch_and_add(&n->n_started, -1);
}

/* Changes a span's state, unless it has ended or changed meanwhile. */
static __always_inline bool span_move(struct span *s, __u64 tag, __u32 from, __u32 to)
{
	__u64 expected = SPAN_TAG(tag, from);

	return __sync_val_compare_and_swap(&s->tag, expected, SPAN_TAG(tag, to)) == expected;
}

/* A PENDING span that is old enough. Global, like the others: see common.bpf.h. */
__noinline int span_promote(struct thread *t, __u32 slot, __u64 now, __u64 at_ns,
			    const struct wire_wall *at)
{
	struct wire_gate_key key = {};
	struct wire_promoted *p;
	struct gate_count *n;
	struct wire_gate *g;
	struct span *s;
	__u64 tag;
	int limit;

	if (!t || !at || slot >= WIRE_NAMED_MAX)
		return 0;
	s = &t->spans[slot];
	tag = *(volatile __u64 *)&s->tag;
	if (!span_move(s, tag, SPAN_PENDING, SPAN_PROMOTING))
		return 0;
	key.ep_id = s->ep_id;
	key.instance_id = t->instance_id;
	g = bpf_map_lookup_elem(&gates, &key);
	n = bpf_map_lookup_elem(&gate_counts, &key);
	if (!g || !n || s->start_ns < sched_since_ns) {
		span_move(s, tag, SPAN_PROMOTING, SPAN_SKIPPED);
		return 0;
	}
	limit = gate_take(g, n);
	if (limit) {
		if (span_move(s, tag, SPAN_PROMOTING, SPAN_SKIPPED))
			count(limit);
		return 0;
	}
	p = bpf_ringbuf_reserve(&ring, sizeof(*p), 0);
	if (!p) {
		s->flags |= SPAN_F_PROMOTE_FAILED;
		gate_give_back(n);
		span_move(s, tag, SPAN_PROMOTING, SPAN_PENDING);
		return 0;
	}
	s->span_id = __sync_fetch_and_add(&last_span_id, 1) + 1;
	s->epoch = n->epoch;
	s->period_ns = g->period_ns;
	s->next_due_ns = at->oncpu_ns + bpf_get_prandom_u32() % (s->period_ns | 1);
	s->flags &= ~SPAN_F_PROMOTE_FAILED;
	header_fill(&p->h, t, WIRE_K_PROMOTED, sizeof(*p), now);
	p->promoted_ns = at_ns;
	p->promoted = *at;
	promoted_fill(p, t, s, slot);
	if (!span_move(s, tag, SPAN_PROMOTING, SPAN_PROFILING)) {
		gate_give_back(n); /* it has just ended, and is counted there */
		bpf_ringbuf_discard(p, BPF_RB_NO_WAKEUP);
		return 0;
	}
	ring_submit(p, true);
	return 1;
}

/* The gates have changed since the span looked: takes the new values, or ends its profiling. */
static __always_inline void span_refresh(struct thread *t, struct span *s, __u32 gen)
{
	struct wire_gate_key key = {s->ep_id, t->instance_id};
	struct wire_gate *g = bpf_map_lookup_elem(&gates, &key);
	__u64 tag = *(volatile __u64 *)&s->tag;

	s->gate_gen = gen;
	if (SPAN_STATE(tag) == SPAN_PROFILING && (!g || !g->enabled || !span_gate_count(t, s))) {
		struct gate_count *n = span_gate_count(t, s);

		if (span_move(s, tag, SPAN_PROFILING, SPAN_SKIPPED) && n)
			__sync_fetch_and_add(&n->n_active, -1);
		return;
	}
	s->sample_after_ns = NEVER;
	s->threshold_ns = NEVER;
	if (g && g->enabled) {
		s->sample_after_ns = g->sample_after_ns;
		s->threshold_ns = g->threshold_ns;
		s->period_ns = g->period_ns;
	}
}

__noinline int span_review(struct thread *t, __u32 slot, __u64 now, __u64 at_ns,
			   const struct wire_wall *at)
{
	__u32 gen = *(volatile __u32 *)&gates_gen;
	struct span *s;
	__u64 tag;

	if (!t || !at || slot >= WIRE_SPANS_MAX)
		return 0;
	s = &t->spans[slot];
	if (!span_open(s))
		return 0;
	if (s->gate_gen != gen)
		span_refresh(t, s, gen);
	tag = *(volatile __u64 *)&s->tag;
	if (SPAN_STATE(tag) == SPAN_PENDING && s->sample_after_ns != NEVER && now > s->start_ns &&
	    now - s->start_ns > s->sample_after_ns) {
		if (slot < WIRE_NAMED_MAX)
			return span_promote(t, slot, now, at_ns, at);
		if (span_move(s, tag, SPAN_PENDING, SPAN_SKIPPED))
			count(WIRE_C_NAMED_LIMIT);
		return 0;
	}
	return SPAN_STATE(tag) == SPAN_PROFILING && slot < WIRE_NAMED_MAX;
}

__noinline __u32 spans_review(struct thread *t, __u64 now, __u64 at_ns, const struct wire_wall *at)
{
	__u32 mask = 0;

	if (!t || !at)
		return 0;
	for (__u32 i = 0; i < WIRE_SPANS_MAX; i++) {
		if (i >= thread_depth(t))
			break;
		mask |= (span_review(t, i, now, at_ns, at) & 1) << i;
	}
	return mask;
}

__noinline int spans_due(struct thread *t, __u32 mask, __u64 oncpu_ns)
{
	int is_due = 0;

	if (!t)
		return 0;
	for (__u32 i = 0; i < WIRE_NAMED_MAX; i++) {
		struct span *s = &t->spans[i];

		if (!(mask >> i & 1) || oncpu_ns < s->next_due_ns || !s->period_ns)
			continue;
		is_due = 1;
		span_next_due(s, oncpu_ns);
	}
	return is_due;
}

__noinline __u64 spans_period(struct thread *t, __u32 mask)
{
	__u64 period = NEVER;

	if (!t)
		return 0;
	for (__u32 i = 0; i < WIRE_NAMED_MAX; i++) {
		if ((mask >> i & 1) && t->spans[i].period_ns < period)
			period = t->spans[i].period_ns;
	}
	return period;
}

__noinline int spans_fill(struct thread *t, __u32 mask, struct wire_snapshot *rec)
{
	__u32 n = 0;

	if (!t || !rec)
		return 0;
	for (__u32 i = 0; i < WIRE_NAMED_MAX; i++) {
		struct span *s = &t->spans[i];
		struct wire_snap_span *to = &rec->spans[bounded(n, WIRE_NAMED_MAX)];

		if (!(mask >> i & 1))
			continue;
		to->span_id = s->span_id;
		to->entry_sp = s->entry_sp;
		to->ret_addr = s->ret_addr;
		to->seq = __sync_fetch_and_add(&s->n_due, 1);
		to->flags = s->flags & SPAN_F_BY_END ? WIRE_SPAN_F_NO_FRAME : 0;
		n++;
		forget(n);
	}
	rec->n_spans = n;
	return 0;
}

__noinline int spans_lost(struct thread *t, __u32 mask)
{
	if (!t)
		return 0;
	count(WIRE_C_RING_FULL_SNAPSHOT);
	for (__u32 i = 0; i < WIRE_NAMED_MAX; i++) {
		if (!(mask >> i & 1))
			continue;
		__sync_fetch_and_add(&t->spans[i].n_due, 1);
		__sync_fetch_and_add(&t->spans[i].n_lost, 1);
	}
	return 0;
}

/* Of a span whose frame has been left nothing says how far its stack reaches. */
enum { WINDOW_LEFT = 2 * WIRE_PAGE };

__noinline int window_extent(struct thread *t, __u64 sp, __u32 limit, struct window *ret)
{
	__u64 end = 0, bytes;

	if (!t || !ret)
		return 0;
	ret->start = sp - WIRE_REDZONE;
	ret->bytes = 0;
	ret->flags = 0;
	ret->holes = 0;
	for (__u32 i = 0; i < WIRE_NAMED_MAX; i++) {
		const struct span *s = &t->spans[i];
		__u32 state = SPAN_STATE(*(volatile __u64 *)&s->tag);

		if (i >= thread_depth(t))
			break;
		if (state == SPAN_FREE || state == SPAN_SKIPPED || s->sample_after_ns == NEVER)
			continue;
		if (span_covers(s, sp)) {
			end = s->entry_sp + 8;
			break;
		}
		if (span_left(s, sp))
			end = sp + WINDOW_LEFT - WIRE_REDZONE;
		ret->flags = WIRE_SNAP_F_FOREIGN;
	}
	if (!end)
		return 0;
	bytes = (end + WIRE_REDZONE - sp + 7) & ~7ULL;
	ret->flags = 0;
	if (bytes > limit) {
		bytes = limit;
		ret->flags = WIRE_SNAP_F_TRUNCATED;
	}
	ret->bytes = bytes;
	return 0;
}

__noinline int window_read_large(struct windows_large_value *v)
{
	__u32 bytes;

	if (!v)
		return 0;
	bytes = v->head.bytes;
	opaque(bytes);
	if (!bytes || bytes > WINDOW_LARGE)
		return 0;
	window_read(&v->head, v->data, bytes, WINDOW_LARGE);
	returns_restore(&v->head, v->data, WINDOW_LARGE);
	return 0;
}

static __always_inline void shot_count(__u32 flags)
{
	if (flags & WIRE_SNAP_F_FAULT)
		count(WIRE_C_WINDOW_FAULT);
	if (flags & WIRE_SNAP_F_TRUNCATED)
		count(WIRE_C_WINDOW_TRUNCATED);
	if (flags & WIRE_SNAP_F_FOREIGN)
		count(WIRE_C_FOREIGN_STACK);
}

static __always_inline void shot_fill(const struct thread *t, const struct shot *shot,
				      struct wire_snapshot *rec)
{
	rec->snap_kind = shot->kind;
	rec->as_id = t->as_id;
	rec->wall = shot->wall;
	rec->out_ns = shot->out_ns;
	rec->wake_ns = shot->wake_ns;
	rec->waker_tgid = shot->waker_tgid;
	rec->waker_tid = shot->waker_tid;
	rec->syscall_nr = shot->syscall_nr;
	rec->prev_state = shot->prev_state;
}

__noinline int shot_seal(struct thread *t, struct shot *shot, struct wire_snapshot *rec)
{
	__u32 bytes = sizeof(*rec);

	if (!t || !shot || !rec)
		return 0;
	shot->flags |= shot->window.flags;
	shot_fill(t, shot, rec);
	spans_fill(t, shot->mask, rec);
	rec->flags = shot->flags;
	rec->kernel_frames = shot->kernel_frames;
	rec->window_bytes = shot->window.bytes;
	rec->holes = shot->window.holes;
	rec->pad = 0;
	bytes += shot->kernel_frames * sizeof(__u64) + shot->window.bytes;
	header_fill(&rec->h, t, WIRE_K_SNAPSHOT, bytes, shot->mono_ns);
	shot_count(shot->flags);
	return 0;
}
