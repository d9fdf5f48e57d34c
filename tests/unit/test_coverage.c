/* SPDX-License-Identifier: Apache-2.0 */
/* test_coverage.c: how much of this very program has unwind data, and which functions have none. */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "code/coverage.h"
#include "tests/unit/self.h"
#include "tests/unit/unit.h"

/* A function without unwind data, with a second name, between two that have it. */
__asm__(".text\n"
	".balign 16\n"
	".type coverage_has, @function\n"
	"coverage_has: .cfi_startproc\n	.fill 5, 1, 0x90\n	ret\n	.cfi_endproc\n"
	".size coverage_has, . - coverage_has\n"
	".balign 16\n"
	".type coverage_none, @function\n"
	".type coverage_alias, @function\n"
	"coverage_none:\n"
	"coverage_alias: .fill 4000, 1, 0x90\n	ret\n"
	".size coverage_none, . - coverage_none\n"
	".size coverage_alias, . - coverage_alias\n"
	".balign 16\n"
	".type coverage_too, @function\n"
	"coverage_too: .cfi_startproc\n	.fill 5, 1, 0x90\n	ret\n	.cfi_endproc\n"
	".size coverage_too, . - coverage_too\n");

static struct module *open_bytes(const char *data, size_t n)
{
	AUTO_CLOSE int fd = memfd_create("test", MFD_CLOEXEC);
	struct module *m = NULL;

	assert_int_equal(write(fd, data, n), n);
	assert_int_equal(module_open_fd(&m, TAKE_FD(fd), "/self", NULL), 0);
	return m;
}

static struct module *open_self(const struct self *self)
{
	return open_bytes(self->data, self->n);
}

static Elf64_Shdr *find_text(char *data)
{
	Elf64_Ehdr *h = (Elf64_Ehdr *)data;
	Elf64_Shdr *s = (Elf64_Shdr *)(data + h->e_shoff);
	const char *names = data + s[h->e_shstrndx].sh_offset;

	while (strcmp(names + s->sh_name, ".text") != 0)
		s++;
	return s;
}

static void header_that_lies(void **state)
{
	const struct self *self = *state;
	AUTO_FREE char *copy = memcpy(malloc(self->n), self->data, self->n);
	struct coverage honest, c;
	struct module *m = open_self(self);

	assert_int_equal(coverage_read(m, NULL, &honest), 0);
	assert_false(honest.lies);
	module_unref(m);
	find_text(copy)->sh_size = UINT64_MAX / 2;
	m = open_bytes(copy, self->n);
	assert_int_equal(coverage_read(m, NULL, &c), 0);
	assert_true(c.lies);
	assert_in_range(c.code_bytes, honest.code_bytes, self->n);
	module_unref(m);
	find_text(copy)->sh_addr = UINT64_MAX / 2;
	m = open_bytes(copy, self->n);
	assert_int_equal(coverage_read(m, NULL, &c), -ENOENT);
	module_unref(m);
}

static void one_function_without(void **state)
{
	struct module *m = open_self(*state);
	struct symtab *st = NULL;
	struct coverage c;
	size_t n_ours = 0;

	assert_int_equal(symtab_new(&st, m, NULL), 0);
	assert_int_equal(coverage_read(m, st, &c), 0);
	assert_false(c.is_cut);
	/* The C library's start-up code has a few bytes without, which are no functions of a size. */
	assert_in_range(c.code_bytes - c.covered_bytes, 4001, 4001 + 300);
	/* A sanitizer's run time has some, too. */
	assert_in_range(c.n_without, 1, COVERAGE_NAMES);
	for (size_t i = 0; i < c.n_without; i++)
		n_ours += strstr(c.without[i], "coverage_none") ||
			  strstr(c.without[i], "coverage_alias");
	assert_int_equal(n_ours, 1);
	symtab_free(st);
	module_unref(m);
}

static void without_symbols(void **state)
{
	struct module *m = open_self(*state);
	struct coverage c;

	assert_int_equal(coverage_read(m, NULL, &c), 0);
	assert_in_range(c.code_bytes - c.covered_bytes, 4001, 4001 + 300);
	assert_int_equal(c.n_without, 0);
	module_unref(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_function_without),
		cmocka_unit_test(without_symbols),
		cmocka_unit_test(header_that_lies),
	};

	return cmocka_run_group_tests_name("coverage", tests, self_setup, self_teardown);
}
