/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/rets.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "probe/insn.h"

enum { PARTS_MAX = 4, PART_BYTES_MAX = 256 << 10 };

struct part {
	uint64_t start;
	uint64_t end;
};

struct search {
	struct binary *b;
	struct part parts[PARTS_MAX]; /* the function, and its cold parts */
	size_t n_parts;
	struct rets *found;
};

static const char *const reasons[] = {
	[RETS_OK] = "they can",
	[RETS_E_SIZE] = "its size is not known, or too large",
	[RETS_E_DECODE] = "its code is mixed with data",
	[RETS_E_INDIRECT] =
		"it holds a jump of which it is not known whether it leaves the function",
	[RETS_E_CONDITIONAL] = "a conditional jump leaves it",
	[RETS_E_MANY] = "there are too many",
	[RETS_E_NONE] = "it has none",
	[RETS_E_REFUSED] = "the kernel accepts no probe on one of them",
};
_Static_assert(ARRAY_SIZE(reasons) == RETS_E_MAX, "each result has a text");

const char *rets_reason(enum rets_result r)
{
	return (unsigned int)r < RETS_E_MAX ? reasons[r] : "?";
}

static bool is_inside(const struct search *s, uint64_t vaddr)
{
	for (size_t i = 0; i < s->n_parts; i++)
		if (vaddr >= s->parts[i].start && vaddr < s->parts[i].end)
			return true;
	return false;
}

static int add(struct search *s, const struct insn *i, uint64_t vaddr)
{
	if (i->refused)
		return RETS_E_REFUSED;
	if (s->found->n == RETS_MAX)
		return RETS_E_MANY;
	s->found->at[s->found->n++] = vaddr;
	return RETS_OK;
}

/*
 * The part of the function that a jump goes to: compilers put code that is hardly ever run elsewhere,
 * as a symbol of its own or, in a stripped file, with an .eh_frame entry that is not entered at its
 * start. False: another function.
 */
static bool find_part(const struct search *s, uint64_t target, struct part *ret)
{
	struct symtab *st = binary_symtab(s->b);
	struct symtab_symbol sym;
	uint64_t bytes;

	if (!st || !binary_function(s->b, target, &ret->start, &bytes))
		return false;
	ret->end = ret->start + bytes;
	if (symtab_find_addr(st, target, &sym))
		return strstr(sym.name, ".cold") != NULL;
	return target != ret->start;
}

static int jump_out(struct search *s, const struct insn *i, uint64_t vaddr)
{
	struct part part;

	if (!i->target_known)
		return RETS_E_INDIRECT;
	if (is_inside(s, i->target))
		return RETS_OK;
	if (find_part(s, i->target, &part)) {
		if (s->n_parts == PARTS_MAX || part.end - part.start > PART_BYTES_MAX)
			return RETS_E_SIZE;
		s->parts[s->n_parts++] = part;
		return RETS_OK;
	}
	return i->flow == INSN_JMP ? add(s, i, vaddr) : RETS_E_CONDITIONAL;
}

/*
 * With the frame still there it is a jump table, which stays inside; a "notrack" one is, too, and
 * through a pointer in memory it is a call in the place of a return.
 */
static int jump_indirect(struct search *s, const struct insn *i, uint64_t vaddr)
{
	AUTO_FREE struct cfi_buf *cfi = malloc(sizeof(*cfi));
	int r = cfi ? module_find_cfi(binary_module(s->b), vaddr, cfi) : -ENOMEM;

	if (r < 0)
		return r;
	if (i->notrack || (r == CFI_OK && cfi->rule.cfa.kind == CFI_REG &&
			   (cfi->rule.cfa.base != WIRE_REG_RSP || cfi->rule.cfa.off != 8)))
		return RETS_OK;
	return i->through_field ? add(s, i, vaddr) : RETS_E_INDIRECT;
}

static int look_at(struct search *s, const struct insn *i, uint64_t vaddr)
{
	switch (i->flow) {
	case INSN_RET:
		return add(s, i, vaddr);
	case INSN_JMP:
	case INSN_JCC:
		return jump_out(s, i, vaddr);
	case INSN_JMP_INDIRECT:
		return jump_indirect(s, i, vaddr);
	default:
		return RETS_OK;
	}
}

static int scan(struct search *s, const struct part *part)
{
	size_t bytes = part->end - part->start, off = 0;
	AUTO_FREE uint8_t *code = malloc(bytes);
	int r = RETS_OK;

	if (!code)
		return -ENOMEM;
	if (module_read_code(binary_module(s->b), part->start, code, bytes) < bytes)
		return RETS_E_SIZE;
	while (r == RETS_OK && off < bytes) {
		struct insn i;

		s->found->trouble = part->start + off;
		if (decode_insn(code + off, bytes - off, part->start + off, &i) < 0)
			return RETS_E_DECODE;
		r = look_at(s, &i, part->start + off);
		off += i.bytes;
	}
	return r;
}

int find_rets(struct binary *b, uint64_t vaddr, uint64_t bytes, struct rets *ret)
{
	struct search s = {.b = b, .found = ret};
	uint64_t start;
	int r = RETS_OK;

	*ret = (struct rets){.trouble = vaddr};
	if (!bytes && (!binary_function(b, vaddr, &start, &bytes) || start != vaddr))
		return RETS_E_SIZE;
	if (!bytes || bytes > PART_BYTES_MAX)
		return RETS_E_SIZE;
	s.parts[s.n_parts++] = (struct part){vaddr, vaddr + bytes};
	for (size_t i = 0; r == RETS_OK && i < s.n_parts; i++)
		r = scan(&s, &s.parts[i]);
	if (r == RETS_OK && !ret->n)
		r = RETS_E_NONE;
	return r;
}
