/* SPDX-License-Identifier: Apache-2.0 */
/* test_callers.c: which bytes that look like a call of a function are one. */
#include <unistd.h>

#include "probe/callers.h"
#include "probe/resolve.h"
#include "unit.h"

/* Each function has one place that looks like a call of the callee; what is behind it has a label. */
#define FUNCTION(name, body) \
	".globl " name "\n"  \
	".type " name ", @function\n" name ":\n" body ".size " name ", . - " name "\n"

__asm__(".text\n" FUNCTION("callers_callee", "	nop\n	ret\n")
	/* the plain case */
	FUNCTION("callers_plain", "	push %rbp\n	call callers_callee\n"
				  "callers_after_plain:\n	pop %rbp\n	ret\n")
	/* behind an early return, jumped to */
	FUNCTION("callers_branch", "	test %edi, %edi\n	jne 1f\n	ret\n"
				   "1:	push %rbp\n	call callers_callee\n"
				   "callers_after_branch:\n	pop %rbp\n	ret\n")
	/* jumped to from behind it */
	FUNCTION("callers_loop", "	jmp 2f\n"
				 "1:	call callers_callee\n"
				 "callers_after_loop:\n	dec %ebx\n"
				 "2:	jne 1b\n	ret\n")
	/* by a table of jumps: where they lead is not known */
	FUNCTION("callers_table", "	jmp *%rax\n"
				  "	call callers_callee\n"
				  "callers_after_table:\n	ret\n")
	/* a table of bytes in the function */
	FUNCTION("callers_data", "	lea 1f(%rip), %rax\n	ret\n"
				 "1:	call callers_callee\n"
				 "callers_after_data:\n	push %rbp\n	push %rbx\n	nop\n")
	/* an operand that looks like a call */
	FUNCTION("callers_operand", "	.byte 0x48, 0xb8\n"
				    "	call callers_callee\n"
				    "callers_after_operand:\n	nop\n	nop\n	nop\n	ret\n")
	/* where an exception is caught: only the tables of the runtime lead there */
	FUNCTION("callers_pad",
		 "	.cfi_startproc\n	.cfi_lsda 0x1b, callers_callee\n	ret\n"
		 "	call callers_callee\n"
		 "callers_after_pad:\n	ret\n	.cfi_endproc\n")
	/* over which it jumps */
	FUNCTION("callers_over", "	jmp 1f\n"
				 "	call callers_callee\n"
				 "callers_after_over:\n	nop\n"
				 "1:	ret\n")
	/* Always end there, or where a hook leads. */
	FUNCTION("callers_wrapper", "	push %rbx\n	call callers_over\n	pop %rbx\n"
				    "	jmp callers_callee\n")
		FUNCTION("callers_hook", "	test %rax, %rax\n	je 1f\n	jmp *%rax\n"
					 "1:	jmp callers_callee\n")
	/* Not always. */
	FUNCTION("callers_maybe", "	test %rax, %rax\n	je 1f\n	ret\n"
				  "1:	jmp callers_callee\n")
		FUNCTION("callers_choice", "	test %rax, %rax\n	je 1f\n	jmp callers_plain\n"
					   "1:	jmp callers_callee\n"));

extern const char callers_callee[], callers_after_plain[], callers_after_branch[],
	callers_after_loop[], callers_after_table[], callers_after_data[], callers_after_over[],
	callers_after_operand[], callers_after_pad[], callers_wrapper[], callers_hook[];

static void what_is_not_reached_is_no_call(void **state)
{
	const struct {
		const char *ret_addr;
		bool is_real;
	} cases[] = {
		{callers_after_plain, true},    {callers_after_branch, true},
		{callers_after_loop, true},     {callers_after_table, true},
		{callers_after_data, false},    {callers_after_over, false},
		{callers_after_operand, false}, {callers_after_pad, true},
	};
	struct endpoint_target callee = {.kind = ENDPOINT_SYMBOL,
					 .symbol = (char *)"callers_callee"};
	struct space_cache *cache;
	struct space *space;
	struct resolve_input in = {.pid = getpid()};
	struct resolved f = {0};
	struct callers *found = calloc(1, sizeof(*found));
	size_t n_real = 0;

	assert_non_null(found);
	assert_int_equal(space_cache_new(&cache), 0);
	assert_int_equal(space_new(&space, cache, getpid()), 0);
	assert_int_equal(space_refresh(space), 0);
	assert_int_equal(binaries_new(&in.binaries, NULL, 0), 0);
	in.space = space;
	assert_int_equal(resolve_function(&in, &callee, &f, NULL), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t at = (uint64_t)(uintptr_t)cases[i].ret_addr - f.bias;

		if (caller_is_real(f.binary, at) != cases[i].is_real)
			fail_msg("case %zu", i);
		n_real += cases[i].is_real;
	}
	assert_int_equal(
		find_callers(&(struct callers_input){.binary = f.binary, .vaddr = f.vaddr}, found),
		0);
	assert_int_equal(found->n, n_real);
	assert_int_equal(found->n_jumpers, 2);
	assert_int_equal(found->jumpers[0], (uint64_t)(uintptr_t)callers_wrapper - f.bias);
	assert_int_equal(found->jumpers[1], (uint64_t)(uintptr_t)callers_hook - f.bias);
	binaries_free(in.binaries);
	space_free(space);
	space_cache_free(cache);
	free(found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_reached_is_no_call),
	};

	return cmocka_run_group_tests_name("callers", tests, NULL, NULL);
}
