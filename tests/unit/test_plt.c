/* SPDX-License-Identifier: Apache-2.0 */
/* test_plt.c: the linkage stubs of this very program, and of copies of it that lie. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include "base/cleanup.h"
#include "code/plt.h"
#include "code/section.h"
#include "self.h"
#include "tests/unit/unit.h"

/* Nothing else of this program calls it; by its stub. */
static int calls_what_no_other_does(void)
{
	return get_nprocs_conf();
}

struct copy {
	struct module *m;
	struct symtab *st;
};

static void open_copy(struct copy *c, const char *data, size_t n)
{
	int fd = memfd_create("plt", MFD_CLOEXEC);
	struct errmsg e = {};

	assert_int_equal(write(fd, data, n), n);
	if (module_open_fd(&c->m, fd, "/copy", &e))
		fail_msg("%s", e.text);
	assert_int_equal(symtab_new(&c->st, c->m, NULL), 0);
}

static void close_copy(struct copy *c)
{
	symtab_free(c->st);
	module_unref(c->m);
}

/* The stub that calls of this name lead to, 0: none has it. Each address of the section is asked for. */
static uint64_t stub_of(const struct copy *c, const char *name)
{
	static const char *const sections[] = {".plt.sec", ".plt", ".plt.got"};
	struct section s = {};
	char found[256];

	for (size_t i = 0; i < ARRAY_SIZE(sections); i++)
		if (section_find(c->m, sections[i], &s) && s.bytes > 16)
			break;
	for (uint64_t off = 0; off < s.bytes; off++)
		if (plt_find(c->st, c->m, s.vaddr + off, found, sizeof(found)) &&
		    strcmp(found, name) == 0)
			return s.vaddr + off;
	return 0;
}

static void stubs_have_the_names_of_what_they_call(void **state)
{
	const struct self *self = *state;
	char name[256] = "", shorter[8];
	struct section s;
	struct copy c;
	uint64_t at;

	assert_true(calls_what_no_other_does() > 0);
	open_copy(&c, self->data, self->n);
	if (!section_find(c.m, ".rela.plt", &s)) {
		print_message("this compiler calls without stubs\n");
		close_copy(&c);
		skip();
	}
	at = stub_of(&c, "get_nprocs_conf");
	assert_int_not_equal(at, 0);
	assert_int_not_equal(stub_of(&c, "memfd_create"), 0);
	assert_int_not_equal(stub_of(&c, "memfd_create"), at);
	/* From any of its bytes; and those around it are of others. */
	assert_true(plt_find(c.st, c.m, at + 7, name, sizeof(name)));
	assert_string_equal(name, "get_nprocs_conf");
	assert_true(!plt_find(c.st, c.m, at + 16, name, sizeof(name)) ||
		    strcmp(name, "get_nprocs_conf") != 0);
	assert_true(plt_find(c.st, c.m, at, shorter, sizeof(shorter)));
	assert_string_equal(shorter, "get_npr");
	close_copy(&c);
}

static void no_stub(void **state)
{
	const struct self *self = *state;
	char name[256];
	struct copy c;

	open_copy(&c, self->data, self->n);
	assert_false(plt_find(c.st, c.m, (uintptr_t)no_stub - self->bias, name, sizeof(name)));
	assert_false(plt_find(c.st, c.m, 0, name, sizeof(name)));
	assert_false(plt_find(c.st, c.m, UINT64_MAX, name, sizeof(name)));
	close_copy(&c);
}

/* All relocations of the program, changed by fn. */
static void lie(char *data, void (*fn)(Elf64_Rela *rela))
{
	Elf64_Ehdr eh;
	Elf64_Shdr sh;
	Elf64_Rela rela;

	memcpy(&eh, data, sizeof(eh));
	for (size_t i = 0; i < eh.e_shnum; i++) {
		memcpy(&sh, data + eh.e_shoff + i * sizeof(sh), sizeof(sh));
		for (size_t k = 0; sh.sh_type == SHT_RELA && k < sh.sh_size / sizeof(rela); k++) {
			char *at = data + sh.sh_offset + k * sizeof(rela);

			memcpy(&rela, at, sizeof(rela));
			fn(&rela);
			memcpy(at, &rela, sizeof(rela));
		}
	}
}

static void no_such_symbol(Elf64_Rela *rela)
{
	rela->r_info = ELF64_R_INFO(0x7fffffffUL, ELF64_R_TYPE(rela->r_info));
}

static void no_symbol(Elf64_Rela *rela)
{
	rela->r_info = ELF64_R_INFO(0UL, ELF64_R_TYPE(rela->r_info));
}

static void another_slot(Elf64_Rela *rela)
{
	rela->r_offset += 1;
}

static void relocations_that_lie(void **state)
{
	static void (*const lies[])(Elf64_Rela *) = {no_such_symbol, no_symbol, another_slot};
	const struct self *self = *state;

	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		AUTO_FREE char *data = malloc(self->n);
		struct copy c;

		assert_non_null(data);
		memcpy(data, self->data, self->n);
		lie(data, lies[i]);
		open_copy(&c, data, self->n);
		assert_int_equal(stub_of(&c, "get_nprocs_conf"), 0);
		close_copy(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stubs_have_the_names_of_what_they_call),
		cmocka_unit_test(no_stub),
		cmocka_unit_test(relocations_that_lie),
	};

	return cmocka_run_group_tests_name("plt", tests, self_setup, self_teardown);
}
