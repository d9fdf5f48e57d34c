/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/insn.h"

#include <Zydis/Zydis.h>
#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "bpf/wire.h"

struct decoded {
	ZydisDecodedInstruction i;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
};

static int wire_register(ZydisRegister reg)
{
	switch (ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg)) {
	case ZYDIS_REGISTER_RAX:
		return WIRE_REG_RAX;
	case ZYDIS_REGISTER_RDX:
		return WIRE_REG_RDX;
	case ZYDIS_REGISTER_RCX:
		return WIRE_REG_RCX;
	case ZYDIS_REGISTER_RBX:
		return WIRE_REG_RBX;
	case ZYDIS_REGISTER_RSI:
		return WIRE_REG_RSI;
	case ZYDIS_REGISTER_RDI:
		return WIRE_REG_RDI;
	case ZYDIS_REGISTER_RBP:
		return WIRE_REG_RBP;
	case ZYDIS_REGISTER_RSP:
		return WIRE_REG_RSP;
	case ZYDIS_REGISTER_R8:
		return WIRE_REG_R8;
	case ZYDIS_REGISTER_R9:
		return WIRE_REG_R9;
	case ZYDIS_REGISTER_R10:
		return WIRE_REG_R10;
	case ZYDIS_REGISTER_R11:
		return WIRE_REG_R11;
	case ZYDIS_REGISTER_R12:
		return WIRE_REG_R12;
	case ZYDIS_REGISTER_R13:
		return WIRE_REG_R13;
	case ZYDIS_REGISTER_R14:
		return WIRE_REG_R14;
	case ZYDIS_REGISTER_R15:
		return WIRE_REG_R15;
	default:
		return -1;
	}
}

static enum insn_flow flow_of(const ZydisDecodedInstruction *i, const ZydisDecodedOperand *ops)
{
	bool relative = i->operand_count_visible > 0 &&
			ops[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && ops[0].imm.is_relative;

	switch (i->meta.category) {
	case ZYDIS_CATEGORY_CALL:
		return relative ? INSN_CALL : INSN_CALL_INDIRECT;
	case ZYDIS_CATEGORY_UNCOND_BR:
		return relative ? INSN_JMP : INSN_JMP_INDIRECT;
	case ZYDIS_CATEGORY_COND_BR:
		return INSN_JCC;
	case ZYDIS_CATEGORY_RET:
		return INSN_RET;
	case ZYDIS_CATEGORY_SYSCALL:
		return INSN_SYSCALL;
	case ZYDIS_CATEGORY_INTERRUPT:
	case ZYDIS_CATEGORY_SYSRET:
	case ZYDIS_CATEGORY_SYSTEM:
		return INSN_STOP;
	default:
		break;
	}
	return i->mnemonic == ZYDIS_MNEMONIC_UD2 || i->mnemonic == ZYDIS_MNEMONIC_UD1 ||
			       i->mnemonic == ZYDIS_MNEMONIC_UD0 ||
			       i->mnemonic == ZYDIS_MNEMONIC_HLT
		       ? INSN_STOP
		       : INSN_PLAIN;
}

static bool has_prefix(const ZydisDecodedInstruction *i, uint8_t value)
{
	for (unsigned int k = 0; k < i->raw.prefix_count; k++)
		if (i->raw.prefixes[k].value == value)
			return true;
	return false;
}

/* is_prefix_bad() of the kernel: segment overrides but FS and GS, and lock. EVEX: good_insns_64. */
static bool kernel_refuses(const ZydisDecodedInstruction *i)
{
	return has_prefix(i, 0x26) || has_prefix(i, 0x2e) || has_prefix(i, 0x36) ||
	       has_prefix(i, 0x3e) || has_prefix(i, 0xf0) ||
	       i->encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX;
}

static bool is_short_jcc(const ZydisDecodedInstruction *i)
{
	return i->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && i->opcode >= 0x70 && i->opcode <= 0x7f;
}

static bool is_near_jcc(const ZydisDecodedInstruction *i)
{
	return i->opcode_map == ZYDIS_OPCODE_MAP_0F && i->opcode >= 0x80 && i->opcode <= 0x8f;
}

static void judge_cost(const ZydisDecodedInstruction *i, const uint8_t *code, struct insn *ret)
{
	bool word = has_prefix(i, 0x66);

	switch (ret->flow) {
	case INSN_CALL:
	case INSN_JMP:
		ret->cheap = !word;
		ret->refused |= word;
		return;
	case INSN_JCC: /* not jcxz and loop */
		ret->cheap = !word && (is_short_jcc(i) || is_near_jcc(i));
		return;
	case INSN_PLAIN:
		break;
	default:
		return;
	}
	if (i->mnemonic == ZYDIS_MNEMONIC_NOP) {
		/* Linux 6.18 turns it into a call once it is hit, which overwrites the red zone. */
		ret->nop5 = i->length == 5 && !ret->refused;
		ret->refused |= i->length == 5;
		ret->long_nop = !(i->length == 1 && code[0] == 0x90);
		ret->cheap = !ret->long_nop;
	} else {
		/* push of a register, with no prefix but REX.B */
		unsigned int at = code[0] == 0x41 ? 1 : 0;

		ret->cheap = i->length == at + 1 && code[at] >= 0x50 && code[at] <= 0x57;
	}
}

static void judge_stack(const struct decoded *d, struct insn *ret)
{
	const ZydisDecodedOperand *ops = d->ops;
	bool imm = d->i.operand_count_visible == 2 && ops[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
	bool sp = d->i.operand_count_visible >= 1 && ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		  ops[0].reg.value == ZYDIS_REGISTER_RSP;

	ret->sp_known = true;
	if (d->i.meta.category == ZYDIS_CATEGORY_PUSH) {
		ret->push = true;
		ret->sp_delta = -(int32_t)(d->i.operand_width / 8);
		ret->sp_known = d->i.operand_width == 64;
	} else if (d->i.meta.category == ZYDIS_CATEGORY_POP) {
		ret->sp_delta = (int32_t)(d->i.operand_width / 8);
		ret->sp_known = d->i.operand_width == 64 && !sp;
	} else if (d->i.mnemonic == ZYDIS_MNEMONIC_LEAVE) {
		ret->sp_known = false;
		ret->sp_rises = true;
	} else if (sp && imm && d->i.mnemonic == ZYDIS_MNEMONIC_SUB) {
		ret->sp_delta = -(int32_t)ops[1].imm.value.s;
	} else if (sp && imm && d->i.mnemonic == ZYDIS_MNEMONIC_ADD) {
		ret->sp_delta = (int32_t)ops[1].imm.value.s;
	} else if (sp && d->i.mnemonic == ZYDIS_MNEMONIC_LEA &&
		   ops[1].mem.base == ZYDIS_REGISTER_RSP &&
		   ops[1].mem.index == ZYDIS_REGISTER_NONE) {
		ret->sp_delta = (int32_t)ops[1].mem.disp.value;
	} else {
		for (unsigned int k = 0; k < d->i.operand_count; k++)
			if (ops[k].type == ZYDIS_OPERAND_TYPE_REGISTER &&
			    (ops[k].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
			    wire_register(ops[k].reg.value) == WIRE_REG_RSP)
				ret->sp_known = ret->flow != INSN_PLAIN;
	}
}

static void judge_writes(const struct decoded *d, struct insn *ret)
{
	for (unsigned int k = 0; k < d->i.operand_count; k++) {
		const ZydisDecodedOperand *op = &d->ops[k];
		int reg;

		if (!(op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			continue;
		if (op->type == ZYDIS_OPERAND_TYPE_REGISTER) {
			reg = wire_register(op->reg.value);
			if (reg >= 0 && reg != WIRE_REG_RSP)
				ret->writes |= 1U << reg;
		} else if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
			reg = wire_register(op->mem.base);
			if (reg == WIRE_REG_RSP || reg == WIRE_REG_RBP)
				ret->stores_frame |= !ret->push;
			else
				ret->stores = true;
		}
	}
}

static uint32_t register_bit(ZydisRegister reg)
{
	int r = wire_register(reg);

	return r >= 0 && r != WIRE_REG_RSP ? 1U << r : 0;
}

/* xor %edi,%edi and sub %edi,%edi */
static bool is_zeroing(const struct decoded *d)
{
	const ZydisDecodedOperand *ops = d->ops;

	return (d->i.mnemonic == ZYDIS_MNEMONIC_XOR || d->i.mnemonic == ZYDIS_MNEMONIC_SUB) &&
	       ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       ops[1].type == ZYDIS_OPERAND_TYPE_REGISTER && ops[0].reg.value == ops[1].reg.value &&
	       ops[0].size >= 32;
}

static void judge_reads(const struct decoded *d, struct insn *ret)
{
	for (unsigned int k = 0; k < d->i.operand_count; k++) {
		const ZydisDecodedOperand *op = &d->ops[k];

		if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
			ret->reads |= register_bit(op->mem.base) | register_bit(op->mem.index);
		} else if (op->type == ZYDIS_OPERAND_TYPE_REGISTER) {
			if (op->actions & ZYDIS_OPERAND_ACTION_MASK_READ)
				ret->reads |= register_bit(op->reg.value);
			if ((op->actions & ZYDIS_OPERAND_ACTION_WRITE) && op->size >= 32)
				ret->sets |= register_bit(op->reg.value);
		}
	}
	if (is_zeroing(d))
		ret->reads &= ~register_bit(d->ops[0].reg.value);
}

static void find_copy(const struct decoded *d, struct insn *ret)
{
	const ZydisDecodedOperand *ops = d->ops;

	if (d->i.mnemonic != ZYDIS_MNEMONIC_MOV || d->i.operand_count_visible != 2 ||
	    ops[0].type != ZYDIS_OPERAND_TYPE_REGISTER || ops[0].size != 64 ||
	    ops[1].type != ZYDIS_OPERAND_TYPE_REGISTER || ops[1].size != 64)
		return;
	ret->copy_to = (int8_t)wire_register(ops[0].reg.value);
	ret->copy_from = (int8_t)wire_register(ops[1].reg.value);
	if (ret->copy_from < 0)
		ret->copy_to = -1;
}

static void find_target(const struct decoded *d, uint64_t vaddr, struct insn *ret)
{
	ZyanU64 target;

	if (ret->flow == INSN_PLAIN || ret->flow >= INSN_RET || d->i.operand_count_visible == 0)
		return;
	if (d->ops[0].type == ZYDIS_OPERAND_TYPE_MEMORY && d->ops[0].mem.base != ZYDIS_REGISTER_RIP)
		return;
	if (!ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&d->i, &d->ops[0], vaddr, &target)))
		return;
	ret->target = target;
	ret->target_known = true;
}

static void judge_indirect(const struct decoded *d, struct insn *ret)
{
	const ZydisDecodedOperand *op = &d->ops[0];

	if (ret->flow != INSN_JMP_INDIRECT || d->i.operand_count_visible == 0)
		return;
	ret->notrack = has_prefix(&d->i, 0x3e);
	ret->through_field = op->type == ZYDIS_OPERAND_TYPE_MEMORY &&
			     op->mem.index == ZYDIS_REGISTER_NONE &&
			     op->mem.base != ZYDIS_REGISTER_NONE;
}

static bool decode(const uint8_t *code, size_t n, struct decoded *ret)
{
	ZydisDecoder decoder;

	return ZYAN_SUCCESS(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64,
					     ZYDIS_STACK_WIDTH_64)) &&
	       ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, n, &ret->i, ret->ops));
}

int decode_insn(const uint8_t *code, size_t n, uint64_t vaddr, struct insn *ret)
{
	struct decoded d;

	if (!decode(code, n, &d))
		return -EINVAL;
	*ret = (struct insn){.bytes = d.i.length, .copy_to = -1, .copy_from = -1};
	ret->flow = (uint8_t)flow_of(&d.i, d.ops);
	ret->endbr = d.i.mnemonic == ZYDIS_MNEMONIC_ENDBR64;
	ret->refused = kernel_refuses(&d.i);
	judge_cost(&d.i, code, ret);
	ret->cheap &= !ret->refused;
	judge_stack(&d, ret);
	judge_writes(&d, ret);
	judge_reads(&d, ret);
	find_copy(&d, ret);
	find_target(&d, vaddr, ret);
	judge_indirect(&d, ret);
	return 0;
}

/*
 * A call is E8 rel32, or FF /2 with its prefixes, SIB byte and displacement: 2 to 9 bytes. Every
 * length is tried, because x86 cannot be decoded backwards.
 */
bool insn_call_ends(const uint8_t *code, size_t n)
{
	struct insn i;

	for (size_t len = 2; len <= 9 && len <= n; len++)
		if (decode_insn(code + n - len, len, 0, &i) == 0 && i.bytes == len &&
		    (i.flow == INSN_CALL || i.flow == INSN_CALL_INDIRECT))
			return true;
	return false;
}

/* mov OFFSET(%rdi), %rax, or lea for the field's address. */
static bool is_field(const struct decoded *d)
{
	const ZydisDecodedOperand *ops = d->ops;

	return (d->i.mnemonic == ZYDIS_MNEMONIC_MOV || d->i.mnemonic == ZYDIS_MNEMONIC_LEA) &&
	       d->i.operand_count_visible == 2 && ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       wire_register(ops[0].reg.value) == WIRE_REG_RAX && ops[0].size >= 32 &&
	       ops[1].type == ZYDIS_OPERAND_TYPE_MEMORY && ops[1].mem.base == ZYDIS_REGISTER_RDI &&
	       ops[1].mem.index == ZYDIS_REGISTER_NONE;
}

static bool uses_rax(const struct decoded *d)
{
	for (unsigned int k = 0; k < d->i.operand_count; k++) {
		const ZydisDecodedOperand *op = &d->ops[k];

		if (op->type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    wire_register(op->reg.value) == WIRE_REG_RAX)
			return true;
		if (op->type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    (wire_register(op->mem.base) == WIRE_REG_RAX ||
		     wire_register(op->mem.index) == WIRE_REG_RAX))
			return true;
	}
	return false;
}

static bool writes(const struct decoded *d, int reg)
{
	struct insn i = {0};

	judge_writes(d, &i);
	return i.writes >> reg & 1;
}

bool insn_find_getter(const uint8_t *code, size_t n, int64_t *ret_offset, uint8_t *ret_size)
{
	struct decoded d;
	size_t off = 0;
	bool found = false;

	for (unsigned int k = 0; k < 10 && off < n && decode(code + off, n - off, &d); k++) {
		if (d.i.meta.category == ZYDIS_CATEGORY_RET)
			return found;
		if (d.i.meta.category == ZYDIS_CATEGORY_CALL || (found && uses_rax(&d)))
			return false;
		if (is_field(&d)) {
			bool is_address = d.i.mnemonic == ZYDIS_MNEMONIC_LEA;

			*ret_offset = d.ops[1].mem.disp.value;
			*ret_size = is_address ? 0 : (uint8_t)(d.ops[0].size / 8);
			found = true;
		} else if (!found && writes(&d, WIRE_REG_RDI)) {
			return false;
		}
		off += d.i.length;
	}
	return false;
}

const char *format_insn(const uint8_t *code, size_t n, uint64_t vaddr, char *buf, size_t buf_bytes)
{
	ZydisFormatter formatter;
	struct decoded d;

	snprintf(buf, buf_bytes, "?");
	if (decode(code, n, &d) &&
	    ZYAN_SUCCESS(ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_INTEL)))
		ZydisFormatterFormatInstruction(&formatter, &d.i, d.ops, d.i.operand_count_visible,
						buf, buf_bytes, vaddr, NULL);
	return buf;
}
