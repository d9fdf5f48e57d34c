/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * common.bpf.h: counting, record headers and submission; the functions of life.bpf.c.
 *
 * Invariant: nothing is given up without count(), and every record is sent by ring_submit().
 */
#ifndef SPANPROF_COMMON_BPF_H
#define SPANPROF_COMMON_BPF_H

#include "kernel.h"

#include "maps.bpf.h"
#include "wire.h"

/* Keeps the compiler from proving away a bound that the verifier needs to see. */
#define opaque(x) asm volatile("" : "+r"(x))

/* i, known to be below n (a power of two), in a way that the verifier sees. */
static __always_inline __u32 bounded(__u32 i, __u32 n)
{
	opaque(i);
	return i & (n - 1);
}

/*
 * Makes the verifier forget the value of x, which it would otherwise follow through each
 * combination: it does not know that the variable is never written.
 */
#define forget(x) ((x) += *(volatile __u32 *)&always_zero)

/*
 * For every program of a uprobe. From Linux 6.13 on the JIT compiler gives a program that needs much stack
 * one of its CPU's, as if it could not be met there by itself. But a uprobe's program sleeps while a page
 * of the target is fetched, and is preempted: another thread of the target then runs it on the same CPU, and
 * both write to one stack. A program with a tail call keeps that of its thread, and the verifier takes one
 * for such even if it is never made.
 */
static __always_inline void on_own_stack(void)
{
	if (knob_never)
		asm volatile("call 12" ::: "r0", "r1", "r2", "r3", "r4", "r5", "memory");
}

static __always_inline void count(__u32 id)
{
	__u64 *n = bpf_map_lookup_elem(&counters, &id);

	if (n)
		__sync_fetch_and_add(n, 1);
}

static __always_inline void waiting_add(__s64 n)
{
	__u32 zero = 0;
	__s64 *sum = bpf_map_lookup_elem(&n_waiting, &zero);

	if (sum)
		__sync_fetch_and_add(sum, n);
}

static __always_inline void header_fill(struct wire_header *h, const struct thread *t, __u32 kind,
					__u32 size, __u64 mono_ns)
{
	h->size = size;
	h->kind = kind;
	h->cpu = bpf_get_smp_processor_id();
	h->mono_ns = mono_ns;
	h->tgid = t->tgid;
	h->tid = t->tid;
}

/* The counts of the span's gate, if it is still the gate that the span was promoted by. */
static __always_inline struct gate_count *span_gate_count(const struct thread *t,
							  const struct span *s)
{
	struct wire_gate_key key = {s->ep_id, t->instance_id};
	struct gate_count *n = bpf_map_lookup_elem(&gate_counts, &key);

	return n && n->epoch == s->epoch ? n : NULL;
}

/* Snapshots wait for the reader's next look unless many are waiting; the rest wakes it. */
static __always_inline void ring_submit(void *record, bool is_urgent)
{
	if (is_urgent || bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > knob_wake_bytes)
		bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
	else
		bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/*
 * sched.bpf.c, global. Ends the interval off CPU of the current thread that is still open, since no program
 * was told of its return to a CPU. The second one sends no snapshot of it: programs that hardly ever meet
 * one call it, since the verifier reads all of the first again for each program.
 */
int thread_resume(struct thread *t);
int thread_resume_clock(struct thread *t);

/* True when the thread's clock is right. False: thread_resume is at work, and what runs has interrupted it. */
static __always_inline bool thread_is_back(struct thread *t)
{
	if (*(volatile __u64 *)&t->out_ns)
		thread_resume(t);
	return !*(volatile __u64 *)&t->out_ns;
}

/*
 * life.bpf.c. Global functions, so that the verifier looks at each only once; t is never NULL.
 * The returned masks have bit i set for slot i.
 */

/* Ends the span in a slot, for enum wire_end_reason. Harmless when it is not open. */
int span_close(struct thread *t, __u32 slot, __u32 reason);
int spans_close_all(struct thread *t, __u32 reason);

/* Whether a span's frame can still be there, by its return address; of the current thread. */
int span_slot_intact(struct thread *t, __u32 slot);

/* Ends what SP shows to be over when the function of ep_id is entered. */
int spans_drop_stale(struct thread *t, __u32 ep_id, __u64 sp, __u64 ret_addr);

/* Ends spans with a declared end function whose begin function is entered again: the end was missed. */
int spans_restart(struct thread *t, __u32 ep_id, __u64 sp);

/* Ends what the registers and the stack of the current thread show to be over. */
int spans_check(struct thread *t, __u64 sp, __u64 ip);

/* Sends WIRE_K_PROMOTED for a PENDING span, if its gate lets it through. */
int span_promote(struct thread *t, __u32 slot, __u64 now, __u64 at_ns, const struct wire_wall *at);

/* Promotes the span in a slot if it is old enough; 1 when it is PROFILING now. */
int span_review(struct thread *t, __u32 slot, __u64 now, __u64 at_ns, const struct wire_wall *at);

/*
 * Promotes the spans that are old enough now; snapshots account for their time from at_ns on, where
 * the wall clock was *at. The mask of the spans that are PROFILING now.
 */
__u32 spans_review(struct thread *t, __u64 now, __u64 at_ns, const struct wire_wall *at);

/* True when a snapshot of any of the spans in mask is due; moves their next times on. */
int spans_due(struct thread *t, __u32 mask, __u64 oncpu_ns);

/* The shortest dump period of the spans in mask. */
__u64 spans_period(struct thread *t, __u32 mask);

/* Takes a sequence number of each span in mask: for the record, or for a snapshot that is lost. */
int spans_fill(struct thread *t, __u32 mask, struct wire_snapshot *rec);
int spans_lost(struct thread *t, __u32 mask);

/* Reads the gate of ep_id for new spans. */
int gate_refresh(struct thread *t, __u32 ep_id);

#endif
