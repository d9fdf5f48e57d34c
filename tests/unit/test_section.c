/* SPDX-License-Identifier: Apache-2.0 */
/* test_section.c: sections of this very program, and of files that lie about them. */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "code/section.h"
#include "tests/unit/unit.h"

/* A section (without what a sanitizer puts behind an object) and an object that nothing else has. */
__asm__(".pushsection .section_test, \"a\"\n"
	"section_test_marked: .ascii \"found by name\\0\\0\\0\"\n"
	".popsection\n");
extern const char marked[16] __asm__("section_test_marked") __attribute__((visibility("hidden")));
int section_test_object = 42;
__thread int section_test_of_threads = 43;

static uint64_t bias(void)
{
	const struct link_map *self = NULL;
	void *handle = dlopen(NULL, RTLD_NOW);

	assert_non_null(handle);
	assert_int_equal(dlinfo(handle, RTLD_DI_LINKMAP, &self), 0);
	dlclose(handle);
	return self->l_addr;
}

static struct module *open_copy(const char *data, size_t n)
{
	AUTO_CLOSE int fd = memfd_create("test", MFD_CLOEXEC);
	struct module *m = NULL;
	struct errmsg e = {""};

	assert_int_equal(write(fd, data, n), n);
	if (module_open_fd(&m, TAKE_FD(fd), "/copy", &e))
		fail_msg("%s", e.text);
	return m;
}

static struct module *open_self(char **ret_data, size_t *ret_bytes)
{
	assert_int_equal(read_file(AT_FDCWD, "/proc/self/exe", 1 << 28, ret_data, ret_bytes), 0);
	return open_copy(*ret_data, *ret_bytes);
}

static void found_by_name(void **state)
{
	AUTO_FREE char *data = NULL;
	size_t n;
	struct module *m = open_self(&data, &n);
	struct section s = {};

	assert_true(section_find(m, ".section_test", &s));
	assert_int_equal(s.vaddr + bias(), (uintptr_t)marked);
	assert_int_equal(s.bytes, sizeof(marked));
	assert_true(s.has_data);
	assert_false(s.executable);
	assert_true(section_find(m, ".text", &s));
	assert_true(s.executable);
	assert_true(section_find(m, ".bss", &s));
	assert_false(s.has_data);
	assert_false(section_find(m, ".section_tes", &s));
	module_unref(m);
}

static void read_whole_or_not_at_all(void **state)
{
	AUTO_FREE char *data = NULL;
	AUTO_FREE uint8_t *text = NULL;
	size_t n, bytes = 0;
	struct module *m = open_self(&data, &n);

	assert_int_equal(read_section(m, ".section_test", 15, &text, &bytes), -EFBIG);
	assert_int_equal(read_section(m, ".bss", 1 << 28, &text, &bytes), -ENOENT);
	assert_int_equal(read_section(m, ".none", 16, &text, &bytes), -ENOENT);
	assert_null(text);
	assert_int_equal(read_section(m, ".section_test", 16, &text, &bytes), 0);
	assert_int_equal(bytes, 16);
	assert_memory_equal(text, marked, 16);
	module_unref(m);
}

struct walk {
	const char *until;
	unsigned int n;
};

static bool walk_to(void *ctx, const char *name, const struct section *s)
{
	struct walk *w = ctx;

	w->n++;
	return strcmp(name, w->until) != 0;
}

static void the_walk_ends_when_asked(void **state)
{
	AUTO_FREE char *data = NULL;
	size_t n;
	struct module *m = open_self(&data, &n);
	struct walk all = {.until = "no such name"}, some = {.until = ".text"};

	section_each(m, walk_to, &all);
	section_each(m, walk_to, &some);
	assert_true(some.n > 1);
	assert_true(some.n < all.n);
	module_unref(m);
}

/* The loader has put the address of a function of another library where the slot is. */
static void slots_of_calls_to_other_modules(void **state)
{
	AUTO_FREE char *data = NULL;
	struct section_slots slots = {}, none = {};
	size_t n;
	struct module *m = open_self(&data, &n);

	assert_int_equal(section_got_slots(m, "memfd_create", &slots), 0);
	assert_true(slots.n > 0);
	for (size_t i = 0; i < slots.n; i++)
		assert_int_equal(*(uint64_t *)(slots.at[i] + bias()), (uintptr_t)memfd_create);
	n = slots.n;
	assert_int_equal(section_got_slots(m, "memfd_create@GLIBC_2.27", &slots), 0);
	assert_int_equal(slots.n, 2 * n); /* appended */
	assert_int_equal(section_got_slots(m, "memfd_creat", &none), 0);
	assert_int_equal(section_got_slots(m, "section_test_object", &none), 0);
	assert_int_equal(none.n, 0);
	assert_true(section_has_dynamic_symbol(m, "memfd_create"));
	assert_false(section_has_dynamic_symbol(m, "memfd_creat"));
	vec_free(&slots);
	vec_free(&none);
	module_unref(m);
}

static void objects_of_the_module_have_an_address(void **state)
{
	AUTO_FREE char *data = NULL;
	size_t n;
	struct module *m = open_self(&data, &n);
	uint64_t vaddr = 0;

	assert_true(section_find_object(m, "section_test_object", &vaddr));
	assert_int_equal(*(int *)(vaddr + bias()), 42);
	assert_false(section_find_object(m, "section_test_of_threads", &vaddr));
	assert_false(section_find_object(m, "memfd_create", &vaddr)); /* of another module */
	assert_false(section_find_object(m, "no_such_object", &vaddr));
	module_unref(m);
}

static Elf64_Shdr *header_of(char *data, const char *name)
{
	const Elf64_Ehdr *h = (const Elf64_Ehdr *)data;
	Elf64_Shdr *s = (Elf64_Shdr *)(data + h->e_shoff);
	const char *names = data + s[h->e_shstrndx].sh_offset;

	for (unsigned int i = 1; i < h->e_shnum; i++)
		if (!strcmp(names + s[i].sh_name, name))
			return &s[i];
	fail_msg("no section %s", name);
	return NULL;
}

static int read_changed(const char *data, size_t n)
{
	struct module *m = open_copy(data, n);
	AUTO_FREE uint8_t *text = NULL;
	size_t bytes;
	int r = read_section(m, ".section_test", 1 << 20, &text, &bytes);

	module_unref(m);
	return r;
}

static void headers_that_lie(void **state)
{
	AUTO_FREE char *data = NULL;
	size_t n;
	struct module *m = open_self(&data, &n);
	Elf64_Shdr *s = header_of(data, ".section_test"), was = *s;

	module_unref(m);
	s->sh_size = UINT64_MAX;
	assert_int_equal(read_changed(data, n), -EFBIG);
	*s = was;
	s->sh_offset = n - 8;
	assert_int_equal(read_changed(data, n), -EIO);
	s->sh_offset = UINT64_MAX - 4;
	assert_int_equal(read_changed(data, n), -EIO);
	*s = was;
	s->sh_name = UINT32_MAX;
	assert_int_equal(read_changed(data, n), -ENOENT);
	*s = was;
	assert_int_equal(read_changed(data, n), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(found_by_name),
		cmocka_unit_test(read_whole_or_not_at_all),
		cmocka_unit_test(the_walk_ends_when_asked),
		cmocka_unit_test(slots_of_calls_to_other_modules),
		cmocka_unit_test(objects_of_the_module_have_an_address),
		cmocka_unit_test(headers_that_lie),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
