/* SPDX-License-Identifier: Apache-2.0 */
#include "code/cfi_eval.h"

#include <dwarf.h>
#include <string.h>

#include "base/arch.h"

enum { STACK_MAX = 32, STEPS_MAX = 512 };

struct machine {
	uint64_t stack[STACK_MAX];
	unsigned int depth;
	const struct cfi_frame *f;
	const struct cfi_memory *m;
	uint64_t cfa;
};

static bool in_hole(const struct cfi_memory *m, uint64_t addr)
{
	uint64_t page = addr / WIRE_PAGE - m->start / WIRE_PAGE;

	return page < 32 && m->holes >> page & 1;
}

bool cfi_memory_read(const struct cfi_memory *m, uint64_t addr, unsigned int n, uint64_t *ret)
{
	uint64_t off = addr - m->start, v = 0;

	if (m->n < n || off > m->n - n)
		return false;
	if (m->holes && (in_hole(m, addr) || in_hole(m, addr + n - 1)))
		return false;
	if (n == 8)
		memcpy(&v, m->bytes + off, 8);
	else
		memcpy(&v, m->bytes + off, n);
	*ret = v;
	return true;
}

static enum cfi_eval_result read_register(const struct cfi_frame *f, unsigned int reg,
					  uint64_t *ret)
{
	if (reg < WIRE_REG_MAX && (f->known & (1U << reg))) {
		*ret = f->r[reg];
		return CFI_EVAL_OK;
	}
	return reg < WIRE_REG_MAX && (f->outside & (1U << reg)) ? CFI_EVAL_E_RANGE : CFI_EVAL_E_BAD;
}

/* Entry `below` of the stack, 0 is the top; NULL when the stack is not that deep. */
static uint64_t *peek(struct machine *x, uint64_t below)
{
	return below < x->depth ? &x->stack[x->depth - 1 - below] : NULL;
}

static enum cfi_eval_result push(struct machine *x, uint64_t v)
{
	if (x->depth == STACK_MAX)
		return CFI_EVAL_E_BAD;
	x->stack[x->depth++] = v;
	return CFI_EVAL_OK;
}

static enum cfi_eval_result pick(struct machine *x, uint64_t below)
{
	uint64_t *from = peek(x, below);

	return from ? push(x, *from) : CFI_EVAL_E_BAD;
}

static enum cfi_eval_result shuffle(struct machine *x, uint8_t code)
{
	uint64_t *a = peek(x, 0), *b = peek(x, 1), *c = peek(x, 2), v;

	if (!a || (code != DW_OP_drop && !b) || (code == DW_OP_rot && !c))
		return CFI_EVAL_E_BAD;
	v = *a;
	if (code == DW_OP_drop) {
		x->depth--;
	} else if (code == DW_OP_swap) {
		*a = *b;
		*b = v;
	} else {
		*a = *b;
		*b = *c;
		*c = v;
	}
	return CFI_EVAL_OK;
}

static enum cfi_eval_result unary(struct machine *x, const struct cfi_op *op)
{
	uint64_t *a = peek(x, 0);

	if (!a)
		return CFI_EVAL_E_BAD;
	switch (op->code) {
	case DW_OP_deref_size:
		return cfi_memory_read(x->m, *a, (unsigned int)op->imm, a) ? CFI_EVAL_OK
									   : CFI_EVAL_E_RANGE;
	case DW_OP_plus_uconst:
		*a += (uint64_t)op->imm;
		return CFI_EVAL_OK;
	case DW_OP_abs:
		*a = (int64_t)*a < 0 ? -*a : *a;
		return CFI_EVAL_OK;
	case DW_OP_neg:
		*a = -*a;
		return CFI_EVAL_OK;
	case DW_OP_not:
		*a = ~*a;
		return CFI_EVAL_OK;
	default:
		return CFI_EVAL_E_BAD;
	}
}

static uint64_t divide(uint64_t a, uint64_t b)
{
	/* the one quotient that does not fit would trap */
	return b == UINT64_MAX ? -a : (uint64_t)((int64_t)a / (int64_t)b);
}

static enum cfi_eval_result binary(struct machine *x, uint8_t code)
{
	uint64_t *to = peek(x, 1), a, b;

	if (!to)
		return CFI_EVAL_E_BAD;
	a = *to;
	b = *peek(x, 0);
	x->depth--;
	switch (code) {
	case DW_OP_and:
		*to = a & b;
		return CFI_EVAL_OK;
	case DW_OP_or:
		*to = a | b;
		return CFI_EVAL_OK;
	case DW_OP_xor:
		*to = a ^ b;
		return CFI_EVAL_OK;
	case DW_OP_plus:
		*to = a + b;
		return CFI_EVAL_OK;
	case DW_OP_minus:
		*to = a - b;
		return CFI_EVAL_OK;
	case DW_OP_mul:
		*to = a * b;
		return CFI_EVAL_OK;
	case DW_OP_div:
		*to = b ? divide(a, b) : 0;
		return b ? CFI_EVAL_OK : CFI_EVAL_E_BAD;
	case DW_OP_mod:
		*to = b ? a % b : 0;
		return b ? CFI_EVAL_OK : CFI_EVAL_E_BAD;
	case DW_OP_shl:
		*to = b < 64 ? a << b : 0;
		return CFI_EVAL_OK;
	case DW_OP_shr:
		*to = b < 64 ? a >> b : 0;
		return CFI_EVAL_OK;
	case DW_OP_shra:
		*to = (uint64_t)((int64_t)a >> (b < 64 ? b : 63));
		return CFI_EVAL_OK;
	default:
		return CFI_EVAL_E_BAD;
	}
}

static enum cfi_eval_result compare(struct machine *x, uint8_t code)
{
	uint64_t *to = peek(x, 1);
	int64_t a, b;

	if (!to)
		return CFI_EVAL_E_BAD;
	a = (int64_t)*to;
	b = (int64_t)*peek(x, 0);
	x->depth--;
	*to = code == DW_OP_eq   ? a == b
	      : code == DW_OP_ne ? a != b
	      : code == DW_OP_lt ? a < b
	      : code == DW_OP_le ? a <= b
	      : code == DW_OP_gt ? a > b
				 : a >= b;
	return CFI_EVAL_OK;
}

static enum cfi_eval_result push_register(struct machine *x, const struct cfi_op *op)
{
	uint64_t v;
	enum cfi_eval_result r = read_register(x->f, op->reg, &v);

	return r ? r : push(x, v + (uint64_t)op->imm);
}

/* One operation that is not a branch. */
static enum cfi_eval_result execute(struct machine *x, const struct cfi_op *op)
{
	switch (op->code) {
	case DW_OP_nop:
	case DW_OP_stack_value:
		return CFI_EVAL_OK;
	case DW_OP_consts:
		return push(x, (uint64_t)op->imm);
	case DW_OP_bregx:
		return push_register(x, op);
	case DW_OP_call_frame_cfa:
		return push(x, x->cfa);
	case DW_OP_dup:
		return pick(x, 0);
	case DW_OP_over:
		return pick(x, 1);
	case DW_OP_pick:
		return pick(x, (uint64_t)op->imm);
	case DW_OP_drop:
	case DW_OP_swap:
	case DW_OP_rot:
		return shuffle(x, op->code);
	case DW_OP_eq ... DW_OP_ne:
		return compare(x, op->code);
	case DW_OP_deref_size:
	case DW_OP_plus_uconst:
	case DW_OP_abs:
	case DW_OP_neg:
	case DW_OP_not:
		return unary(x, op);
	default:
		return binary(x, op->code);
	}
}

static enum cfi_eval_result run(struct machine *x, const struct cfi_op *ops, unsigned int n,
				uint64_t *ret)
{
	unsigned int i = 0;

	for (unsigned int step = 0; i < n; step++) {
		const struct cfi_op *op = &ops[i++];
		enum cfi_eval_result r = CFI_EVAL_OK;

		if (step == STEPS_MAX)
			return CFI_EVAL_E_BAD;
		if (op->code == DW_OP_skip || op->code == DW_OP_bra) {
			if (op->code == DW_OP_bra && !x->depth)
				return CFI_EVAL_E_BAD;
			if (op->code == DW_OP_skip || x->stack[--x->depth])
				i = op->target;
			continue;
		}
		r = execute(x, op);
		if (r)
			return r;
	}
	if (!x->depth)
		return CFI_EVAL_E_BAD;
	*ret = *peek(x, 0);
	return CFI_EVAL_OK;
}

static enum cfi_eval_result run_value(const struct cfi_rule *rule, const struct cfi_value *v,
				      struct machine *x, uint64_t *ret)
{
	if (v->off < 0 || v->off > rule->n_ops || v->n_ops > rule->n_ops - v->off)
		return CFI_EVAL_E_BAD;
	x->depth = 0;
	return run(x, rule->ops + v->off, v->n_ops, ret);
}

enum cfi_eval_result cfi_eval_cfa(const struct cfi_rule *rule, const struct cfi_frame *f,
				  const struct cfi_memory *m, uint64_t *ret_cfa)
{
	struct machine x;
	enum cfi_eval_result r;
	uint64_t v;

	if (rule->cfa.kind == CFI_REG) {
		r = read_register(f, rule->cfa.base, &v);
		if (!r)
			*ret_cfa = v + (uint64_t)(int64_t)rule->cfa.off;
		return r;
	}
	x.f = f;
	x.m = m;
	x.cfa = 0;
	return run_value(rule, &rule->cfa, &x, ret_cfa);
}

static enum cfi_eval_result eval_expression(const struct cfi_rule *rule, const struct cfi_value *v,
					    const struct cfi_frame *f, const struct cfi_memory *m,
					    uint64_t cfa, uint64_t *ret)
{
	struct machine x;

	x.f = f;
	x.m = m;
	x.cfa = cfa;
	return run_value(rule, v, &x, ret);
}

/* The value of one register in the caller; *ret_slot: the address it was read from, or 0. */
static enum cfi_eval_result eval_register(const struct cfi_rule *rule, const struct cfi_value *v,
					  const struct cfi_frame *f, const struct cfi_memory *m,
					  uint64_t cfa, uint64_t ret[2])
{
	enum cfi_eval_result r;
	uint64_t addr = cfa + (uint64_t)(int64_t)v->off;

	ret[1] = 0;
	switch (v->kind) {
	case CFI_AT_CFA:
		break;
	case CFI_CFA:
		ret[0] = addr;
		return CFI_EVAL_OK;
	case CFI_REG:
		r = read_register(f, v->base, &ret[0]);
		ret[0] += (uint64_t)(int64_t)v->off;
		return r;
	case CFI_EXPR:
		return eval_expression(rule, v, f, m, cfa, &ret[0]);
	case CFI_AT_EXPR:
		r = eval_expression(rule, v, f, m, cfa, &addr);
		if (r)
			return r;
		break;
	default:
		return CFI_EVAL_E_BAD;
	}
	ret[1] = addr;
	return cfi_memory_read(m, addr, 8, &ret[0]) ? CFI_EVAL_OK : CFI_EVAL_E_RANGE;
}

void cfi_eval_step(const struct cfi_rule *rule, const struct cfi_frame *f,
		   const struct cfi_memory *m, uint64_t cfa, struct cfi_frame *ret,
		   uint64_t *ret_rip_slot)
{
	*ret = *f;
	ret->known &= ~rule->undefined;
	ret->outside &= ~rule->undefined;
	*ret_rip_slot = 0;
	for (unsigned int i = 0; i < rule->n_values; i++) {
		const struct cfi_value *v = &rule->values[i];
		uint32_t bit = 1U << v->reg;
		uint64_t value[2] = {0, 0};
		enum cfi_eval_result r = eval_register(rule, v, f, m, cfa, value);

		ret->r[v->reg] = value[0];
		ret->known = r ? ret->known & ~bit : ret->known | bit;
		ret->outside = r == CFI_EVAL_E_RANGE ? ret->outside | bit : ret->outside & ~bit;
		if (v->reg == ARCH_PC)
			*ret_rip_slot = value[1];
	}
}
