/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/site.h"

#include "bpf/wire.h"
#include "probe/insn.h"

enum { SCAN_INSNS_MAX = 20000, ENTRY_INSNS_MAX = 32, RETURN_INSNS_MAX = 32 };

static bool is_cheap(const struct insn *i, const struct site_rules *rules)
{
	return !i->refused && (i->cheap || (i->long_nop && rules->long_nops));
}

/*
 * The lowest branch target behind the function's first byte: the first basic block ends there. A
 * jump to the first byte itself is a loop around the whole function and ends nothing.
 */
static uint64_t first_target(const struct site_function *f)
{
	uint64_t lowest = f->vaddr + f->code_bytes;
	size_t off = 0;
	struct insn i;

	for (unsigned int n = 0; off < f->code_bytes && n < SCAN_INSNS_MAX; n++) {
		if (decode_insn(f->code + off, f->code_bytes - off, f->vaddr + off, &i) < 0)
			break;
		if ((i.flow == INSN_JCC || i.flow == INSN_JMP) && i.target > f->vaddr &&
		    i.target < lowest)
			lowest = i.target;
		off += i.bytes;
	}
	return lowest;
}

/* holds[r]: the register whose value at the function's first byte is in r now; SITE_LOST: none. */
struct values {
	uint8_t holds[SITE_REGISTERS];
};

static void values_init(struct values *v)
{
	for (unsigned int r = 0; r < SITE_REGISTERS; r++)
		v->holds[r] = (uint8_t)r;
}

static void values_step(struct values *v, const struct insn *i)
{
	uint8_t copied = i->copy_to >= 0 ? v->holds[i->copy_from] : SITE_LOST;

	for (unsigned int r = 0; r < SITE_REGISTERS; r++)
		if (i->writes & (1U << r))
			v->holds[r] = SITE_LOST;
	if (i->copy_to >= 0)
		v->holds[i->copy_to] = copied;
}

/* Where each register's first value is; a register that still has its own comes first. */
static void values_find(const struct values *v, uint8_t *moved)
{
	for (unsigned int r = 0; r < SITE_REGISTERS; r++)
		moved[r] = SITE_LOST;
	for (unsigned int r = 0; r < SITE_REGISTERS; r++)
		if (v->holds[r] != SITE_LOST &&
		    (moved[v->holds[r]] == SITE_LOST || v->holds[r] == r))
			moved[v->holds[r]] = (uint8_t)r;
}

static bool values_kept(const struct values *v, uint32_t keep)
{
	uint8_t moved[SITE_REGISTERS];

	values_find(v, moved);
	for (unsigned int r = 0; r < SITE_REGISTERS; r++)
		if (r != WIRE_REG_RSP && (keep & (1U << r)) && moved[r] == SITE_LOST)
			return false;
	return true;
}

static enum site_stop flow_stop(enum insn_flow flow)
{
	switch (flow) {
	case INSN_RET:
		return SITE_STOP_RETURN;
	case INSN_JMP_INDIRECT:
	case INSN_CALL_INDIRECT:
		return SITE_STOP_INDIRECT;
	case INSN_SYSCALL:
		return SITE_STOP_SYSCALL;
	default:
		return SITE_STOP_OTHER;
	}
}

/* What the instruction does forbids a site behind it, whatever is in the registers. */
static enum site_stop insn_stop(const struct insn *i, uint32_t keep)
{
	bool keeps_sp = keep & (1U << WIRE_REG_RSP);

	if (i->flow != INSN_PLAIN)
		return flow_stop((enum insn_flow)i->flow);
	if (!i->sp_known || (keeps_sp && i->sp_delta))
		return SITE_STOP_STACK;
	if ((keep & SITE_KEEP_MEMORY) && (i->stores || (keeps_sp && i->stores_frame)))
		return SITE_STOP_STORE;
	return SITE_STOP_NONE;
}

/* The search so far. */
struct search {
	struct values values;
	int64_t sp;  /* below its value at the first byte, so never positive */
	bool stored; /* anything: perhaps below SP */
};

static enum site_stop search_step(struct search *s, const struct insn *i, uint32_t keep)
{
	enum site_stop stop = insn_stop(i, keep);

	s->sp += i->sp_delta;
	s->stored |= i->stores || i->stores_frame;
	values_step(&s->values, i);
	if (stop != SITE_STOP_NONE)
		return stop;
	if (s->sp > 0 || s->sp % 8 || s->sp < -8 * 0xffff)
		return SITE_STOP_STACK;
	return values_kept(&s->values, keep) ? SITE_STOP_NONE : SITE_STOP_ARGUMENT;
}

/*
 * A call in place of a nop harms only what lies below SP: nothing, when nothing was stored yet. It is a
 * second choice all the same, as it leads to a system call (Linux 6.18: uprobe), of which a process hears
 * that has asked for its system calls by PR_SET_SYSCALL_USER_DISPATCH.
 */
static bool is_refused(const struct search *s, const struct insn *i)
{
	return i->refused && !(i->nop5 && !s->stored);
}

enum site_result site_choose_entry(const struct site_function *f, uint32_t keep,
				   const struct site_rules *rules, struct site *ret)
{
	uint64_t block_end = first_target(f);
	struct search search = {0};
	struct site dear = {0}, nop = {0};
	enum site_stop stop = SITE_STOP_NONE;
	bool have_dear = false;
	size_t off = 0;
	struct insn i;

	values_init(&search.values);
	for (unsigned int n = 0; n < ENTRY_INSNS_MAX && stop == SITE_STOP_NONE; n++) {
		struct site here = {.vaddr = f->vaddr + off, .off = (uint32_t)off};

		if (here.vaddr >= block_end) {
			stop = SITE_STOP_LOOP;
			break;
		}
		if (decode_insn(f->code + off, f->code_bytes - off, here.vaddr, &i) < 0)
			break;
		here.sp_slots = (uint32_t)(-search.sp / 8);
		values_find(&search.values, here.moved);
		i.refused = is_refused(&search, &i);
		here.cheap = is_cheap(&i, rules);
		if (here.cheap && !i.nop5) {
			*ret = here;
			return SITE_OK;
		}
		if (here.cheap && !nop.cheap)
			nop = here;
		if (!i.refused && !have_dear) {
			dear = here;
			have_dear = true;
		}
		stop = search_step(&search, &i, keep);
		off += i.bytes;
	}
	if (nop.cheap) {
		*ret = nop;
		return SITE_OK;
	}
	dear.stop = (uint8_t)(stop != SITE_STOP_NONE ? stop : SITE_STOP_OTHER);
	if (have_dear)
		*ret = dear;
	return have_dear ? SITE_OK : off ? SITE_E_REFUSED : SITE_E_DECODE;
}

static const char *const stop_texts[] = {
	[SITE_STOP_NONE] = "",
	[SITE_STOP_RETURN] = "it returns before a cheap instruction",
	[SITE_STOP_INDIRECT] = "it jumps or calls through a pointer before a cheap instruction",
	[SITE_STOP_SYSCALL] = "it makes a system call before a cheap instruction",
	[SITE_STOP_LOOP] = "it loops before a cheap instruction",
	[SITE_STOP_ARGUMENT] = "the arguments that are read are gone before a cheap instruction",
	[SITE_STOP_STORE] = "it writes memory before a cheap instruction, perhaps what is read",
	[SITE_STOP_STACK] = "its stack pointer is not known before a cheap instruction",
	[SITE_STOP_OTHER] = "there is none among its first instructions",
};
_Static_assert(sizeof(stop_texts) / sizeof(stop_texts[0]) == SITE_STOP_MAX, "a text for each");

const char *site_stop_text(enum site_stop stop)
{
	return stop < SITE_STOP_MAX ? stop_texts[stop] : "";
}

#define ARGUMENTS                                                             \
	((1U << WIRE_REG_RDI) | (1U << WIRE_REG_RSI) | (1U << WIRE_REG_RDX) | \
	 (1U << WIRE_REG_RCX) | (1U << WIRE_REG_R8) | (1U << WIRE_REG_R9))

uint32_t site_unused_arguments(const struct site_function *f)
{
	uint64_t block_end = first_target(f);
	uint32_t unused = 0, open = ARGUMENTS;
	size_t off = 0;
	struct insn i;

	for (unsigned int n = 0; n < ENTRY_INSNS_MAX && f->vaddr + off < block_end; n++) {
		if (decode_insn(f->code + off, f->code_bytes - off, f->vaddr + off, &i) < 0)
			break;
		/* Jumps and calls pass on all of them, system calls some. */
		if (i.flow != INSN_PLAIN)
			break;
		open &= ~i.reads;
		unused |= open & i.sets;
		open &= ~i.writes;
		off += i.bytes;
	}
	return unused;
}

/* After the instruction SP may be at or below the callee's entry SP, or control is elsewhere. */
static bool ends_return(const struct insn *i)
{
	if (i->flow != INSN_PLAIN)
		return true;
	return i->sp_known ? i->sp_delta < 0 : !i->sp_rises;
}

enum site_result site_choose_return(const struct site_return *at, uint32_t keep,
				    const struct site_rules *rules, struct site *ret)
{
	const uint8_t *code = at->code + at->before;
	size_t code_bytes = at->code_bytes - at->before;
	struct site dear = {0};
	bool have_dear = false;
	size_t off = 0;
	struct insn i;

	if (at->before > at->code_bytes || !insn_call_ends(at->code, at->before))
		return SITE_E_NOT_A_CALL;
	for (unsigned int n = 0; n < RETURN_INSNS_MAX && off < code_bytes; n++) {
		struct site here = {.vaddr = at->vaddr + off, .off = (uint32_t)off};

		if (decode_insn(code + off, code_bytes - off, here.vaddr, &i) < 0)
			break;
		if (is_cheap(&i, rules)) {
			here.cheap = true;
			*ret = here;
			return SITE_OK;
		}
		if (!i.refused && !have_dear) {
			dear = here;
			have_dear = true;
		}
		if (ends_return(&i) || (i.writes & keep))
			break;
		off += i.bytes;
	}
	if (have_dear)
		*ret = dear;
	return have_dear ? SITE_OK : off ? SITE_E_REFUSED : SITE_E_DECODE;
}
