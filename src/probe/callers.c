/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/callers.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "code/section.h"
#include "probe/insn.h"

enum {
	CHUNK_BYTES = 256 << 10,
	JUMPS_MAX = 512,
	TARGETS_MAX = 32,
	FUNCTION_MAX = 1 << 20, /* larger functions are not decoded to verify a call */
	JUMPER_MAX = 4 << 10,   /* nor larger ones to see that they end by a jump */
};

struct search {
	struct binary *b;
	uint64_t targets[TARGETS_MAX]; /* of call rel32 */
	size_t n_targets;
	struct section_slots slots; /* GOT slots of the function */
	struct callers *found;
	uint8_t *chunk;  /* owned, CHUNK_BYTES */
	bool want_stubs; /* first pass: look for PLT stubs instead of calls */
	int error;
};

static void add_target(struct search *s, uint64_t vaddr)
{
	if (s->n_targets < TARGETS_MAX)
		s->targets[s->n_targets++] = vaddr;
}

static int32_t read_rel32(const uint8_t *p)
{
	int32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static bool is_slot(const struct search *s, uint64_t vaddr)
{
	for (size_t i = 0; i < s->slots.n; i++)
		if (s->slots.at[i] == vaddr)
			return true;
	return false;
}

static bool is_target(const struct search *s, uint64_t vaddr)
{
	for (size_t i = 0; i < s->n_targets; i++)
		if (s->targets[i] == vaddr)
			return true;
	return false;
}

/* A straight run of a function's code: from its begin, or from behind what does not go on. */
struct run {
	uint64_t start; /* of the run that the last instruction is in */
	uint64_t at;    /* behind the last instruction */
	bool is_call;   /* that it is */
	bool ended;     /* it does not go on */
	bool computed;  /* the function has jumps to places that only its data tell */
	size_t n_targets;
	uint64_t targets[JUMPS_MAX]; /* of jumps so far, or of the first of them */
};

static void note_insn(struct run *run, const struct insn *i)
{
	if (run->ended)
		run->start = run->at;
	run->at += i->bytes;
	run->is_call = i->flow == INSN_CALL || i->flow == INSN_CALL_INDIRECT;
	run->ended = i->flow == INSN_RET || i->flow == INSN_JMP || i->flow == INSN_JMP_INDIRECT ||
		     i->flow == INSN_STOP;
	run->computed |= i->flow == INSN_JMP_INDIRECT;
	if ((i->flow == INSN_JCC || i->flow == INSN_JMP) && run->n_targets < JUMPS_MAX)
		run->targets[run->n_targets++] = i->target;
}

typedef bool (*insn_fn)(void *ctx, const struct insn *i);

/* Decodes straight on from start; false when bytes are no instruction, or fn says so. */
static bool each_insn(struct binary *b, uint64_t start, uint64_t end, insn_fn fn, void *ctx)
{
	uint8_t code[1024];
	struct insn i = {0};

	for (uint64_t at = start; at < end;) {
		size_t n = module_read_code(binary_module(b), at, code, sizeof(code));
		size_t off = 0;

		while (at < end && off < n && (n < sizeof(code) || off + 15 <= n)) {
			if (decode_insn(code + off, n - off, at, &i) < 0 || !fn(ctx, &i))
				return false;
			off += i.bytes;
			at += i.bytes;
		}
		if (off == 0)
			return false;
	}
	return true;
}

static bool follow_run(void *ctx, const struct insn *i)
{
	note_insn(ctx, i);
	return true;
}

struct entrance {
	uint64_t start, end; /* of the run */
	bool found;
};

static bool match_entrance(void *ctx, const struct insn *i)
{
	struct entrance *e = ctx;

	if (i->flow == INSN_JCC || i->flow == INSN_JMP)
		e->found |= i->target_known && i->target >= e->start && i->target < e->end;
	return !e->found;
}

/*
 * Whether anything jumps into the run. What nothing jumps to, behind an instruction that does not go on,
 * may be data that looks like a call, and a probe would change it.
 */
static bool run_is_reached(struct binary *b, const struct run *run, uint64_t start, uint64_t bytes)
{
	struct entrance e = {.start = run->start, .end = run->at};

	if (run->start == start || run->computed)
		return true;
	/* Most are jumped to from before. */
	for (size_t i = 0; i < run->n_targets; i++)
		if (run->targets[i] >= e.start && run->targets[i] < e.end)
			return true;
	each_insn(b, start, start + bytes, match_entrance, &e);
	return e.found;
}

/*
 * What has unwind rules is code of compilers throughout, whose landing pads and cold parts are jumped to
 * from elsewhere. Without them there may be data.
 */
bool caller_is_real(struct binary *b, uint64_t ret_addr)
{
	struct bounds_function f = {};
	bool has_rules = binary_unwound_function(b, ret_addr - 1, &f);
	struct run run;

	if (!has_rules && !binary_function(b, ret_addr - 1, &f.start, &f.bytes))
		return false;
	if (ret_addr - f.start > FUNCTION_MAX)
		return false;
	run = (struct run){.start = f.start, .at = f.start};
	if (!each_insn(b, f.start, ret_addr, follow_run, &run) || run.at != ret_addr ||
	    !run.is_call)
		return false;
	return has_rules || run_is_reached(b, &run, f.start, f.bytes);
}

static void note_call(struct search *s, uint64_t ret_addr)
{
	struct callers *c = s->found;

	for (size_t i = 0; i < c->n; i++)
		if (c->ret_addr[i] == ret_addr)
			return;
	if (!caller_is_real(s->b, ret_addr))
		return;
	if (c->n == CALLERS_MAX) {
		c->more = true;
		return;
	}
	c->ret_addr[c->n++] = ret_addr;
}

/* A function that may end by a jump to the target, while it is decoded. */
struct jumper {
	const struct search *s;
	uint64_t start, end, at, jump;
	bool found; /* the jump is an instruction of it */
};

static bool leads_there(const struct search *s, const struct insn *i)
{
	if (i->flow == INSN_JMP_INDIRECT)
		return i->target_known && is_slot(s, i->target);
	return is_target(s, i->target);
}

/* False: it is left in another way. A pointer may be one to what mostly leads there, as hooks do. */
static bool follow_jumper(void *ctx, const struct insn *i)
{
	struct jumper *j = ctx;
	bool inside = i->target_known && i->target >= j->start && i->target < j->end;

	j->found |= j->at == j->jump && leads_there(j->s, i);
	j->at += i->bytes;
	switch (i->flow) {
	case INSN_RET:
		return false;
	case INSN_JMP:
	case INSN_JCC:
		return inside || leads_there(j->s, i);
	default:
		return true;
	}
}

static void note_jump(struct search *s, uint64_t jump)
{
	struct callers *c = s->found;
	struct jumper j = {.s = s, .jump = jump};
	uint64_t bytes;

	if (c->n_jumpers == JUMPERS_MAX || !binary_function(s->b, jump, &j.start, &bytes) ||
	    bytes > JUMPER_MAX || is_target(s, j.start))
		return;
	for (size_t i = 0; i < c->n_jumpers; i++)
		if (c->jumpers[i] == j.start)
			return;
	j.at = j.start;
	j.end = j.start + bytes;
	if (each_insn(s->b, j.start, j.end, follow_jumper, &j) && j.found)
		c->jumpers[c->n_jumpers++] = j.start;
}

/* The stub is called at its first instruction: the jump, or an endbr64 or a prefix before it. */
static void note_stub(struct search *s, uint64_t jump)
{
	static const uint8_t leads[] = {0, 1, 4, 5};

	for (size_t i = 0; i < sizeof(leads); i++)
		add_target(s, jump - leads[i]);
}

enum {
	CALL_REL32 = 0xe8,
	JMP_REL32 = 0xe9,
	JMP_REL8 = 0xeb,
	INDIRECT = 0xff,
	JMP_RIP = 0x25,
	CALL_RIP = 0x15,
};

/* "call rel32" */
static void look_at_call(struct search *s, const uint8_t *p, uint64_t vaddr)
{
	uint64_t next = vaddr + 5;

	if (is_target(s, next + (uint64_t)(int64_t)read_rel32(p + 1)))
		note_call(s, next);
}

/* "jmp rel32", "jmp rel8" */
static void look_at_jump(struct search *s, const uint8_t *p, uint64_t vaddr)
{
	int64_t far = 5 + (int64_t)read_rel32(p + 1), near = 2 + (int64_t)(int8_t)p[1];

	if (is_target(s, vaddr + (uint64_t)(p[0] == JMP_REL8 ? near : far)))
		note_jump(s, vaddr);
}

/* A jump or a call through the GOT. */
static void look_at_indirect(struct search *s, const uint8_t *p, uint64_t vaddr)
{
	uint64_t next = vaddr + 6;

	if (!is_slot(s, next + (uint64_t)(int64_t)read_rel32(p + 2)))
		return;
	if (s->want_stubs && p[1] == JMP_RIP)
		note_stub(s, vaddr);
	else if (!s->want_stubs && p[1] == JMP_RIP)
		note_jump(s, vaddr);
	else if (!s->want_stubs && p[1] == CALL_RIP)
		note_call(s, next);
}

/* Each place of a byte at which at least 6 bytes are left; memchr is many times faster than a loop. */
static void search_byte(struct search *s, uint8_t byte, const uint8_t *p, size_t n, uint64_t vaddr)
{
	const uint8_t *end = n < 6 ? p : p + n - 5;

	for (const uint8_t *at = p; at < end && (at = memchr(at, byte, (size_t)(end - at))); at++) {
		uint64_t here = vaddr + (uint64_t)(at - p);

		if (byte == CALL_REL32)
			look_at_call(s, at, here);
		else if (byte == JMP_REL32 || byte == JMP_REL8)
			look_at_jump(s, at, here);
		else
			look_at_indirect(s, at, here);
	}
}

static void search_bytes(struct search *s, const uint8_t *p, size_t n, uint64_t vaddr)
{
	if (!s->want_stubs) {
		search_byte(s, CALL_REL32, p, n, vaddr);
		search_byte(s, JMP_REL32, p, n, vaddr);
		search_byte(s, JMP_REL8, p, n, vaddr);
	}
	if (s->slots.n)
		search_byte(s, INDIRECT, p, n, vaddr);
}

static bool search_section(void *ctx, const char *name, const struct section *sec)
{
	struct search *s = ctx;
	bool is_plt = strncmp(name, ".plt", 4) == 0;

	if (!sec->executable || !sec->has_data || is_plt != s->want_stubs)
		return true;
	/* Chunks overlap, so that no call is cut in two. */
	for (uint64_t off = 0; off < sec->bytes && !s->found->more; off += CHUNK_BYTES - 8) {
		uint64_t left = sec->bytes - off;
		size_t want = left < CHUNK_BYTES ? left : CHUNK_BYTES;
		size_t n = module_read(binary_module(s->b), sec->file_off + off, s->chunk, want);

		search_bytes(s, s->chunk, n, sec->vaddr + off);
		if (n < CHUNK_BYTES)
			break;
	}
	return true;
}

int find_callers(const struct callers_input *in, struct callers *ret)
{
	struct module *m = binary_module(in->binary);
	AUTO_FREE uint8_t *chunk = malloc(CHUNK_BYTES);
	struct search s = {.b = in->binary, .found = ret, .chunk = chunk};
	int r = 0;

	ret->n = ret->n_jumpers = 0;
	ret->more = false;
	if (!chunk)
		return -ENOMEM;
	if (in->vaddr)
		add_target(&s, in->vaddr);
	if (in->symbol && in->symbol[0])
		r = section_got_slots(m, in->symbol, &s.slots);
	if (r == 0 && s.slots.n) {
		s.want_stubs = true;
		section_each(m, search_section, &s);
		s.want_stubs = false;
	}
	if (r == 0 && (s.n_targets || s.slots.n))
		section_each(m, search_section, &s);
	vec_free(&s.slots);
	return r;
}
