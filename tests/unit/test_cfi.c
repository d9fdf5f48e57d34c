/* SPDX-License-Identifier: Apache-2.0 */
#include <dwarf.h>
#include <string.h>

#include "base/cleanup.h"
#include "code/cfi.h"
#include "code/cfi_entry.h"
#include "code/cfi_eval.h"
#include "tests/unit/unit.h"

enum {
	HDR_ADDR = 0x1000,
	FRAME_ADDR = 0x4000,
	CODE = 0x10000,
	FRAME_BYTES = 1 << 15,
	N_FUNCTIONS = 1000,
	HDR_BYTES = 12 + 8 * N_FUNCTIONS,
};

/* Sections that a test makes up. */
struct image {
	uint8_t frame_bytes[FRAME_BYTES];
	uint8_t hdr_bytes[HDR_BYTES];
	struct cfi_out frame;
	struct cfi_out hdr;
	bool debug_frame;
	size_t cie; /* offset of the CIE in use */
};

static void image_init(struct image *m)
{
	m->debug_frame = false;
	m->frame = (struct cfi_out){.buf = m->frame_bytes, .cap = sizeof(m->frame_bytes)};
	m->hdr = (struct cfi_out){.buf = m->hdr_bytes, .cap = sizeof(m->hdr_bytes)};
}

static size_t copy_part(const uint8_t *from, size_t n_from, uint64_t off, void *buf, size_t n)
{
	if (off >= n_from)
		return 0;
	if (n > n_from - off)
		n = n_from - off;
	memcpy(buf, from + off, n);
	return n;
}

static size_t read_image(void *ctx, uint64_t addr, void *buf, size_t n)
{
	struct image *m = ctx;

	if (m->debug_frame)
		return copy_part(m->frame_bytes, m->frame.n, addr, buf, n);
	if (addr >= FRAME_ADDR)
		return copy_part(m->frame_bytes, m->frame.n, addr - FRAME_ADDR, buf, n);
	return addr < HDR_ADDR ? 0 : copy_part(m->hdr_bytes, m->hdr.n, addr - HDR_ADDR, buf, n);
}

static void end_entry(struct image *m, size_t start)
{
	uint32_t length = m->frame.n - start - 4;

	memcpy(m->frame_bytes + start, &length, 4);
}

/* CFA = RSP + 8, RIP at CFA - 8, then more instructions. */
static void add_cie(struct image *m, const char *letters, const void *more, size_t n)
{
	static const uint8_t usual[] = {DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1};
	struct cfi_out *o = &m->frame;

	m->cie = o->n;
	cfi_put_fixed(o, 0, 4);
	cfi_put_fixed(o, m->debug_frame ? 0xffffffff : 0, 4);
	cfi_put_fixed(o, m->debug_frame ? 3 : 1, 1);
	cfi_put(o, letters, strlen(letters) + 1);
	cfi_put_uleb(o, 1);
	cfi_put_sleb(o, -8);
	cfi_put_uleb(o, 16);
	if (letters[0] == 'z') {
		cfi_put_uleb(o, 1);
		cfi_put_fixed(o, DW_EH_PE_pcrel | DW_EH_PE_sdata4, 1);
	}
	cfi_put(o, usual, sizeof(usual));
	cfi_put(o, more, n);
	end_entry(m, m->cie);
}

/* Covers [start, start + bytes). */
static void add_fde(struct image *m, uint64_t start, uint64_t bytes, const void *program, size_t n)
{
	struct cfi_out *o = &m->frame;
	size_t at = o->n;

	cfi_put_fixed(o, 0, 4);
	cfi_put_fixed(o, m->debug_frame ? m->cie : o->n - m->cie, 4);
	if (m->debug_frame) {
		cfi_put_fixed(o, start, 8);
		cfi_put_fixed(o, bytes, 8);
	} else {
		cfi_put_fixed(o, start - (FRAME_ADDR + o->n), 4);
		cfi_put_fixed(o, bytes, 4);
		cfi_put_uleb(o, 0);
	}
	cfi_put(o, program, n);
	end_entry(m, at);
	cfi_put_fixed(&m->hdr, start - HDR_ADDR, 4);
	cfi_put_fixed(&m->hdr, FRAME_ADDR + at - HDR_ADDR, 4);
}

static void start_hdr(struct image *m, uint32_t n_rows)
{
	static const uint8_t head[] = {1, DW_EH_PE_pcrel | DW_EH_PE_sdata4, DW_EH_PE_udata4,
				       DW_EH_PE_datarel | DW_EH_PE_sdata4};

	cfi_put(&m->hdr, head, sizeof(head));
	cfi_put_fixed(&m->hdr, FRAME_ADDR - (HDR_ADDR + 4), 4);
	cfi_put_fixed(&m->hdr, n_rows, 4);
}

static int find(struct image *m, bool by_hdr, uint64_t addr, struct cfi_buf *ret)
{
	struct cfi_source src = {
		.read = read_image,
		.ctx = m,
		.hdr_addr = HDR_ADDR,
		.hdr_bytes = by_hdr ? m->hdr.n : 0,
		.frame_addr = m->debug_frame ? 0 : FRAME_ADDR,
		.frame_bytes = m->frame.n,
		.debug_frame = m->debug_frame,
	};
	struct cfi_table *t;
	int r;

	assert_false(m->frame.overflow || m->hdr.overflow);
	assert_int_equal(cfi_table_new(&t, &src), 0);
	r = cfi_table_find(t, addr, ret);
	assert_null(cfi_table_free(t));
	return r;
}

/* An image with one function whose FDE has this program; the rule at its last byte. */
static int rule_of(const char *letters, const void *program, size_t n, struct cfi_buf *ret)
{
	struct image m;

	image_init(&m);
	start_hdr(&m, 1);
	add_cie(&m, letters, NULL, 0);
	add_fde(&m, CODE, 0x1000, program, n);
	return find(&m, true, CODE + 0xfff, ret);
}

static const struct cfi_value *value_of(const struct cfi_rule *r, unsigned int reg)
{
	for (unsigned int i = 0; i < r->n_values; i++)
		if (r->values[i].reg == reg)
			return &r->values[i];
	return NULL;
}

static void check_value(const struct cfi_buf *b, unsigned int reg, enum cfi_kind kind, int off)
{
	const struct cfi_value *v = value_of(&b->rule, reg);

	assert_non_null(v);
	assert_int_equal(v->kind, kind);
	assert_int_equal(v->off, off);
}

static void check_cfa(const struct cfi_buf *b, unsigned int reg, int off)
{
	assert_int_equal(b->rule.cfa.kind, CFI_REG);
	assert_int_equal(b->rule.cfa.base, reg);
	assert_int_equal(b->rule.cfa.off, off);
}

/* push %rbp at +1, mov %rsp,%rbp at +4, and a far row */
static const uint8_t usual_function[] = {
	DW_CFA_advance_loc | 1,
	DW_CFA_def_cfa_offset,
	16,
	DW_CFA_offset | 6,
	2,
	DW_CFA_advance_loc | 3,
	DW_CFA_def_cfa_register,
	6,
	DW_CFA_advance_loc2,
	0x00,
	0x02,
	DW_CFA_def_cfa,
	7,
	8,
	DW_CFA_restore | 6,
};

static void check_usual_function(struct image *m, bool by_hdr, uint64_t at)
{
	struct cfi_buf b;

	assert_int_equal(find(m, by_hdr, at, &b), CFI_OK);
	check_cfa(&b, WIRE_REG_RSP, 8);
	check_value(&b, WIRE_REG_RIP, CFI_AT_CFA, -8);
	check_value(&b, WIRE_REG_RSP, CFI_CFA, 0);
	assert_null(value_of(&b.rule, WIRE_REG_RBP));
	assert_null(value_of(&b.rule, WIRE_REG_R15));
	/* what nothing is said about: RBX, RBP, R12-R15 are kept, the others are lost in a call */
	assert_int_equal(b.rule.undefined, 0xf37);
	assert_false(b.rule.signal);
	assert_int_equal(find(m, by_hdr, at + 1, &b), CFI_OK);
	check_cfa(&b, WIRE_REG_RSP, 16);
	check_value(&b, WIRE_REG_RBP, CFI_AT_CFA, -16);
	assert_int_equal(find(m, by_hdr, at + 4, &b), CFI_OK);
	check_cfa(&b, WIRE_REG_RBP, 16);
	assert_int_equal(find(m, by_hdr, at + 4 + 0x200, &b), CFI_OK);
	check_cfa(&b, WIRE_REG_RSP, 8);
	assert_null(value_of(&b.rule, WIRE_REG_RBP));
}

static void test_search(void **state)
{
	struct cfi_buf b;
	struct image m;

	image_init(&m);
	start_hdr(&m, 3);
	add_cie(&m, "zR", NULL, 0);
	add_fde(&m, CODE, 0x300, usual_function, sizeof(usual_function));
	add_fde(&m, CODE + 0x300, 0x300, usual_function, sizeof(usual_function));
	add_fde(&m, CODE + 0x700, 0x300, usual_function, sizeof(usual_function));
	for (int by_hdr = 0; by_hdr < 2; by_hdr++) {
		check_usual_function(&m, by_hdr, CODE);
		check_usual_function(&m, by_hdr, CODE + 0x300);
		check_usual_function(&m, by_hdr, CODE + 0x700);
		assert_int_equal(find(&m, by_hdr, CODE - 1, &b), CFI_E_NO_CFI);
		assert_int_equal(find(&m, by_hdr, CODE + 0x600, &b), CFI_E_NO_CFI);
		assert_int_equal(find(&m, by_hdr, CODE + 0xa00, &b), CFI_E_NO_CFI);
		assert_int_equal(find(&m, by_hdr, UINT64_MAX, &b), CFI_E_NO_CFI);
	}
}

/* More rows than one read of the table takes. */
static void test_many_functions(void **state)
{
	struct cfi_buf b;
	struct image m;

	image_init(&m);
	start_hdr(&m, N_FUNCTIONS);
	add_cie(&m, "zR", NULL, 0);
	for (int i = 0; i < N_FUNCTIONS; i++)
		add_fde(&m, CODE + i * 16, 16, usual_function, 5);
	for (int i = 0; i < N_FUNCTIONS; i++) {
		assert_int_equal(find(&m, true, CODE + i * 16, &b), CFI_OK);
		check_cfa(&b, WIRE_REG_RSP, 8);
		assert_int_equal(find(&m, false, CODE + i * 16 + 15, &b), CFI_OK);
		check_cfa(&b, WIRE_REG_RSP, 16);
	}
}

static void test_debug_frame(void **state)
{
	struct image m;

	image_init(&m);
	m.debug_frame = true;
	add_cie(&m, "", NULL, 0);
	add_fde(&m, CODE, 0x300, usual_function, sizeof(usual_function));
	add_cie(&m, "", NULL, 0);
	add_fde(&m, CODE + 0x300, 0x300, usual_function, sizeof(usual_function));
	check_usual_function(&m, false, CODE);
	check_usual_function(&m, false, CODE + 0x300);
}

static void test_register_rules(void **state)
{
	static const uint8_t program[] = {
		DW_CFA_offset_extended,
		3,
		3,
		DW_CFA_offset_extended_sf,
		12,
		4,
		DW_CFA_val_offset,
		13,
		5,
		DW_CFA_val_offset_sf,
		14,
		0x7f,
		DW_CFA_register,
		15,
		1,
		DW_CFA_undefined,
		6,
		DW_CFA_same_value,
		0,
		DW_CFA_GNU_args_size,
		16,
		DW_CFA_GNU_negative_offset_extended,
		5,
		2,
	};
	struct cfi_buf b;

	assert_int_equal(rule_of("zR", program, sizeof(program), &b), CFI_OK);
	check_value(&b, WIRE_REG_RBX, CFI_AT_CFA, -24);
	check_value(&b, WIRE_REG_R12, CFI_AT_CFA, -32);
	check_value(&b, WIRE_REG_R13, CFI_CFA, -40);
	check_value(&b, WIRE_REG_R14, CFI_CFA, 8);
	check_value(&b, WIRE_REG_R15, CFI_REG, 0);
	assert_int_equal(value_of(&b.rule, WIRE_REG_R15)->base, WIRE_REG_RDX);
	check_value(&b, WIRE_REG_RDI, CFI_AT_CFA, 16);
	assert_true(b.rule.undefined & 1U << WIRE_REG_RBP);
	assert_false(b.rule.undefined & 1U << WIRE_REG_RAX);
}

static void test_remembered_state(void **state)
{
	static const uint8_t program[] = {
		DW_CFA_def_cfa_offset, 32, DW_CFA_remember_state, DW_CFA_def_cfa_offset, 8,
		DW_CFA_advance_loc1,   4,  DW_CFA_restore_state,
	};
	struct cfi_buf b;

	assert_int_equal(rule_of("zR", program, sizeof(program), &b), CFI_OK);
	check_cfa(&b, WIRE_REG_RSP, 32);
}

static void test_set_loc(void **state)
{
	uint8_t program[] = {DW_CFA_set_loc, 0, 0, 0, 0, DW_CFA_def_cfa_offset, 24};
	struct cfi_buf b;
	struct image m;
	int32_t distance;

	image_init(&m);
	add_cie(&m, "zR", NULL, 0);
	/* the operand is relative to its own place: behind the FDE's 17 bytes and the opcode */
	distance = CODE + 8 - (int32_t)(FRAME_ADDR + m.frame.n + 18);
	memcpy(program + 1, &distance, 4);
	add_fde(&m, CODE, 16, program, sizeof(program));
	assert_int_equal(find(&m, false, CODE + 7, &b), CFI_OK);
	check_cfa(&b, WIRE_REG_RSP, 8);
	assert_int_equal(find(&m, false, CODE + 8, &b), CFI_OK);
	check_cfa(&b, WIRE_REG_RSP, 24);
}

static void test_signal_frame(void **state)
{
	struct cfi_buf b;
	struct image m;

	assert_int_equal(rule_of("zR", "", 0, &b), CFI_OK);
	assert_false(b.rule.signal);
	image_init(&m);
	add_cie(&m, "zRS", NULL, 0);
	add_fde(&m, CODE, 16, "", 0);
	assert_int_equal(find(&m, false, CODE, &b), CFI_OK);
	assert_true(b.rule.signal);
}

/* The expression that linkers write for .plt: CFA = RSP + 8 + ((RIP & 15) >= 11) * 8. */
static void test_plt_expression(void **state)
{
	static const uint8_t program[] = {
		DW_CFA_def_cfa_expression,
		11,
		DW_OP_breg7,
		8,
		DW_OP_breg16,
		0,
		DW_OP_lit15,
		DW_OP_and,
		DW_OP_lit11,
		DW_OP_ge,
		DW_OP_lit3,
		DW_OP_shl,
		DW_OP_plus,
	};
	struct cfi_frame f = {.known = UINT32_MAX};
	struct cfi_memory memory = {};
	struct cfi_buf b;
	uint64_t cfa;

	assert_int_equal(rule_of("zR", program, sizeof(program), &b), CFI_OK);
	f.r[WIRE_REG_RSP] = 0x7000;
	f.r[WIRE_REG_RIP] = 0x4010 + 10;
	assert_int_equal(cfi_eval_cfa(&b.rule, &f, &memory, &cfa), CFI_EVAL_OK);
	assert_int_equal(cfa, 0x7008);
	f.r[WIRE_REG_RIP]++;
	assert_int_equal(cfi_eval_cfa(&b.rule, &f, &memory, &cfa), CFI_EVAL_OK);
	assert_int_equal(cfa, 0x7010);
}

static void test_register_expressions(void **state)
{
	static const uint8_t program[] = {
		DW_CFA_expression,     3,  2, DW_OP_breg7,       8,
		DW_CFA_val_expression, 12, 2, DW_OP_plus_uconst, 5,
	};
	uint64_t words[2] = {1, 0x1234};
	struct cfi_memory memory = {(const uint8_t *)words, sizeof(words), 0x7000};
	struct cfi_frame f = {.known = UINT32_MAX}, caller;
	struct cfi_buf b;
	uint64_t slot;

	assert_int_equal(rule_of("zR", program, sizeof(program), &b), CFI_OK);
	f.r[WIRE_REG_RSP] = 0x7000;
	cfi_eval_step(&b.rule, &f, &memory, 0x7008, &caller, &slot);
	assert_int_equal(caller.r[WIRE_REG_RBX], 0x1234);
	assert_int_equal(caller.r[WIRE_REG_R12], 0x700d);
	assert_int_equal(caller.r[WIRE_REG_RIP], 1);
	assert_int_equal(slot, 0x7000);
	assert_int_equal(caller.r[WIRE_REG_RSP], 0x7008);
}

static void test_memory_with_holes(void **state)
{
	uint8_t bytes[WIRE_PAGE + 32] = {};
	struct cfi_memory m = {bytes, sizeof(bytes), 0x7ff0, .holes = 2};
	uint64_t v;

	assert_true(cfi_memory_read(&m, 0x7ff8, 8, &v));
	assert_false(cfi_memory_read(&m, 0x7ff9, 8, &v));
	assert_false(cfi_memory_read(&m, 0x8000, 8, &v));
	assert_false(cfi_memory_read(&m, 0x8ffc, 8, &v));
	assert_true(cfi_memory_read(&m, 0x9000, 8, &v));
	m.holes = 5;
	assert_false(cfi_memory_read(&m, 0x7ff8, 8, &v));
	assert_true(cfi_memory_read(&m, 0x8000, 8, &v));
	assert_false(cfi_memory_read(&m, 0x9000, 8, &v));
}

/* An expression as the rule of the CFA, evaluated. */
static int evaluate(const void *ops, size_t n, uint64_t *ret)
{
	uint8_t program[200] = {DW_CFA_def_cfa_expression, n};
	uint64_t words[2] = {0x1122334455667788, 0xffeeddccbbaa9988};
	struct cfi_memory memory = {(const uint8_t *)words, sizeof(words), 0x7000};
	struct cfi_frame f = {.known = UINT32_MAX};
	struct cfi_buf b;

	assert_true(n < 128);
	memcpy(program + 2, ops, n);
	if (rule_of("zR", program, n + 2, &b))
		return -1;
	f.r[WIRE_REG_RSP] = 0x7000;
	return cfi_eval_cfa(&b.rule, &f, &memory, ret);
}

#define EVALUATE(want, ...)                                                       \
	do {                                                                      \
		static const uint8_t ops_[] = {__VA_ARGS__};                      \
		uint64_t v_ = 0;                                                  \
		assert_int_equal(evaluate(ops_, sizeof(ops_), &v_), CFI_EVAL_OK); \
		assert_int_equal(v_, (uint64_t)(want));                           \
	} while (0)

#define EVALUATE_FAILS(result, ...)                                          \
	do {                                                                 \
		static const uint8_t ops_[] = {__VA_ARGS__};                 \
		uint64_t v_ = 0;                                             \
		assert_int_equal(evaluate(ops_, sizeof(ops_), &v_), result); \
	} while (0)

static void test_operations(void **state)
{
	EVALUATE(0x12, DW_OP_const1u, 0x12);
	EVALUATE(-2, DW_OP_const1s, 0xfe);
	EVALUATE(0xfffe, DW_OP_const2u, 0xfe, 0xff);
	EVALUATE(-2, DW_OP_const2s, 0xfe, 0xff);
	EVALUATE(0xfffffffe, DW_OP_const4u, 0xfe, 0xff, 0xff, 0xff);
	EVALUATE(-2, DW_OP_const4s, 0xfe, 0xff, 0xff, 0xff);
	EVALUATE(-2, DW_OP_const8s, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff);
	EVALUATE(300, DW_OP_constu, 0xac, 0x02);
	EVALUATE(-5, DW_OP_consts, 0x7b);
	EVALUATE(0x7010, DW_OP_bregx, 7, 16);
	EVALUATE(0x1122334455667788, DW_OP_breg7, 0, DW_OP_deref);
	EVALUATE(0x7788, DW_OP_breg7, 0, DW_OP_deref_size, 2);
	EVALUATE(1, DW_OP_lit3, DW_OP_lit1, DW_OP_swap, DW_OP_drop);
	EVALUATE(3, DW_OP_lit3, DW_OP_lit1, DW_OP_over);
	EVALUATE(4, DW_OP_lit4, DW_OP_lit3, DW_OP_lit1, DW_OP_pick, 2);
	EVALUATE(3, DW_OP_lit4, DW_OP_lit3, DW_OP_lit1, DW_OP_rot);
	EVALUATE(6, DW_OP_lit3, DW_OP_dup, DW_OP_plus);
	EVALUATE(5, DW_OP_lit5, DW_OP_neg, DW_OP_abs);
	EVALUATE(-6, DW_OP_lit5, DW_OP_not);
	EVALUATE(2, DW_OP_lit7, DW_OP_lit3, DW_OP_div);
	EVALUATE(-7, DW_OP_lit7, DW_OP_const1s, 0xff, DW_OP_div);
	EVALUATE(1, DW_OP_lit7, DW_OP_lit3, DW_OP_mod);
	EVALUATE(21, DW_OP_lit7, DW_OP_lit3, DW_OP_mul);
	EVALUATE(4, DW_OP_lit7, DW_OP_lit3, DW_OP_minus);
	EVALUATE(4, DW_OP_lit7, DW_OP_lit3, DW_OP_xor);
	EVALUATE(12, DW_OP_lit4, DW_OP_lit8, DW_OP_or);
	EVALUATE(-1, DW_OP_const1s, 0xf8, DW_OP_lit4, DW_OP_shra);
	EVALUATE(0x0fffffffffffffff, DW_OP_const1s, 0xf8, DW_OP_lit4, DW_OP_shr);
	EVALUATE(0, DW_OP_lit1, DW_OP_const1u, 64, DW_OP_shl);
	EVALUATE(1, DW_OP_const1s, 0xff, DW_OP_lit0, DW_OP_lt);
	EVALUATE(1, DW_OP_lit2, DW_OP_lit2, DW_OP_le);
	EVALUATE(0, DW_OP_lit2, DW_OP_lit2, DW_OP_gt);
	EVALUATE(1, DW_OP_lit2, DW_OP_lit2, DW_OP_eq);
	EVALUATE(0, DW_OP_lit2, DW_OP_lit2, DW_OP_ne);
	/* if (1) 9 else 5, and a skip over the other branch */
	EVALUATE(9, DW_OP_lit1, DW_OP_bra, 4, 0, DW_OP_lit5, DW_OP_skip, 1, 0, DW_OP_lit9,
		 DW_OP_nop);
	EVALUATE(5, DW_OP_lit0, DW_OP_bra, 4, 0, DW_OP_lit5, DW_OP_skip, 1, 0, DW_OP_lit9,
		 DW_OP_nop);
}

static void test_bad_operations(void **state)
{
	EVALUATE_FAILS(CFI_EVAL_E_RANGE, DW_OP_breg7, 9, DW_OP_deref);
	EVALUATE_FAILS(CFI_EVAL_E_RANGE, DW_OP_lit0, DW_OP_deref);
	EVALUATE_FAILS(CFI_EVAL_E_RANGE, DW_OP_const1s, 0xff, DW_OP_deref);
	EVALUATE_FAILS(CFI_EVAL_E_BAD, DW_OP_plus);
	EVALUATE_FAILS(CFI_EVAL_E_BAD, DW_OP_lit1, DW_OP_plus);
	EVALUATE_FAILS(CFI_EVAL_E_BAD, DW_OP_lit1, DW_OP_drop, DW_OP_nop);
	EVALUATE_FAILS(CFI_EVAL_E_BAD, DW_OP_lit1, DW_OP_lit0, DW_OP_div);
	EVALUATE_FAILS(CFI_EVAL_E_BAD, DW_OP_lit1, DW_OP_lit0, DW_OP_mod);
	EVALUATE_FAILS(CFI_EVAL_E_BAD, DW_OP_pick, 0);
	EVALUATE_FAILS(CFI_EVAL_E_BAD, DW_OP_nop);
	/* loops for ever; pushes for ever */
	EVALUATE_FAILS(CFI_EVAL_E_BAD, DW_OP_lit1, DW_OP_skip, 0xfd, 0xff);
	EVALUATE_FAILS(CFI_EVAL_E_BAD, DW_OP_lit1, DW_OP_skip, 0xfc, 0xff);
	/* refused before elfutils sees them */
	EVALUATE_FAILS(-1, DW_OP_lit1, DW_OP_skip, 0x7f, 0);
	EVALUATE_FAILS(-1, DW_OP_addr, 0, 0, 0, 0, 0, 0, 0, 0);
	EVALUATE_FAILS(-1, DW_OP_call_frame_cfa);
	EVALUATE_FAILS(-1, DW_OP_breg31, 0);
	EVALUATE_FAILS(-1, DW_OP_deref_size, 9);
	EVALUATE_FAILS(-1, DW_OP_const8u, 1);
	EVALUATE_FAILS(-1, DW_OP_constu, 0x80);
}

#define REFUSED(...)                                                                         \
	do {                                                                                 \
		static const uint8_t program_[] = {__VA_ARGS__};                             \
		struct cfi_buf b_;                                                           \
		assert_int_equal(rule_of("zR", program_, sizeof(program_), &b_), CFI_E_BAD); \
	} while (0)

static void test_bad_programs(void **state)
{
	uint8_t bomb[CFI_REMEMBER_MAX + 1];
	struct cfi_buf b;

	REFUSED(DW_CFA_offset | 3);
	REFUSED(DW_CFA_offset | 3, 0x80);
	REFUSED(DW_CFA_advance_loc4, 1, 2, 3);
	REFUSED(DW_CFA_set_loc, 1);
	REFUSED(DW_CFA_restore_state);
	REFUSED(0x1d, 0, 0, 0, 0, 0, 0, 0, 0); /* MIPS */
	REFUSED(0x2d);                         /* SPARC, AArch64 */
	REFUSED(DW_CFA_def_cfa_expression, 5, DW_OP_lit1);
	REFUSED(DW_CFA_def_cfa_expression, 0);
	REFUSED(DW_CFA_def_cfa_expression, 1, DW_OP_call_ref);
	/* a register number that elfutils would allocate 4 GiB for */
	REFUSED(DW_CFA_undefined, 0xff, 0xff, 0xff, 0x7f);
	REFUSED(DW_CFA_register, 3, 0x80, 1);
	/* rules that name registers that are not there */
	REFUSED(DW_CFA_def_cfa, 40, 8);
	REFUSED(DW_CFA_register, 3, 40);
	REFUSED(DW_CFA_def_cfa_offset, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f);
	memset(bomb, DW_CFA_remember_state, sizeof(bomb));
	assert_int_equal(rule_of("zR", bomb, sizeof(bomb) - 1, &b), CFI_OK);
	assert_int_equal(rule_of("zR", bomb, sizeof(bomb), &b), CFI_E_BAD);
}

static void test_bad_augmentation(void **state)
{
	struct cfi_buf b;

	assert_int_equal(rule_of("eh", "", 0, &b), CFI_E_BAD);
	assert_int_equal(rule_of("zX", "", 0, &b), CFI_E_BAD);
	assert_int_equal(rule_of("zRL", "", 0, &b), CFI_E_BAD);
	assert_int_equal(rule_of("zP", "", 0, &b), CFI_E_BAD);
}

/* An FDE whose CIE is an FDE, itself, or nowhere; a length that goes past the end. */
static void test_bad_links(void **state)
{
	static const uint32_t distances[] = {0, 4, 8, 0x7fffffff, 0xfffffff0};
	struct cfi_buf b;
	struct image m;

	for (size_t i = 0; i < ARRAY_SIZE(distances); i++) {
		size_t fde;

		image_init(&m);
		start_hdr(&m, 1);
		add_cie(&m, "zR", NULL, 0);
		fde = m.frame.n;
		add_fde(&m, CODE, 16, usual_function, sizeof(usual_function));
		memcpy(m.frame_bytes + fde + 4, &distances[i], 4);
		assert_int_equal(find(&m, true, CODE, &b), CFI_E_BAD);
		assert_int_equal(find(&m, false, CODE, &b), CFI_E_NO_CFI);
	}
	image_init(&m);
	start_hdr(&m, 1);
	add_cie(&m, "zR", NULL, 0);
	add_fde(&m, CODE, 16, "", 0);
	m.frame.n--;
	assert_int_equal(find(&m, true, CODE, &b), CFI_E_BAD);
}

/* A header that promises more rows than it has is not used; the entries are looked through. */
static void test_bad_hdr(void **state)
{
	struct cfi_buf b;
	struct image m;

	image_init(&m);
	start_hdr(&m, 0x40000000);
	add_cie(&m, "zR", NULL, 0);
	add_fde(&m, CODE, 16, "", 0);
	assert_int_equal(find(&m, true, CODE, &b), CFI_OK);
	m.hdr_bytes[0] = 9;
	assert_int_equal(find(&m, true, CODE, &b), CFI_OK);
	m.hdr.n = 3;
	assert_int_equal(find(&m, true, CODE, &b), CFI_OK);
}

/* Whatever bytes change, nothing breaks and every rule can be evaluated. */
static void test_changed_bytes(void **state)
{
	uint64_t words[8] = {0}, slot, cfa;
	struct cfi_memory memory = {(const uint8_t *)words, sizeof(words), 0x7000};
	struct cfi_frame f = {.known = UINT32_MAX}, caller;
	uint32_t random = 1;
	struct cfi_buf b;
	struct image m;

	f.r[WIRE_REG_RSP] = 0x7000;
	for (int i = 0; i < 20000; i++) {
		image_init(&m);
		start_hdr(&m, 2);
		add_cie(&m, "zR", NULL, 0);
		add_fde(&m, CODE, 0x300, usual_function, sizeof(usual_function));
		add_cie(&m, "zRS", NULL, 0);
		add_fde(&m, CODE + 0x300, 0x300, "\x10\x03\x04\x77\x08\x06\x23\x08\x0f\x02\x77\x08",
			11);
		for (int k = 0; k < 2; k++) {
			random = random * 1664525 + 1013904223;
			m.frame_bytes[(random >> 8) % m.frame.n] = random >> 24;
		}
		for (uint64_t at = CODE; at < CODE + 0x600; at += 0x2ff) {
			if (find(&m, i & 1, at, &b))
				continue;
			if (cfi_eval_cfa(&b.rule, &f, &memory, &cfa))
				continue;
			cfi_eval_step(&b.rule, &f, &memory, cfa, &caller, &slot);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_search),
		cmocka_unit_test(test_many_functions),
		cmocka_unit_test(test_debug_frame),
		cmocka_unit_test(test_register_rules),
		cmocka_unit_test(test_remembered_state),
		cmocka_unit_test(test_set_loc),
		cmocka_unit_test(test_signal_frame),
		cmocka_unit_test(test_plt_expression),
		cmocka_unit_test(test_register_expressions),
		cmocka_unit_test(test_operations),
		cmocka_unit_test(test_bad_operations),
		cmocka_unit_test(test_bad_programs),
		cmocka_unit_test(test_bad_augmentation),
		cmocka_unit_test(test_bad_links),
		cmocka_unit_test(test_bad_hdr),
		cmocka_unit_test(test_changed_bytes),
		cmocka_unit_test(test_memory_with_holes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
