/* SPDX-License-Identifier: Apache-2.0 */
/* test_site.c: sites chosen in the first bytes of real functions and after real calls. */
#include <string.h>

#include "bpf/wire.h"
#include "probe/insn.h"
#include "probe/site.h"
#include "unit.h"

static const struct site_rules plain = {.long_nops = false};
static const struct site_rules with_nops = {.long_nops = true};

#define ARGS     ((1U << WIRE_REG_RDI) | (1U << WIRE_REG_RSI))
#define TEXTS    (ARGS | SITE_KEEP_MEMORY)
#define ON_STACK ((1U << WIRE_REG_RSP) | SITE_KEEP_MEMORY)

struct entry_case {
	const char *what;
	uint8_t code[40];
	size_t n;
	uint32_t keep;
	bool cheap;
	uint32_t off;
	uint32_t sp_slots;
};

static const struct entry_case entries[] = {
	{"push %rbp first", {0x55, 0x48, 0x89, 0xe5, 0xc3}, 5, ARGS, true, 0, 0},
	{"endbr64; push %r15", {0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x57, 0xc3}, 7, ARGS, true, 4, 0},
	{"endbr64; sub $24,%rsp; mov %rdi,%rax; call",
	 {0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83, 0xec, 0x18, 0x48, 0x89, 0xf8, 0xe8, 0, 0, 0, 0, 0xc3},
	 17,
	 ARGS,
	 true,
	 11,
	 3},
	{"test %edi,%edi; je", {0x85, 0xff, 0x74, 0x05, 0x31, 0xc0, 0xc3}, 7, ARGS, true, 2, 0},
	{"mov %rsi,%rdi would change what the name reads: stays at the first byte",
	 {0x48, 0x89, 0xf7, 0xe9, 0, 0, 0, 0x10},
	 8,
	 ARGS,
	 false,
	 0,
	 0},
	{"the same without a name", {0x48, 0x89, 0xf7, 0xe9, 0, 0, 0, 0x10}, 8, 0, true, 3, 0},
	{"a store through %rdi could change what the name reads",
	 {0xc7, 0x07, 1, 0, 0, 0, 0xeb, 0x00, 0xc3},
	 9,
	 TEXTS,
	 false,
	 0,
	 0},
	{"the same when the name is the arguments themselves",
	 {0xc7, 0x07, 1, 0, 0, 0, 0xeb, 0x00, 0xc3},
	 9,
	 ARGS,
	 true,
	 6,
	 0},
	{"the stack protector's: sub $24,%rsp; mov %fs:40,%rax; mov %rax,8(%rsp); xor %eax,%eax; call",
	 {0x48, 0x83, 0xec, 0x18, 0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0,
	  0x48, 0x89, 0x44, 0x24, 0x08, 0x31, 0xc0, 0xe8, 0,    0,    0, 0, 0xc3},
	 26,
	 TEXTS,
	 true,
	 20,
	 3},
	{"mov %eax,16(%rsp); call: perhaps an argument on the stack, which the name reads",
	 {0x89, 0x44, 0x24, 0x10, 0xe8, 0, 0, 0, 0, 0xc3},
	 10,
	 ON_STACK,
	 false,
	 0,
	 0},
	{"the same, where nothing on the stack is read",
	 {0x89, 0x44, 0x24, 0x10, 0xe8, 0, 0, 0, 0, 0xc3},
	 10,
	 TEXTS,
	 true,
	 4,
	 0},
	{"endbr64; call with an argument on the stack that is read: SP has not moved",
	 {0xf3, 0x0f, 0x1e, 0xfa, 0xe8, 0, 0, 0, 0, 0xc3},
	 10,
	 ON_STACK,
	 true,
	 4,
	 0},
	{"mov; ret has no cheap instruction", {0x48, 0x89, 0xf8, 0xc3, 0x55}, 5, 0, false, 0, 0},
	{"a loop jumps to the second instruction: the block ends there",
	 {0x48, 0x31, 0xc0, 0x48, 0xff, 0xc0, 0x75, 0xfb, 0xc3},
	 9,
	 0,
	 false,
	 0,
	 0},
	{"and $-64,%rsp: SP is not known behind it",
	 {0x48, 0x83, 0xe4, 0xc0, 0x55, 0xc3},
	 6,
	 0,
	 false,
	 0,
	 0},
	{"4-byte nop without the kernel's help", {0x0f, 0x1f, 0x40, 0, 0xc3}, 5, 0, false, 0, 0},
	{"5-byte nop without the kernel's help: nothing lies below SP that a call in its place would harm",
	 {0x0f, 0x1f, 0x44, 0, 0, 0xc3},
	 6,
	 0,
	 false,
	 0,
	 0},
};

static void entry_sites(void **state)
{
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		const struct entry_case *c = &entries[i];
		struct site_function f = {.code = c->code,
					  .code_bytes = c->n,
					  .vaddr = 0x1000,
					  .function_bytes = c->n};
		struct site s = {0};

		if (site_choose_entry(&f, c->keep, &plain, &s) != SITE_OK || s.cheap != c->cheap ||
		    s.off != c->off || s.sp_slots != c->sp_slots)
			fail_msg("%s: cheap %d off %u slots %u", c->what, s.cheap, s.off,
				 s.sp_slots);
		assert_int_equal(s.vaddr, 0x1000 + s.off);
	}
}

static void copies_are_followed(void **state)
{
	/* mov %rdi,%rbx; mov %rsi,%rdi; xor %esi,%esi; call */
	const uint8_t code[] = {0x48, 0x89, 0xfb, 0x48, 0x89, 0xf7, 0x31,
				0xf6, 0xe8, 0,    0,    0,    0,    0xc3};
	struct site_function f = {.code = code, .code_bytes = sizeof(code), .vaddr = 0x1000};
	struct site s;

	assert_int_equal(site_choose_entry(&f, ARGS, &plain, &s), SITE_OK);
	assert_true(s.cheap);
	assert_int_equal(s.off, 8);
	assert_int_equal(s.moved[WIRE_REG_RDI], WIRE_REG_RBX);
	assert_int_equal(s.moved[WIRE_REG_RSI], WIRE_REG_RDI);
	assert_int_equal(s.moved[WIRE_REG_RDX], WIRE_REG_RDX);
	assert_int_equal(s.moved[WIRE_REG_RBX], SITE_LOST);
}

static void unused_arguments(void **state)
{
	static const struct {
		const char *what;
		uint8_t code[24];
		size_t n;
		uint32_t unused;
	} cases[] = {
		{"xor %edi,%edi; mov %rdx,%rsi; jmp",
		 {0x31, 0xff, 0x48, 0x89, 0xd6, 0xe9, 0, 0, 0, 0},
		 10,
		 ARGS},
		{"mov (%rdi),%rdi; lea 8(%rsi),%rsi: both are read first",
		 {0x48, 0x8b, 0x3f, 0x48, 0x8d, 0x76, 0x08, 0xe9, 0, 0, 0, 0},
		 12,
		 0},
		{"mov $1,%dil; mov $1,%si: the rest of the register stays",
		 {0x40, 0xb7, 0x01, 0x66, 0xbe, 0x01, 0x00, 0xe9, 0, 0, 0, 0},
		 12,
		 0},
		{"call; xor %edi,%edi: the callee may look", {0xe8, 0, 0, 0, 0, 0x31, 0xff}, 7, 0},
		{"push %rdi; xor %edi,%edi", {0x57, 0x31, 0xff, 0xc3}, 4, 0},
		{"mov (%rax,%rsi,8),%rsi; xor %ecx,%ecx",
		 {0x48, 0x8b, 0x34, 0xf0, 0x31, 0xc9, 0xc3},
		 7,
		 1U << WIRE_REG_RCX},
		{"jmp back to the second instruction: the block ends there",
		 {0x31, 0xc0, 0x31, 0xff, 0xeb, 0xfc},
		 6,
		 0},
		{"rep movsb reads %rdi, %rsi and %rcx", {0xf3, 0xa4, 0x31, 0xff, 0xc3}, 5, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct site_function f = {.code = cases[i].code,
					  .code_bytes = cases[i].n,
					  .vaddr = 0x1000,
					  .function_bytes = cases[i].n};

		if (site_unused_arguments(&f) != cases[i].unused)
			fail_msg("%s: %x", cases[i].what, site_unused_arguments(&f));
	}
}

static void long_nops_are_cheap_where_emulated(void **state)
{
	const uint8_t code[] = {0x0f, 0x1f, 0x40, 0, 0xc3};
	struct site_function f = {.code = code, .code_bytes = sizeof(code), .vaddr = 0x1000};
	struct site s;

	assert_int_equal(site_choose_entry(&f, 0, &with_nops, &s), SITE_OK);
	assert_true(s.cheap);
}

static void nops_of_five_bytes_are_left_alone(void **state)
{
	/* mov %rdi,-8(%rsp); nop of 5 bytes; mov -8(%rsp),%rax; ret */
	const uint8_t entry[] = {0x48, 0x89, 0x7c, 0x24, 0xf8, 0x0f, 0x1f, 0x44,
				 0,    0,    0x48, 0x8b, 0x44, 0x24, 0xf8, 0xc3};
	/* call; nop of 5 bytes; mov %rax,%rbx; ret */
	const uint8_t code[] = {0xe8, 0, 0, 0, 0, 0x0f, 0x1f, 0x44, 0, 0, 0x48, 0x89, 0xc3, 0xc3};
	struct site_function f = {.code = entry, .code_bytes = sizeof(entry), .vaddr = 0x1000};
	struct site_return at = {
		.code = code, .code_bytes = sizeof(code), .before = 5, .vaddr = 0x1005};
	struct site s;

	assert_int_equal(site_choose_entry(&f, 0, &with_nops, &s), SITE_OK);
	assert_int_equal(s.vaddr, 0x1000);
	assert_false(s.cheap);
	assert_int_equal(site_choose_return(&at, 0, &with_nops, &s), SITE_OK);
	assert_int_equal(s.vaddr, 0x100a);
}

static void nops_of_five_bytes_are_sites_while_nothing_is_stored(void **state)
{
	static const struct {
		const char *what;
		uint8_t code[24];
		size_t n;
		bool cheap;
		uint32_t off;
	} cases[] = {
		{"nop at the first byte", {0x0f, 0x1f, 0x44, 0, 0, 0xc3}, 6, true, 0},
		{"nop; push: a place that needs no system call comes first",
		 {0x0f, 0x1f, 0x44, 0, 0, 0x53, 0x5b, 0xc3},
		 8,
		 true,
		 5},
		{"endbr64; nop",
		 {0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x1f, 0x44, 0, 0, 0xc3},
		 10,
		 true,
		 4},
		{"sub $24,%rsp; nop",
		 {0x48, 0x83, 0xec, 0x18, 0x0f, 0x1f, 0x44, 0, 0, 0xc3},
		 10,
		 true,
		 4},
		{"lea -8(%rsp),%rax; mov %rdi,(%rax); nop: stored below SP by another register",
		 {0x48, 0x8d, 0x44, 0x24, 0xf8, 0x48, 0x89, 0x38, 0x0f, 0x1f, 0x44, 0, 0, 0xc3},
		 14,
		 false,
		 0},
		{"data16 nop of 5 bytes with a segment prefix: the kernel refuses it",
		 {0x2e, 0x0f, 0x1f, 0x40, 0, 0xc3},
		 6,
		 false,
		 5},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct site_function f = {
			.code = cases[i].code, .code_bytes = cases[i].n, .vaddr = 0x1000};
		struct site s;

		assert_int_equal(site_choose_entry(&f, 0, &with_nops, &s), SITE_OK);
		if (s.cheap != cases[i].cheap || s.off != cases[i].off)
			fail_msg("%s: cheap %d off %u", cases[i].what, s.cheap, s.off);
	}
}

static void reasons_for_dear_sites(void **state)
{
	static const struct {
		uint8_t code[24];
		size_t n;
		uint32_t keep;
		enum site_stop stop;
	} cases[] = {
		{{0x55, 0xc3}, 2, TEXTS, SITE_STOP_NONE},
		/* mov 8(%rdi),%rax; ret */
		{{0x48, 0x8b, 0x47, 0x08, 0xc3}, 5, 0, SITE_STOP_RETURN},
		/* mov (%rdi),%rax; jmp *24(%rax) */
		{{0x48, 0x8b, 0x07, 0xff, 0x60, 0x18}, 6, 0, SITE_STOP_INDIRECT},
		/* mov $39,%eax; syscall; cmp $-4095,%rax; jae */
		{{0xb8, 0x27, 0, 0, 0, 0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0x73, 0x01,
		  0xc3},
		 16,
		 0,
		 SITE_STOP_SYSCALL},
		/* xor %rax,%rax; 1: inc %rax; jne 1b */
		{{0x48, 0x31, 0xc0, 0x48, 0xff, 0xc0, 0x75, 0xfb, 0xc3}, 9, 0, SITE_STOP_LOOP},
		/* mov 8(%rdi),%rdi; jmp */
		{{0x48, 0x8b, 0x7f, 0x08, 0xe9, 0, 0, 0, 0x10}, 9, TEXTS, SITE_STOP_ARGUMENT},
		/* movl $1,(%rdi); jmp */
		{{0xc7, 0x07, 1, 0, 0, 0, 0xeb, 0x00, 0xc3}, 9, TEXTS, SITE_STOP_STORE},
		/* and $-64,%rsp; push %rbp */
		{{0x48, 0x83, 0xe4, 0xc0, 0x55, 0xc3}, 6, 0, SITE_STOP_STACK},
		/* mov %eax,%eax; no instruction */
		{{0x89, 0xc0, 0x06}, 3, 0, SITE_STOP_OTHER},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct site_function f = {
			.code = cases[i].code, .code_bytes = cases[i].n, .vaddr = 0x1000};
		struct site s;

		assert_int_equal(site_choose_entry(&f, cases[i].keep, &plain, &s), SITE_OK);
		assert_int_equal(s.stop, cases[i].stop);
		assert_int_equal(site_stop_text(cases[i].stop)[0] != 0, !s.cheap);
	}
}

static void no_instruction_no_site(void **state)
{
	const uint8_t code[] = {0x06, 0x06};
	struct site_function f = {.code = code, .code_bytes = sizeof(code), .vaddr = 0x1000};
	struct site s;

	assert_int_equal(site_choose_entry(&f, 0, &plain, &s), SITE_E_DECODE);
}

struct return_case {
	const char *what;
	uint8_t code[40];
	size_t before;
	size_t n;
	uint32_t keep;
	enum site_result result;
	bool cheap;
	uint32_t off;
};

static const struct return_case returns[] = {
	{"call; test %eax,%eax; jne",
	 {0xe8, 0, 0, 0, 0, 0x85, 0xc0, 0x75, 0x10},
	 5,
	 9,
	 0,
	 SITE_OK,
	 true,
	 2},
	{"call; mov; jmp",
	 {0xe8, 0, 0, 0, 0, 0x48, 0x89, 0xc3, 0xeb, 0x10},
	 5,
	 10,
	 0,
	 SITE_OK,
	 true,
	 3},
	{"call; call", {0xe8, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0}, 5, 10, 0, SITE_OK, true, 0},
	{"indirect call; add $16,%rsp; jmp",
	 {0xff, 0xd0, 0x48, 0x83, 0xc4, 0x10, 0xeb, 0},
	 2,
	 8,
	 0,
	 SITE_OK,
	 true,
	 4},
	{"call; add $8,%rsp; ret is dear",
	 {0xe8, 0, 0, 0, 0, 0x48, 0x83, 0xc4, 8, 0xc3},
	 5,
	 10,
	 0,
	 SITE_OK,
	 false,
	 0},
	{"call; sub $8,%rsp; jmp: SP goes down first",
	 {0xe8, 0, 0, 0, 0, 0x48, 0x83, 0xec, 8, 0xeb, 0},
	 5,
	 11,
	 0,
	 SITE_OK,
	 false,
	 0},
	{"call; push is a site", {0xe8, 0, 0, 0, 0, 0x50, 0xc3}, 5, 7, 0, SITE_OK, true, 0},
	{"call; syscall may wait: no site behind it",
	 {0xe8, 0, 0, 0, 0, 0x0f, 0x05, 0xeb, 0},
	 5,
	 9,
	 0,
	 SITE_OK,
	 false,
	 0},
	{"call; xor %eax,%eax; jmp with the return value wanted",
	 {0xe8, 0, 0, 0, 0, 0x31, 0xc0, 0xeb, 0},
	 5,
	 9,
	 1U << WIRE_REG_RAX,
	 SITE_OK,
	 false,
	 0},
	{"no call ends here",
	 {0x90, 0x90, 0x90, 0x90, 0x90, 0xeb, 0},
	 5,
	 7,
	 0,
	 SITE_E_NOT_A_CALL,
	 false,
	 0},
	{"call; lock add: refused, jmp behind it",
	 {0xe8, 0, 0, 0, 0, 0xf0, 0x48, 0x01, 0x03, 0xeb, 0},
	 5,
	 11,
	 0,
	 SITE_OK,
	 true,
	 4},
	{"call; lock add; ret",
	 {0xe8, 0, 0, 0, 0, 0xf0, 0x48, 0x01, 0x03, 0xc3},
	 5,
	 10,
	 0,
	 SITE_OK,
	 false,
	 4},
};

static void return_sites(void **state)
{
	for (size_t i = 0; i < sizeof(returns) / sizeof(returns[0]); i++) {
		const struct return_case *c = &returns[i];
		struct site_return at = {
			.code = c->code, .code_bytes = c->n, .before = c->before, .vaddr = 0x2000};
		struct site s = {0};

		if (site_choose_return(&at, c->keep, &plain, &s) != c->result ||
		    (c->result == SITE_OK && (s.cheap != c->cheap || s.off != c->off)))
			fail_msg("%s: cheap %d off %u", c->what, s.cheap, s.off);
	}
}

static void instructions(void **state)
{
	const uint8_t je[] = {0x0f, 0x84, 0x10, 0, 0, 0};
	const uint8_t plt[] = {0xff, 0x25, 0x34, 0x12, 0, 0};
	const uint8_t notrack[] = {0x3e, 0xff, 0xe0};
	const uint8_t call16[] = {0x66, 0xe8, 0, 0, 0, 0};
	const uint8_t loop[] = {0xe2, 0xfe};
	struct insn i;

	assert_int_equal(decode_insn(je, sizeof(je), 0x1000, &i), 0);
	assert_true(i.cheap && i.target_known);
	assert_int_equal(i.target, 0x1016);
	assert_int_equal(decode_insn(plt, sizeof(plt), 0x1000, &i), 0);
	assert_int_equal(i.flow, INSN_JMP_INDIRECT);
	assert_int_equal(i.target, 0x1006 + 0x1234);
	assert_int_equal(decode_insn(notrack, sizeof(notrack), 0, &i), 0);
	assert_true(i.refused);
	assert_int_equal(decode_insn(call16, sizeof(call16), 0, &i), 0);
	assert_false(i.cheap);
	assert_int_equal(decode_insn(loop, sizeof(loop), 0, &i), 0);
	assert_false(i.cheap);
	assert_true(decode_insn(je, 3, 0, &i) < 0);
}

static void fields_that_functions_return(void **state)
{
	static const struct {
		const char *what;
		uint8_t code[20];
		size_t n;
		bool found;
		int64_t offset;
		uint8_t size;
	} cases[] = {
		{"test; je; mov 264(%rdi),%rax; ret",
		 {0x48, 0x85, 0xff, 0x74, 7, 0x48, 0x8b, 0x87, 8, 1, 0, 0, 0xc3},
		 13,
		 true,
		 264,
		 8},
		{"mov 8(%rdi),%eax; ret", {0x8b, 0x47, 8, 0xc3}, 4, true, 8, 4},
		{"lea 104(%rdi),%rax; ret", {0x48, 0x8d, 0x47, 0x68, 0xc3}, 5, true, 104, 0},
		{"push %rbp; mov 8(%rdi),%rax; pop %rbp; ret",
		 {0x55, 0x48, 0x8b, 0x47, 8, 0x5d, 0xc3},
		 7,
		 true,
		 8,
		 8},
		{"mov 8(%rdi),%eax; and $1,%eax; ret", {0x8b, 0x47, 8, 0x83, 0xe0, 1, 0xc3}, 7},
		{"lea 104(%rdi),%rax; mov (%rax),%rax; ret",
		 {0x48, 0x8d, 0x47, 0x68, 0x48, 0x8b, 0, 0xc3},
		 8},
		{"mov (%rdi),%rdi; mov 8(%rdi),%rax; ret",
		 {0x48, 0x8b, 0x3f, 0x48, 0x8b, 0x47, 8, 0xc3},
		 8},
		{"lea 8(%rdi,%rsi),%rax; ret", {0x48, 0x8d, 0x44, 0x37, 8, 0xc3}, 6},
	};

	(void)state;
	for (size_t k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
		int64_t offset = 0;
		uint8_t size = 0;

		print_message("%s\n", cases[k].what);
		assert_int_equal(insn_find_getter(cases[k].code, cases[k].n, &offset, &size),
				 cases[k].found);
		assert_int_equal(offset, cases[k].found ? cases[k].offset : offset);
		assert_int_equal(size, cases[k].found ? cases[k].size : size);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entry_sites),
		cmocka_unit_test(copies_are_followed),
		cmocka_unit_test(unused_arguments),
		cmocka_unit_test(long_nops_are_cheap_where_emulated),
		cmocka_unit_test(nops_of_five_bytes_are_sites_while_nothing_is_stored),
		cmocka_unit_test(reasons_for_dear_sites),
		cmocka_unit_test(nops_of_five_bytes_are_left_alone),
		cmocka_unit_test(no_instruction_no_site),
		cmocka_unit_test(return_sites),
		cmocka_unit_test(instructions),
		cmocka_unit_test(fields_that_functions_return),
	};

	return cmocka_run_group_tests_name("site", tests, NULL, NULL);
}
