/* SPDX-License-Identifier: Apache-2.0 */
#include "code/cfi_entry.h"

#include <dwarf.h>
#include <string.h>

bool cfi_take_fixed(struct cfi_bytes *b, unsigned int n_bytes, uint64_t *ret)
{
	uint64_t v = 0;

	if ((size_t)(b->end - b->at) < n_bytes)
		return false;
	memcpy(&v, b->at, n_bytes);
	b->at += n_bytes;
	b->addr += n_bytes;
	*ret = v;
	return true;
}

static bool take_leb(struct cfi_bytes *b, bool is_signed, uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned int shift = 0; shift < 70; shift += 7) {
		uint64_t byte;

		if (!cfi_take_fixed(b, 1, &byte))
			return false;
		if (shift < 64)
			v |= (byte & 0x7f) << shift;
		if (byte & 0x80)
			continue;
		if (is_signed && (byte & 0x40) && shift + 7 < 64)
			v |= -1ULL << (shift + 7);
		*ret = v;
		return true;
	}
	return false;
}

bool cfi_take_uleb(struct cfi_bytes *b, uint64_t *ret)
{
	return take_leb(b, false, ret);
}

bool cfi_take_sleb(struct cfi_bytes *b, int64_t *ret)
{
	uint64_t v;

	if (!take_leb(b, true, &v))
		return false;
	*ret = (int64_t)v;
	return true;
}

static bool take_value(struct cfi_bytes *b, uint8_t format, uint64_t *ret)
{
	uint64_t v;

	switch (format) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		return cfi_take_fixed(b, 8, ret);
	case DW_EH_PE_uleb128:
		return cfi_take_uleb(b, ret);
	case DW_EH_PE_sleb128:
		return take_leb(b, true, ret);
	case DW_EH_PE_udata2:
		return cfi_take_fixed(b, 2, ret);
	case DW_EH_PE_udata4:
		return cfi_take_fixed(b, 4, ret);
	case DW_EH_PE_sdata2:
		if (!cfi_take_fixed(b, 2, &v))
			return false;
		*ret = (uint64_t)(int16_t)v;
		return true;
	case DW_EH_PE_sdata4:
		if (!cfi_take_fixed(b, 4, &v))
			return false;
		*ret = (uint64_t)(int32_t)v;
		return true;
	default:
		return false;
	}
}

bool cfi_take_encoded(struct cfi_bytes *b, uint8_t encoding, uint64_t data_addr, uint64_t *ret)
{
	uint64_t base, v;

	switch (encoding & 0xf0) {
	case DW_EH_PE_absptr:
		base = 0;
		break;
	case DW_EH_PE_pcrel:
		base = b->addr;
		break;
	case DW_EH_PE_datarel:
		base = data_addr;
		break;
	default:
		return false;
	}
	if (!take_value(b, encoding & 0x0f, &v))
		return false;
	*ret = base + v;
	return true;
}

bool cfi_parse_head(struct cfi_bytes b, bool debug_frame, uint64_t section_addr,
		    struct cfi_head *ret)
{
	unsigned int id_bytes = 4;
	uint64_t length, id, id_addr;

	*ret = (struct cfi_head){.head_bytes = 8};
	if (!cfi_take_fixed(&b, 4, &length))
		return false;
	ret->total_bytes = length + 4;
	if (!length) {
		ret->terminator = true;
		return !debug_frame;
	}
	if (length == 0xffffffff) {
		/* 64-bit DWARF; nothing emits such an .eh_frame */
		if (!debug_frame || !cfi_take_fixed(&b, 8, &length) || length > UINT32_MAX)
			return false;
		id_bytes = 8;
		ret->head_bytes = 20;
		ret->total_bytes = length + 12;
	}
	id_addr = b.addr;
	if (length < id_bytes || !cfi_take_fixed(&b, id_bytes, &id))
		return false;
	if (debug_frame) {
		ret->is_cie = id == (id_bytes == 4 ? 0xffffffff : UINT64_MAX);
		ret->cie_addr = section_addr + id;
	} else {
		ret->is_cie = !id;
		ret->cie_addr = id_addr - id;
	}
	return true;
}

static bool take_augmentation(struct cfi_bytes *b, const char *letters, struct cfi_cie *ret)
{
	uint64_t n, encoding, skipped;
	struct cfi_bytes data;

	if (!*letters)
		return true;
	if (*letters != 'z' || !cfi_take_uleb(b, &n) || n > (size_t)(b->end - b->at))
		return false;
	data = (struct cfi_bytes){.at = b->at, .end = b->at + n, .addr = b->addr};
	b->at += n;
	b->addr += n;
	ret->has_augmentation = true;
	while (*++letters) {
		switch (*letters) {
		case 'R':
			if (!cfi_take_fixed(&data, 1, &encoding))
				return false;
			ret->encoding = encoding;
			break;
		case 'L':
			if (!cfi_take_fixed(&data, 1, &skipped))
				return false;
			break;
		case 'P':
			if (!cfi_take_fixed(&data, 1, &encoding) ||
			    !take_value(&data, encoding & 0x0f, &skipped))
				return false;
			break;
		case 'S':
			ret->signal = true;
			break;
		default:
			return false;
		}
	}
	return true;
}

static bool skip_entry_head(struct cfi_bytes *b, const struct cfi_head *head)
{
	if ((size_t)(b->end - b->at) < head->total_bytes || head->total_bytes < head->head_bytes)
		return false;
	b->end = b->at + head->total_bytes;
	b->at += head->head_bytes;
	b->addr += head->head_bytes;
	return true;
}

bool cfi_parse_cie(struct cfi_bytes b, const struct cfi_head *head, struct cfi_cie *ret)
{
	uint64_t version, return_reg, address_bytes = 8, segment_bytes = 0;
	const char *letters;
	size_t letters_bytes;

	*ret = (struct cfi_cie){};
	if (!head->is_cie || !skip_entry_head(&b, head) || !cfi_take_fixed(&b, 1, &version))
		return false;
	letters = (const char *)b.at;
	letters_bytes = strnlen(letters, b.end - b.at) + 1;
	if (letters_bytes > (size_t)(b.end - b.at))
		return false;
	b.at += letters_bytes;
	b.addr += letters_bytes;
	if (version != 1 && version != 3 && version != 4)
		return false;
	if (version == 4 &&
	    (!cfi_take_fixed(&b, 1, &address_bytes) || !cfi_take_fixed(&b, 1, &segment_bytes)))
		return false;
	if (address_bytes != 8 || segment_bytes || !cfi_take_uleb(&b, &ret->code_align) ||
	    !cfi_take_sleb(&b, &ret->data_align))
		return false;
	if (!(version == 1 ? cfi_take_fixed(&b, 1, &return_reg) : cfi_take_uleb(&b, &return_reg)) ||
	    return_reg >= CFI_REGISTER_MAX)
		return false;
	ret->return_reg = return_reg;
	if (!take_augmentation(&b, letters, ret))
		return false;
	ret->program = b;
	return true;
}

bool cfi_parse_fde(struct cfi_bytes b, const struct cfi_head *head, const struct cfi_cie *cie,
		   struct cfi_fde *ret)
{
	uint64_t start, n, augmentation_bytes;

	if (head->is_cie || !skip_entry_head(&b, head) ||
	    !cfi_take_encoded(&b, cie->encoding, 0, &start) ||
	    !take_value(&b, cie->encoding & 0x0f, &n) || n > UINT64_MAX - start)
		return false;
	if (cie->has_augmentation) {
		if (!cfi_take_uleb(&b, &augmentation_bytes) ||
		    augmentation_bytes > (size_t)(b.end - b.at))
			return false;
		b.at += augmentation_bytes;
		b.addr += augmentation_bytes;
	}
	*ret = (struct cfi_fde){.start = start, .end = start + n, .program = b};
	return true;
}

/* Operands of the operations that may be in an expression: bytes, 0x40: ULEB, 0x80: SLEB. */
static int operand_of(uint8_t op, uint8_t *ret_second)
{
	enum { ULEB = 0x40, SLEB = 0x80 };

	*ret_second = 0;
	if (op >= DW_OP_lit0 && op <= DW_OP_lit31)
		return 0;
	if (op >= DW_OP_breg0 && op <= DW_OP_breg31)
		return SLEB;
	switch (op) {
	case DW_OP_const1u:
	case DW_OP_const1s:
	case DW_OP_pick:
	case DW_OP_deref_size:
		return 1;
	case DW_OP_const2u:
	case DW_OP_const2s:
	case DW_OP_skip:
	case DW_OP_bra:
		return 2;
	case DW_OP_const4u:
	case DW_OP_const4s:
		return 4;
	case DW_OP_const8u:
	case DW_OP_const8s:
		return 8;
	case DW_OP_constu:
	case DW_OP_plus_uconst:
		return ULEB;
	case DW_OP_consts:
		return SLEB;
	case DW_OP_bregx:
		*ret_second = SLEB;
		return ULEB;
	case DW_OP_deref:
	case DW_OP_dup ... DW_OP_over:
	case DW_OP_swap:
	case DW_OP_rot:
	case DW_OP_abs ... DW_OP_plus:
	case DW_OP_shl ... DW_OP_xor:
	case DW_OP_eq ... DW_OP_ne:
	case DW_OP_nop:
		return 0;
	default:
		return -1;
	}
}

static bool skip_operand(struct cfi_bytes *b, int kind)
{
	uint64_t v;
	int64_t s;

	if (kind == 0x40)
		return cfi_take_uleb(b, &v);
	if (kind == 0x80)
		return cfi_take_sleb(b, &s);
	return cfi_take_fixed(b, kind, &v);
}

/* An expression block: its length and its operations. */
static bool skip_expression(struct cfi_bytes *b)
{
	struct cfi_bytes block;
	uint64_t n, op;

	if (!cfi_take_uleb(b, &n) || n > (size_t)(b->end - b->at))
		return false;
	block = (struct cfi_bytes){.at = b->at, .end = b->at + n, .addr = b->addr};
	b->at += n;
	b->addr += n;
	while (block.at < block.end) {
		uint8_t second;
		int first;

		if (!cfi_take_fixed(&block, 1, &op))
			return false;
		first = operand_of(op, &second);
		if (first < 0 || !skip_operand(&block, first) || !skip_operand(&block, second))
			return false;
	}
	return n > 0;
}

static bool skip_register(struct cfi_bytes *b)
{
	uint64_t reg;

	return cfi_take_uleb(b, &reg) && reg < CFI_REGISTER_MAX;
}

/* Skips the operands of an instruction of the extended kind, which has its two high bits clear. */
static bool skip_instruction(struct cfi_bytes *b, uint8_t op)
{
	uint64_t v;
	int64_t s;

	switch (op) {
	case DW_CFA_nop:
	case DW_CFA_remember_state:
	case DW_CFA_restore_state:
		return true;
	case DW_CFA_advance_loc1:
		return cfi_take_fixed(b, 1, &v);
	case DW_CFA_advance_loc2:
		return cfi_take_fixed(b, 2, &v);
	case DW_CFA_advance_loc4:
		return cfi_take_fixed(b, 4, &v);
	case DW_CFA_offset_extended:
	case DW_CFA_def_cfa:
	case DW_CFA_val_offset:
	case DW_CFA_GNU_negative_offset_extended:
		return skip_register(b) && cfi_take_uleb(b, &v);
	case DW_CFA_restore_extended:
	case DW_CFA_undefined:
	case DW_CFA_same_value:
	case DW_CFA_def_cfa_register:
		return skip_register(b);
	case DW_CFA_register:
		/* two operands: each call moves on */
		if (!skip_register(b))
			return false;
		return skip_register(b);
	case DW_CFA_def_cfa_offset:
	case DW_CFA_GNU_args_size:
		return cfi_take_uleb(b, &v);
	case DW_CFA_def_cfa_offset_sf:
		return cfi_take_sleb(b, &s);
	case DW_CFA_offset_extended_sf:
	case DW_CFA_def_cfa_sf:
	case DW_CFA_val_offset_sf:
		return skip_register(b) && cfi_take_sleb(b, &s);
	case DW_CFA_def_cfa_expression:
		return skip_expression(b);
	case DW_CFA_expression:
	case DW_CFA_val_expression:
		return skip_register(b) && skip_expression(b);
	default:
		return false;
	}
}

bool cfi_program_copy(struct cfi_bytes b, uint8_t encoding, struct cfi_out *out)
{
	unsigned int depth = 0;

	while (b.at < b.end) {
		const uint8_t *first = b.at;
		uint64_t op, v;

		if (!cfi_take_fixed(&b, 1, &op))
			return false;
		if (op == DW_CFA_set_loc) {
			if (!cfi_take_encoded(&b, encoding, 0, &v))
				return false;
			cfi_put(out, first, 1);
			cfi_put_fixed(out, v, 8);
			continue;
		}
		if ((op & 0xc0) == DW_CFA_offset && !cfi_take_uleb(&b, &v))
			return false;
		if (!(op & 0xc0) && !skip_instruction(&b, op))
			return false;
		if (op == DW_CFA_remember_state && ++depth > CFI_REMEMBER_MAX)
			return false;
		if (op == DW_CFA_restore_state && !depth--)
			return false;
		cfi_put(out, first, b.at - first);
	}
	return !out->overflow;
}

void cfi_put(struct cfi_out *out, const void *data, size_t n)
{
	if (n > out->cap - out->n) {
		out->overflow = true;
		return;
	}
	if (n)
		memcpy(out->buf + out->n, data, n);
	out->n += n;
}

void cfi_put_fixed(struct cfi_out *out, uint64_t v, unsigned int n_bytes)
{
	cfi_put(out, &v, n_bytes);
}

void cfi_put_uleb(struct cfi_out *out, uint64_t v)
{
	do {
		uint8_t byte = v & 0x7f;

		v >>= 7;
		if (v)
			byte |= 0x80;
		cfi_put(out, &byte, 1);
	} while (v);
}

void cfi_put_sleb(struct cfi_out *out, int64_t v)
{
	bool more = true;

	while (more) {
		uint8_t byte = v & 0x7f;

		v >>= 7;
		more = !((v == 0 && !(byte & 0x40)) || (v == -1 && (byte & 0x40)));
		if (more)
			byte |= 0x80;
		cfi_put(out, &byte, 1);
	}
}
