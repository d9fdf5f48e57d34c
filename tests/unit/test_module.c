/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <libelf.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "code/module.h"
#include "code/module_cache.h"
#include "tests/unit/self.h"
#include "tests/unit/unit.h"

static int file_of(const void *data, size_t n)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, n), n);
	return fd;
}

static void test_own_file(void **state)
{
	const struct self *self = *state;
	uint64_t vaddr = (uint64_t)&test_own_file - self->bias, off, back;
	struct cfi_buf b;
	const uint8_t *id;
	struct errmsg e;
	struct module *m;
	uint8_t code[16];

	assert_int_equal(module_open_fd(&m, file_of(self->data, self->n), "/x", &e), 0);
	assert_int_equal(module_kind(m), MODULE_ELF);
	assert_string_equal(module_path(m), "/x");
	assert_int_equal(module_bytes(m), self->n);
	assert_true(module_id(m) > 0);
	assert_true(module_build_id(m, &id) >= 8 || module_build_id(m, &id) == 0);
	assert_true(module_offset_of_vaddr(m, vaddr, &off));
	assert_true(module_vaddr_of_offset(m, off, &back));
	assert_int_equal(back, vaddr);
	assert_true(module_vaddr_of_mapping(m, off & ~4095ULL, &back));
	assert_int_equal(back, vaddr - off % 4096);
	assert_int_equal(module_read_code(m, vaddr, code, sizeof(code)), sizeof(code));
	assert_memory_equal(code, (const void *)&test_own_file, sizeof(code));
	assert_int_equal(module_find_cfi(m, vaddr, &b), CFI_OK);
	assert_int_equal(b.rule.cfa.base, WIRE_REG_RSP);
	assert_int_equal(b.rule.cfa.off, 8);
	assert_int_equal(module_find_cfi(m, 1, &b), CFI_E_NO_CFI);
	assert_false(module_offset_of_vaddr(m, UINT64_MAX, &off));
	assert_false(module_vaddr_of_offset(m, UINT64_MAX, &off));
	assert_null(module_unref(m));
}

static void test_libelf_handle(void **state)
{
	const struct self *self = *state;
	struct module *m, *again;
	size_t n;

	assert_int_equal(module_open_fd(&m, file_of(self->data, self->n), "/x", NULL), 0);
	assert_non_null(module_elf(m));
	assert_ptr_equal(module_elf(m), module_elf(m));
	assert_int_equal(elf_getshdrnum(module_elf(m), &n), 0);
	assert_true(n > 5);
	again = module_ref(m);
	assert_int_equal(module_refs(m), 2);
	assert_null(module_unref(m));
	assert_non_null(module_elf(again));
	assert_null(module_unref(again));
	assert_null(module_unref(NULL));
}

static void test_own_vdso(void **state)
{
	struct module *m;
	const uint8_t *id;

	assert_int_equal(module_open_own_vdso(&m, NULL), 0);
	assert_int_equal(module_kind(m), MODULE_VDSO);
	assert_string_equal(module_path(m), "[vdso]");
	assert_int_equal(module_fd(m), -1);
	assert_true(module_build_id(m, &id) > 0);
	assert_non_null(module_elf(m));
	module_unref(m);
}

static void check_refused(const void *data, size_t n, const char *why)
{
	int fd = file_of(data, n);
	struct module *m;
	struct errmsg e;

	assert_int_equal(module_open_fd(&m, fd, "/a file", &e), -ENOEXEC);
	assert_non_null(strstr(e.text, "'/a file'"));
	assert_non_null(strstr(e.text, why));
	assert_int_equal(close(fd), 0); /* it was not consumed */
	assert_int_equal(module_open_image(&m, data, n, "/a file", NULL), -ENOEXEC);
}

static void test_refused(void **state)
{
	const struct self *self = *state;
	Elf64_Ehdr h;
	struct errmsg e;
	struct module *m;
	int fd;

	check_refused("", 0, "too short");
	check_refused(self->data, 63, "too short");
	check_refused("#!/bin/sh\n# not an ELF file, but longer than the header of one is ......",
		      70, "not an ELF file");
	check_refused(self->data, 100, "cut off");
	memcpy(&h, self->data, sizeof(h));
	h.e_ident[EI_CLASS] = ELFCLASS32;
	check_refused(&h, sizeof(h), "32-bit");
	h.e_ident[EI_CLASS] = ELFCLASS64;
	h.e_machine = EM_AARCH64;
	check_refused(&h, sizeof(h), "another architecture, aarch64 (ELF machine 183)");
	h.e_machine = EM_X86_64;
	h.e_phnum = 0;
	check_refused(&h, sizeof(h), "program headers");
	h.e_phnum = 1;
	h.e_phoff = UINT64_MAX;
	check_refused(&h, sizeof(h), "cut off");
	fd = open("/proc/self", O_RDONLY | O_CLOEXEC);
	assert_int_equal(module_open_fd(&m, fd, "/x", &e), -ENOEXEC);
	assert_non_null(strstr(e.text, "not a regular file"));
	close(fd);
}

/* The file shrinks while it is open: short reads, no signal. */
static void test_truncated_later(void **state)
{
	const struct self *self = *state;
	uint64_t vaddr = (uint64_t)&test_own_file - self->bias;
	int fd = file_of(self->data, self->n);
	struct cfi_buf b;
	struct module *m;

	assert_int_equal(module_open_fd(&m, fd, "/x", NULL), 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_true(module_find_cfi(m, vaddr, &b) > 0);
	assert_int_equal(module_read_code(m, vaddr, &b, 16), 0);
	module_unref(m);
}

/* Reads through all that a module offers, at addresses inside and outside. */
static void exercise(struct module *m, const struct self *self)
{
	uint64_t vaddr = (uint64_t)&test_own_file - self->bias, v;
	struct cfi_buf b;
	uint8_t code[32];

	for (uint64_t at = vaddr - 512; at < vaddr + 512; at += 61)
		module_find_cfi(m, at, &b);
	module_read_code(m, vaddr, code, sizeof(code));
	module_vaddr_of_mapping(m, 4096, &v);
	module_read(m, UINT64_MAX, code, sizeof(code));
}

/* A stretch of the file where bytes are changed. */
struct stretch {
	uint64_t off;
	uint64_t n;
};

static void find_stretches(const struct self *self, struct stretch ret[3])
{
	const Elf64_Ehdr *h = (const Elf64_Ehdr *)self->data;
	const Elf64_Phdr *p = (const Elf64_Phdr *)(self->data + h->e_phoff);

	ret[0] = (struct stretch){0, sizeof(*h) + sizeof(*p) * h->e_phnum};
	for (int i = 0; i < h->e_phnum; i++) {
		if (p[i].p_type != PT_GNU_EH_FRAME)
			continue;
		ret[1] = (struct stretch){p[i].p_offset, 12};
		/* the table and the start of .eh_frame, which follows it */
		ret[2] = (struct stretch){p[i].p_offset + 12, p[i].p_filesz + 8192};
	}
}

static void test_lying_files(void **state)
{
	const struct self *self = *state;
	int fd = file_of(self->data, self->n);
	struct stretch where[3] = {};
	uint32_t random = 7;

	find_stretches(self, where);
	assert_true(where[2].n > 0);
	for (int i = 0; i < 3000; i++) {
		const struct stretch *s = &where[i % 3];
		struct module *m;
		uint64_t off[8];
		int n = 1 + i % 8, copy = dup(fd);

		for (int k = 0; k < n; k++) {
			char c;

			random = random * 1664525 + 1013904223;
			off[k] = s->off + (random >> 4) % s->n;
			c = (char)(self->data[off[k]] ^ (random >> 24));
			assert_int_equal(pwrite(fd, &c, 1, (off_t)off[k]), 1);
		}
		if (module_open_fd(&m, copy, "/x", NULL)) {
			close(copy);
		} else {
			exercise(m, self);
			module_unref(m);
		}
		for (int k = 0; k < n; k++)
			assert_int_equal(pwrite(fd, self->data + off[k], 1, (off_t)off[k]), 1);
	}
	close(fd);
}

static void test_cache(void **state)
{
	const struct self *self = *state;
	struct module_cache *c;
	struct module *m[5];

	assert_int_equal(module_cache_new(&c, 3), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(module_open_fd(&m[i], file_of(self->data, self->n), "/x", NULL),
				 0);
	assert_true(module_id(m[0]) != module_id(m[1]));
	assert_null(module_cache_get(c, 1, 1));
	for (int i = 0; i < 3; i++)
		assert_int_equal(module_cache_put(c, 1, 100 + i, m[i]), 0);
	assert_ptr_equal(module_cache_get(c, 1, 101), m[1]);
	assert_null(module_cache_get(c, 2, 101));
	/* all in use */
	assert_int_equal(module_cache_put(c, 1, 103, m[3]), -EMFILE);
	module_unref(m[1]);
	module_unref(m[2]);
	assert_ptr_equal(module_cache_get(c, 1, 101), m[1]);
	/* of the two that nobody uses, the one that was not looked up since goes */
	assert_int_equal(module_cache_put(c, 1, 103, m[3]), 0);
	assert_null(module_cache_get(c, 1, 102));
	assert_ptr_equal(module_cache_get(c, 1, 103), m[3]);
	assert_ptr_equal(module_cache_get(c, 1, 100), m[0]);
	assert_int_equal(module_cache_count(c), 3);
	module_cache_free(c);
	module_unref(m[0]);
	module_unref(m[3]);
	module_unref(m[4]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_file),        cmocka_unit_test(test_libelf_handle),
		cmocka_unit_test(test_own_vdso),        cmocka_unit_test(test_refused),
		cmocka_unit_test(test_truncated_later), cmocka_unit_test(test_lying_files),
		cmocka_unit_test(test_cache),
	};

	return cmocka_run_group_tests(tests, self_setup, self_teardown);
}
