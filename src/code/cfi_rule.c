/* SPDX-License-Identifier: Apache-2.0 */
#include "code/cfi_rule.h"

#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <libelf.h>
#include <string.h>

#include "base/arch.h"
#include "base/cleanup.h"

/* The made-up file: header, section names, three section headers, .eh_frame. */
static const char section_names[32] = "\0.eh_frame\0.names";
enum { NAME_EH_FRAME = 1, NAME_NAMES = 11, N_SECTIONS = 3 };

struct file_head {
	Elf64_Ehdr ehdr;
	char names[sizeof(section_names)];
	Elf64_Shdr sections[N_SECTIONS];
};

static void put_file_head(struct cfi_out *out, size_t frame_bytes)
{
	struct file_head head = {
		.ehdr = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
				     EV_CURRENT},
			 .e_type = ET_DYN,
			 .e_machine = ARCH_ELF_MACHINE,
			 .e_version = EV_CURRENT,
			 .e_ehsize = sizeof(Elf64_Ehdr),
			 .e_shoff = offsetof(struct file_head, sections),
			 .e_shentsize = sizeof(Elf64_Shdr),
			 .e_shnum = N_SECTIONS,
			 .e_shstrndx = 1},
		.sections = {[1] = {.sh_name = NAME_NAMES,
				    .sh_type = SHT_STRTAB,
				    .sh_offset = offsetof(struct file_head, names),
				    .sh_size = sizeof(section_names)},
			     [2] = {.sh_name = NAME_EH_FRAME,
				    .sh_type = SHT_PROGBITS,
				    .sh_flags = SHF_ALLOC,
				    .sh_offset = sizeof(struct file_head),
				    .sh_size = frame_bytes}},
	};

	memcpy(head.names, section_names, sizeof(section_names));
	cfi_put(out, &head, sizeof(head));
}

/* The length field of an entry that started at `start` of out. */
static void set_length(struct cfi_out *out, size_t start)
{
	uint32_t length;

	if (out->overflow)
		return;
	length = out->n - start - 4;
	memcpy(out->buf + start, &length, 4);
}

/*
 * elfutils starts from the registers that the ABI says a call keeps, but has RAX where RBX should
 * be (backends/x86_64_cfi.c, 0.188). The dynamic linker's trampoline needs RBX.
 */
static const uint8_t abi_correction[] = {
	DW_CFA_same_value,
	WIRE_REG_RBX,
	DW_CFA_undefined,
	WIRE_REG_RAX,
};

static bool put_cie(struct cfi_out *out, const struct cfi_cie *cie)
{
	size_t start = out->n;

	cfi_put_fixed(out, 0, 4); /* length */
	cfi_put_fixed(out, 0, 4); /* CIE id */
	cfi_put_fixed(out, 1, 1); /* version */
	cfi_put(out, cie->signal ? "zRS" : "zR", cie->signal ? 4 : 3);
	cfi_put_uleb(out, cie->code_align);
	cfi_put_sleb(out, cie->data_align);
	cfi_put_fixed(out, cie->return_reg, 1);
	cfi_put_uleb(out, 1); /* augmentation bytes */
	cfi_put_fixed(out, DW_EH_PE_absptr, 1);
	cfi_put(out, abi_correction, sizeof(abi_correction));
	if (!cfi_program_copy(cie->program, cie->encoding, out))
		return false;
	set_length(out, start);
	return true;
}

static bool put_fde(struct cfi_out *out, size_t cie_start, const struct cfi_cie *cie,
		    const struct cfi_fde *fde)
{
	size_t start = out->n;

	cfi_put_fixed(out, 0, 4);                     /* length */
	cfi_put_fixed(out, start + 4 - cie_start, 4); /* distance to the CIE */
	cfi_put_fixed(out, fde->start, 8);
	cfi_put_fixed(out, fde->end - fde->start, 8);
	cfi_put_uleb(out, 0); /* augmentation bytes */
	if (!cfi_program_copy(fde->program, cie->encoding, out))
		return false;
	set_length(out, start);
	return true;
}

/* CFI_OK with the file's bytes in *ret, CFI_E_BAD or -ENOMEM. */
static int make_file(const struct cfi_cie *cie, const struct cfi_fde *fde, struct cfi_out *ret)
{
	size_t programs =
		(cie->program.end - cie->program.at) + (fde->program.end - fde->program.at);
	/* DW_CFA_set_loc grows from 3 bytes or more to 9. */
	size_t cap = sizeof(struct file_head) + 2UL * CFI_PROGRAM_HEADER_MAX + 3 * programs;
	AUTO_FREE uint8_t *buf = calloc(1, cap);
	struct cfi_out out = {.buf = buf, .n = sizeof(struct file_head), .cap = cap};
	size_t end;

	if (!buf)
		return -ENOMEM;
	if (!put_cie(&out, cie) || !put_fde(&out, sizeof(struct file_head), cie, fde) ||
	    out.overflow)
		return CFI_E_BAD;
	end = out.n;
	out.n = 0;
	put_file_head(&out, end - sizeof(struct file_head));
	out.n = end;
	*ret = out;
	buf = NULL;
	return CFI_OK;
}

static bool fits_off(uint64_t v)
{
	return (int64_t)v >= INT32_MIN && (int64_t)v <= INT32_MAX;
}

/* Merges the forms of an operation; false for what does not belong into a call frame rule. */
static bool convert_op(const Dwarf_Op *op, struct cfi_op *ret)
{
	uint8_t code = op->atom;

	*ret = (struct cfi_op){.code = code, .imm = (int64_t)op->number};
	if (code >= DW_OP_lit0 && code <= DW_OP_lit31) {
		*ret = (struct cfi_op){.code = DW_OP_consts, .imm = code - DW_OP_lit0};
		return true;
	}
	if (code >= DW_OP_breg0 && code <= DW_OP_breg31) {
		*ret = (struct cfi_op){
			.code = DW_OP_bregx, .reg = code - DW_OP_breg0, .imm = (int64_t)op->number};
		return ret->reg < WIRE_REG_MAX;
	}
	switch (code) {
	case DW_OP_const1u ... DW_OP_consts:
		ret->code = DW_OP_consts;
		return true;
	case DW_OP_bregx:
		ret->reg = op->number;
		ret->imm = (int64_t)op->number2;
		return op->number < WIRE_REG_MAX;
	case DW_OP_deref:
		*ret = (struct cfi_op){.code = DW_OP_deref_size, .imm = 8};
		return true;
	case DW_OP_deref_size:
		return op->number >= 1 && op->number <= 8;
	default:
		return true; /* cfi_program_copy() lets no others through */
	}
}

/* A branch's distance counts from behind its three bytes; it must lead to an operation or the end. */
static bool set_target(const Dwarf_Op *ops, size_t n, size_t i, struct cfi_op *ret)
{
	uint64_t want = ops[i].offset + 3 + (int16_t)ops[i].number;

	for (size_t k = 0; k < n; k++) {
		if (ops[k].atom != DW_OP_call_frame_cfa && ops[k].offset == want) {
			ret->target = k;
			return true;
		}
	}
	/* The end's offset is not told; an expression that ends in a forward branch is not seen. */
	return false;
}

static bool convert_expression(const Dwarf_Op *ops, size_t n, struct cfi_buf *buf,
			       struct cfi_value *ret)
{
	struct cfi_rule *rule = &buf->rule;
	bool is_value = n && ops[n - 1].atom == DW_OP_stack_value;

	/* The last operation stays as a branch target: it does nothing. */
	if (!n || n > UINT8_MAX || n > (size_t)CFI_OPS_MAX - rule->n_ops)
		return false;
	for (size_t i = 0; i < n; i++) {
		struct cfi_op *op = &buf->ops[rule->n_ops + i];

		if (!convert_op(&ops[i], op))
			return false;
		if ((op->code == DW_OP_bra || op->code == DW_OP_skip) && !set_target(ops, n, i, op))
			return false;
	}
	ret->kind = is_value ? CFI_EXPR : CFI_AT_EXPR;
	ret->n_ops = n;
	ret->off = rule->n_ops;
	rule->n_ops += n;
	return true;
}

static bool convert_cfa(Dwarf_Frame *frame, struct cfi_buf *buf)
{
	struct cfi_value *cfa = &buf->rule.cfa;
	Dwarf_Op *ops;
	size_t n;

	if (dwarf_frame_cfa(frame, &ops, &n) || !n)
		return false;
	if (n > 1 || ops[0].atom != DW_OP_bregx) {
		if (!convert_expression(ops, n, buf, cfa))
			return false;
		cfa->kind = CFI_EXPR; /* an expression of the CFA is its value */
		return true;
	}
	cfa->kind = CFI_REG;
	cfa->base = ops[0].number;
	cfa->off = (int32_t)ops[0].number2;
	return ops[0].number < WIRE_REG_MAX && fits_off(ops[0].number2);
}

static bool convert_simple(const Dwarf_Op *ops, size_t n, struct cfi_value *ret)
{
	bool is_value = ops[n - 1].atom == DW_OP_stack_value;
	uint64_t off = 0;

	if (ops[0].atom == DW_OP_regx) {
		ret->kind = CFI_REG;
		ret->base = ops[0].number;
		return ops[0].number < WIRE_REG_MAX;
	}
	if (ops[0].atom != DW_OP_call_frame_cfa)
		return false;
	if (n > 1 && ops[1].atom == DW_OP_plus_uconst)
		off = ops[1].number;
	ret->kind = is_value ? CFI_CFA : CFI_AT_CFA;
	ret->off = (int32_t)off;
	return fits_off(off);
}

static bool convert_register(Dwarf_Frame *frame, unsigned int reg, struct cfi_buf *buf)
{
	struct cfi_rule *rule = &buf->rule;
	struct cfi_value value = {.reg = reg};
	Dwarf_Op mem[3], *ops;
	size_t n;

	if (dwarf_frame_register(frame, (int)reg, mem, &ops, &n))
		return false;
	if (!n && !ops)
		return true; /* the same value */
	if (!n) {
		rule->undefined |= 1U << reg;
		return true;
	}
	if (!(ops == mem ? convert_simple(ops, n, &value)
			 : convert_expression(ops, n, buf, &value)))
		return false;
	rule->values[rule->n_values++] = value;
	return true;
}

static int convert_frame(Dwarf_Frame *frame, struct cfi_buf *ret)
{
	struct cfi_rule *rule = &ret->rule;
	int return_reg;

	*rule = (struct cfi_rule){.ops = ret->ops};
	return_reg = dwarf_frame_info(frame, NULL, NULL, &rule->signal);
	if (return_reg != ARCH_PC || !convert_cfa(frame, ret))
		return CFI_E_BAD;
	for (unsigned int reg = 0; reg < WIRE_REG_MAX; reg++)
		if (!convert_register(frame, reg, ret))
			return CFI_E_BAD;
	return CFI_OK;
}

DEFINE_CLEANUP(Elf *, elf_end)
DEFINE_CLEANUP(Dwarf_CFI *, dwarf_cfi_end)

int cfi_rule_make(const struct cfi_cie *cie, const struct cfi_fde *fde, uint64_t addr,
		  struct cfi_buf *ret)
{
	AUTO_FREE uint8_t *file = NULL; /* first, so that it goes last */
	CLEANUP(elf_endp) Elf *elf = NULL;
	CLEANUP(dwarf_cfi_endp) Dwarf_CFI *cfi = NULL;
	AUTO_FREE Dwarf_Frame *frame = NULL;
	struct cfi_out out;
	int r;

	if (addr < fde->start || addr >= fde->end)
		return CFI_E_NO_CFI;
	r = make_file(cie, fde, &out);
	if (r)
		return r;
	file = out.buf;
	elf_version(EV_CURRENT);
	elf = elf_memory((char *)file, out.n);
	if (!elf)
		return -ENOMEM;
	cfi = dwarf_getcfi_elf(elf);
	if (!cfi || dwarf_cfi_addrframe(cfi, addr, &frame))
		return CFI_E_BAD;
	return convert_frame(frame, ret);
}
