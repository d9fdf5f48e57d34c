/* SPDX-License-Identifier: Apache-2.0 */
/* test_rets.c: where functions of this very program are left, and which ones are refused. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "probe/rets.h"
#include "unit.h"

/* clang-format off */
__asm__(
	".text\n"
	"rets_two: .cfi_startproc\n	test %edi, %edi\n	je 1f\n	ret\n1:	push %rbx\n"
	"	.cfi_def_cfa_offset 16\n	pop %rbx\n	.cfi_def_cfa_offset 8\n	ret\n	.cfi_endproc\n"
	".type rets_two, @function\n.size rets_two, .-rets_two\n"
	"rets_tail: .cfi_startproc\n	nop\n	jmp rets_two\n	.cfi_endproc\n"
	".type rets_tail, @function\n.size rets_tail, .-rets_tail\n"
	"rets_maybe: .cfi_startproc\n	test %edi, %edi\n	je rets_two\n	ret\n	.cfi_endproc\n"
	".type rets_maybe, @function\n.size rets_maybe, .-rets_maybe\n"
	"rets_loop: .cfi_startproc\n1:	nop\n	jmp 1b\n	.cfi_endproc\n"
	".type rets_loop, @function\n.size rets_loop, .-rets_loop\n"
	"rets_register: .cfi_startproc\n	jmp *%rax\n	.cfi_endproc\n"
	".type rets_register, @function\n.size rets_register, .-rets_register\n"
	"rets_method: .cfi_startproc\n	jmp *24(%rax)\n	.cfi_endproc\n"
	".type rets_method, @function\n.size rets_method, .-rets_method\n"
	"rets_table: .cfi_startproc\n	notrack jmp *%rax\n	ret\n	.cfi_endproc\n"
	".type rets_table, @function\n.size rets_table, .-rets_table\n"
	"rets_framed: .cfi_startproc\n	push %rbx\n	.cfi_def_cfa_offset 16\n	jmp *%rax\n"
	"	pop %rbx\n	.cfi_def_cfa_offset 8\n	ret\n	.cfi_endproc\n"
	".type rets_framed, @function\n.size rets_framed, .-rets_framed\n"
	"rets_split: .cfi_startproc\n	test %edi, %edi\n	je rets_split.cold\n	ret\n	.cfi_endproc\n"
	".type rets_split, @function\n.size rets_split, .-rets_split\n"
	"	nop\n"
	"rets_split.cold: .cfi_startproc\n	nop\n	ret\n	.cfi_endproc\n"
	".type rets_split.cold, @function\n.size rets_split.cold, .-rets_split.cold\n"
	"rets_data: .cfi_startproc\n	ret\n	.byte 0x06, 0x07\n	.cfi_endproc\n"
	".type rets_data, @function\n.size rets_data, .-rets_data\n"
	"rets_many: .cfi_startproc\n	.rept 65\n	ret\n	.endr\n	.cfi_endproc\n"
	".type rets_many, @function\n.size rets_many, .-rets_many\n");
/* clang-format on */

/* The result for a function of this program; its places become offsets from its first byte. */
static int look(const char *name, struct rets *ret)
{
	AUTO_CLOSE int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct symtab_list list = {0};
	struct binaries *all = NULL;
	struct module *m = NULL;
	struct binary *b = NULL;
	struct errmsg e = {""};
	uint64_t vaddr, bytes;
	int r;

	if (module_open_fd(&m, TAKE_FD(fd), "/proc/self/exe", &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(binaries_new(&all, NULL, 0), 0);
	assert_int_equal(binaries_get(all, m, &b), 0);
	assert_int_equal(symtab_find_name(binary_symtab(b), name, &list), 0);
	assert_int_equal(list.n, 1);
	vaddr = list.at[0].vaddr;
	bytes = list.at[0].size;
	vec_free(&list);
	r = find_rets(b, vaddr, bytes, ret);
	for (size_t i = 0; i < ret->n; i++)
		ret->at[i] -= vaddr;
	binaries_free(all);
	module_unref(m);
	return r;
}

static void places(void **state)
{
	struct rets r;

	assert_int_equal(look("rets_two", &r), RETS_OK);
	assert_int_equal(r.n, 2);
	assert_int_equal(r.at[0], 4);
	assert_int_equal(r.at[1], 7);
	assert_int_equal(look("rets_tail", &r), RETS_OK);
	assert_int_equal(r.n, 1);
	assert_int_equal(r.at[0], 1);
	assert_int_equal(look("rets_method", &r), RETS_OK);
	assert_int_equal(r.n, 1);
	assert_int_equal(look("rets_table", &r), RETS_OK);
	assert_int_equal(r.n, 1);
	assert_int_equal(look("rets_framed", &r), RETS_OK);
	assert_int_equal(r.n, 1);
}

static void cold_part(void **state)
{
	struct rets r;

	assert_int_equal(look("rets_split", &r), RETS_OK);
	assert_int_equal(r.n, 2);
}

static void refusals(void **state)
{
	struct rets r;

	assert_int_equal(look("rets_maybe", &r), RETS_E_CONDITIONAL);
	assert_int_equal(look("rets_loop", &r), RETS_E_NONE);
	assert_int_equal(look("rets_register", &r), RETS_E_INDIRECT);
	assert_int_equal(look("rets_data", &r), RETS_E_DECODE);
	assert_int_equal(look("rets_many", &r), RETS_E_MANY);
	for (int i = 0; i < RETS_E_MAX; i++)
		assert_non_null(rets_reason((enum rets_result)i));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(places),
		cmocka_unit_test(cold_part),
		cmocka_unit_test(refusals),
	};

	return cmocka_run_group_tests_name("rets", tests, NULL, NULL);
}
