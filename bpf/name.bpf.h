/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * name.bpf.h: runs the operations of an endpoint: conditions and captured fields (wire_op).
 *
 * The machine's state lives in the thread's storage, because function probes can be preempted and
 * so may not use per-CPU memory. In sleepable programs pages that are not mapped yet are brought
 * in; elsewhere reading them captures a fault. Invariant: whatever the operations are, at most
 * WIRE_OPS_MAX of them run and at most WIRE_NAME_MAX bytes are captured.
 */
#ifndef SPANPROF_NAME_BPF_H
#define SPANPROF_NAME_BPF_H

#include "kernel.h"

#include "common.bpf.h"
#include "maps.bpf.h"
#include "window.bpf.h"
#include "wire.h"

#define EFAULT     14
#define FUSE_MAGIC 0x65735546 /* FUSE_SUPER_MAGIC of linux/magic.h */

struct ops_run {
	struct thread *t;
	const struct wire_endpoint *ep;
	__u64 at_leave; /* 1: leave_ops */
};

static long look_at_mapping(struct task_struct *task, struct vm_area_struct *vma, void *is_kernels)
{
	struct file *file = vma->vm_file;

	if (bpf_core_field_exists(vma->vm_userfaultfd_ctx.ctx) && vma->vm_userfaultfd_ctx.ctx)
		return 0;
	if (file && BPF_CORE_READ(file, f_inode, i_sb, s_magic) == FUSE_MAGIC)
		return 0;
	*(__u32 *)is_kernels = 1;
	return 0;
}

/*
 * Whether the kernel brings in the page at addr on its own. Where a process does it, by userfaultfd or FUSE, it
 * may be the thread itself that is to do so once it goes on: to wait for it is to wait forever. Also false
 * while another thread changes the mappings. Global: see common.bpf.h.
 */
__noinline int is_paged_by_kernel(__u64 addr)
{
	__u32 is_kernels = 0;

	bpf_find_vma(bpf_get_current_task_btf(), addr, look_at_mapping, &is_kernels, 0);
	return is_kernels != 0;
}

/* Brings in the page at addr; sleepable programs only. */
static __always_inline bool page_in(__u64 addr)
{
	__u8 byte;

	return is_paged_by_kernel(addr) && !bpf_copy_from_user(&byte, sizeof(byte), (void *)addr);
}

static __always_inline long read_user(void *dst, __u32 bytes, __u64 addr, bool may_sleep)
{
	long r = bpf_probe_read_user(dst, bytes, (void *)addr);

	if (r && may_sleep && page_in(addr) && page_in(addr + bytes - 1))
		r = bpf_probe_read_user(dst, bytes, (void *)addr);
	return r;
}

/* A string may cross into a page that is not mapped; two pages are enough for WIRE_NAME_MAX. */
static __always_inline long read_user_str(void *dst, __u32 bytes, __u64 addr, bool may_sleep)
{
	long r = bpf_probe_read_user_str(dst, bytes, (void *)addr);

	if (r >= 0 || !may_sleep || !page_in(addr))
		return r;
	r = bpf_probe_read_user_str(dst, bytes, (void *)addr);
	if (r >= 0 || !page_in((addr + 4096) & ~4095ULL))
		return r;
	return bpf_probe_read_user_str(dst, bytes, (void *)addr);
}

static __always_inline void field_end(struct span_name *name, struct wire_field *f, __u32 type,
				      __u32 bytes)
{
	f->type = type;
	f->pad = 0;
	f->bytes = bytes;
	f->pad2 = 0;
	name->bytes += sizeof(*f) + ((bytes + 7) & ~7U);
}

static __always_inline void capture_number(struct span_name *name, __u32 type, __u64 value)
{
	__u32 off = name->bytes;

	opaque(off);
	if (off > WIRE_NAME_MAX - sizeof(struct wire_field) - 8) {
		count(WIRE_C_NAME_TRUNCATED);
		return;
	}
	*(__u64 *)&name->data[off + sizeof(struct wire_field)] = value;
	field_end(name, (struct wire_field *)&name->data[off], type, sizeof(value));
}

static __always_inline void capture_fault(struct span_name *name)
{
	__u32 off = name->bytes;

	count(WIRE_C_NAME_FAULT);
	opaque(off);
	if (off > WIRE_NAME_MAX - sizeof(struct wire_field))
		return;
	field_end(name, (struct wire_field *)&name->data[off], WIRE_FIELD_FAULT, 0);
}

/* Text at addr: NUL-terminated when want == 0, else want bytes; at most `max`. */
static __always_inline void capture_text(struct span_name *name, __u64 addr, __u64 want, __u64 max,
					 bool is_counted, bool may_sleep)
{
	__u32 off = name->bytes, room, n;
	bool is_cut = false;
	long r;

	opaque(off);
	if (off > WIRE_NAME_MAX - sizeof(struct wire_field) - 8) {
		count(WIRE_C_NAME_TRUNCATED);
		return;
	}
	room = WIRE_NAME_MAX - sizeof(struct wire_field) - off;
	if (max < room)
		room = max;
	if (is_counted) {
		is_cut = want > room;
		n = is_cut ? room : want;
		opaque(n);
		if (n > WIRE_NAME_MAX)
			return;
		r = n ? read_user(&name->data[off + sizeof(struct wire_field)], n, addr, may_sleep)
		      : 0;
	} else {
		__u8 last = 0;

		/* One byte more than the text for the NUL, where there is room for it. */
		n = room + 1;
		if (n > WIRE_NAME_MAX - sizeof(struct wire_field) - off)
			n = WIRE_NAME_MAX - sizeof(struct wire_field) - off;
		opaque(n);
		if (n > WIRE_NAME_MAX)
			return;
		r = read_user_str(&name->data[off + sizeof(struct wire_field)], n, addr, may_sleep);
		if (r > 0) {
			__u32 text = r - 1;

			is_cut = text + 1 == n &&
				 !bpf_probe_read_user(&last, 1, (void *)(addr + text)) && last;
			n = text;
		}
	}
	if (r < 0) {
		capture_fault(name);
		return;
	}
	if (is_cut)
		count(WIRE_C_NAME_TRUNCATED);
	field_end(name, (struct wire_field *)&name->data[off],
		  is_cut ? WIRE_FIELD_CUT : WIRE_FIELD_STR, n);
}

/* Whether the op->imm bytes at addr equal the endpoint's match bytes from op->arg on. */
static __always_inline bool has_prefix(const struct wire_endpoint *ep, __u64 addr,
				       const struct wire_op *op, bool may_sleep)
{
	__u8 text[sizeof(ep->match)] = {};
	__u64 bytes = op->imm, from = op->arg; /* the verifier of 6.1 loses the bound of a __u32 */

	opaque(bytes);
	if (bytes > sizeof(text) || from > sizeof(text) - bytes)
		return false;
	if (bytes && read_user(text, bytes, addr, may_sleep))
		return false;
	for (__u32 i = 0; i < sizeof(text); i++) {
		if (i >= bytes)
			break;
		if (text[i] != ep->match[bounded(from + i, sizeof(ep->match))])
			return false;
	}
	return true;
}

static __always_inline bool deref(struct machine *m, __u32 size, bool is_signed, bool may_sleep)
{
	__u64 v = 0;
	__u32 shift;

	if (size != 1 && size != 2 && size != 4)
		size = 8;
	opaque(size);
	if (size > 8)
		return false;
	if (read_user(&v, size, m->a, may_sleep))
		return false;
	shift = 64 - size * 8;
	if (is_signed)
		v = (__u64)((__s64)(v << (shift & 63)) >> (shift & 63));
	m->a = v;
	return true;
}

/* Operations that change A; false: not one of these. A fault makes A zero. */
static __always_inline bool op_compute(struct machine *m, struct span_name *name,
				       const struct wire_op *op, bool may_sleep)
{
	__u32 arg = op->arg;

	switch (op->code) {
	case WIRE_OP_REG:
		m->a = arg < WIRE_REG_MAX ? m->r[arg] : 0;
		return true;
	case WIRE_OP_IMM:
		m->a = op->imm;
		return true;
	case WIRE_OP_ENTRY_IP:
		m->a = m->entry_ip + op->imm;
		return true;
	case WIRE_OP_ADD_IMM:
		m->a += op->imm;
		return true;
	case WIRE_OP_ADD:
		m->a += m->t[arg & 3];
		return true;
	case WIRE_OP_SUB:
		m->a = m->t[arg & 3] - m->a;
		return true;
	case WIRE_OP_AND_IMM:
		m->a &= op->imm;
		return true;
	case WIRE_OP_SHR_IMM:
		m->a >>= op->imm & 63;
		return true;
	case WIRE_OP_MUL_IMM:
		m->a *= op->imm;
		return true;
	case WIRE_OP_DEREF:
	case WIRE_OP_DEREF_S:
		if (!deref(m, op->size, op->code == WIRE_OP_DEREF_S, may_sleep)) {
			m->a = 0;
			m->fault = 1;
		}
		return true;
	case WIRE_OP_SAVE:
		m->t[arg & 3] = m->a;
		return true;
	case WIRE_OP_LOAD:
		m->a = m->t[arg & 3];
		return true;
	case WIRE_OP_SKIP_Z:
		m->skip = m->a ? 0 : arg;
		return true;
	case WIRE_OP_KEEP:
		if (name)
			name->kept[arg & (WIRE_VALS_MAX - 1)] = m->a;
		return true;
	case WIRE_OP_KEPT:
		m->a = name ? name->kept[arg & (WIRE_VALS_MAX - 1)] : 0;
		return true;
	}
	return false;
}

/* Captures; false: not one of these. A pointer that could not be read captures a fault. */
static __always_inline bool op_capture(struct machine *m, struct span_name *name,
				       const struct wire_op *op, bool may_sleep)
{
	__u32 code = op->code;

	if (code != WIRE_OP_STR && code != WIRE_OP_STRN && code != WIRE_OP_INT &&
	    code != WIRE_OP_UINT)
		return false;
	if (!name)
		return true;
	if (m->fault)
		capture_fault(name);
	else if (code == WIRE_OP_INT || code == WIRE_OP_UINT)
		capture_number(name, code == WIRE_OP_INT ? WIRE_FIELD_INT : WIRE_FIELD_UINT, m->a);
	else
		capture_text(name, m->a, m->t[op->arg & 3], op->imm, code == WIRE_OP_STRN,
			     may_sleep);
	m->fault = 0;
	return true;
}

static __always_inline bool op_condition(const struct machine *m, const struct wire_endpoint *ep,
					 const struct wire_op *op, bool may_sleep)
{
	switch (op->code) {
	case WIRE_OP_IF_EQ:
		return !m->fault && m->a == (__u64)op->imm;
	case WIRE_OP_IF_NE:
		return !m->fault && m->a != (__u64)op->imm;
	case WIRE_OP_IF_LT:
		return !m->fault && (__s64)m->a < op->imm;
	case WIRE_OP_IF_GE:
		return !m->fault && (__s64)m->a >= op->imm;
	case WIRE_OP_IF_PREFIX:
		return !m->fault && has_prefix(ep, m->a, op, may_sleep);
	}
	return true;
}

/* One operation: 0 goes on, 1 stops. */
static __always_inline long op_step(__u32 i, const struct ops_run *run, bool may_sleep)
{
	struct thread *t = run->t;
	const struct wire_endpoint *ep = run->ep;
	struct machine *m = &t->machine;
	struct span_name *name = NULL;
	const struct wire_op *op;
	__u32 slot = m->slot;

	opaque(i);
	if (i >= WIRE_OPS_MAX)
		return 1;
	if (m->skip) {
		m->skip--;
		return 0;
	}
	op = run->at_leave ? &ep->leave_ops[i] : &ep->entry_ops[i];
	if (op->code == WIRE_OP_END)
		return 1;
	opaque(slot);
	if (slot < WIRE_NAMED_MAX)
		name = &t->names[slot];
	if (op_compute(m, name, op, may_sleep) || op_capture(m, name, op, may_sleep))
		return 0;
	if (op_condition(m, ep, op, may_sleep)) {
		m->fault = 0;
		return 0;
	}
	m->drop = 1;
	return 1;
}

/* For bpf_loop. */
static long op_step_atomic(__u32 i, void *run)
{
	return op_step(i, run, false);
}

static long op_step_sleepable(__u32 i, void *run)
{
	return op_step(i, run, true);
}

/*
 * Runs the entry or leave operations on the registers that are in the thread's machine; captures go
 * to the name of `slot`. False: drop the call.
 */
static __always_inline int ops_run(struct thread *t, const struct wire_endpoint *ep, __u32 slot,
				   bool at_leave, bool may_sleep)
{
	struct ops_run run = {t, ep, at_leave};
	__u32 n = at_leave ? ep->n_leave_ops : ep->n_entry_ops;

	t->machine.slot = slot;
	t->machine.drop = 0;
	t->machine.fault = 0;
	t->machine.skip = 0;
	if (slot < WIRE_NAMED_MAX)
		t->names[bounded(slot, WIRE_NAMED_MAX)].bytes = 0;
	if (n > WIRE_OPS_MAX)
		n = WIRE_OPS_MAX;
	if (may_sleep)
		bpf_loop(n, op_step_sleepable, &run, 0);
	else
		bpf_loop(n, op_step_atomic, &run, 0);
	return !t->machine.drop;
}

/* Global functions, so that the verifier looks at each only once. */
__noinline int ops_run_entry(struct thread *t, const struct wire_endpoint *ep, __u32 slot)
{
	return t && ep ? ops_run(t, ep, slot, false, false) : 1;
}

__noinline int ops_run_entry_sleepable(struct thread *t, const struct wire_endpoint *ep, __u32 slot)
{
	return t && ep ? ops_run(t, ep, slot, false, true) : 1;
}

__noinline int ops_run_leave(struct thread *t, const struct wire_endpoint *ep, __u32 slot)
{
	return t && ep ? ops_run(t, ep, slot, true, false) : 1;
}

__noinline int ops_run_leave_sleepable(struct thread *t, const struct wire_endpoint *ep, __u32 slot)
{
	return t && ep ? ops_run(t, ep, slot, true, true) : 1;
}

#endif
