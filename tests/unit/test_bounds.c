/* SPDX-License-Identifier: Apache-2.0 */
/* test_bounds.c: functions of this very program, by the table that is left when symbols are gone. */
#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "code/bounds.h"
#include "tests/unit/self.h"
#include "tests/unit/unit.h"

/* Two functions with a gap between them that belongs to none. */
__asm__(".text\n"
	"bounds_first: .cfi_startproc\n	nop\n	nop\n	ret\n	.cfi_endproc\n"
	"bounds_gap:	.fill 32, 1, 0xcc\n"
	"bounds_second: .cfi_startproc\n	.fill 300, 1, 0x90\n	ret\n	.cfi_endproc\n"
	"bounds_end:	.fill 32, 1, 0xcc\n");

extern const char bounds_first[] __attribute__((visibility("hidden")));
extern const char bounds_gap[] __attribute__((visibility("hidden")));
extern const char bounds_second[] __attribute__((visibility("hidden")));
extern const char bounds_end[] __attribute__((visibility("hidden")));

#define at_first  ((uintptr_t)bounds_first)
#define at_gap    ((uintptr_t)bounds_gap)
#define at_second ((uintptr_t)bounds_second)
#define at_end    ((uintptr_t)bounds_end)

static struct module *open_copy(const struct self *self)
{
	AUTO_CLOSE int fd = memfd_create("test", MFD_CLOEXEC);
	struct module *m = NULL;

	assert_int_equal(write(fd, self->data, self->n), self->n);
	assert_int_equal(module_open_fd(&m, TAKE_FD(fd), "/copy", NULL), 0);
	return m;
}

/* Start and size of the function at an address of this program; 0: in none. */
static uint64_t look(const struct self *self, uint64_t at, uint64_t *ret_bytes)
{
	struct module *m = open_copy(self);
	struct bounds_function f = {};
	struct bounds b;
	bool found;

	bounds_init(&b, m);
	found = bounds_find(&b, m, at - self->bias, &f);
	module_unref(m);
	*ret_bytes = f.bytes;
	return found ? f.start + self->bias : 0;
}

static void first_and_last_byte(void **state)
{
	uint64_t bytes;

	assert_int_equal(look(*state, at_first, &bytes), at_first);
	assert_int_equal(bytes, 3);
	assert_int_equal(look(*state, at_gap - 1, &bytes), at_first);
	assert_int_equal(look(*state, at_second, &bytes), at_second);
	assert_int_equal(bytes, 301);
	assert_int_equal(look(*state, at_end - 1, &bytes), at_second);
}

static void between_functions_is_none(void **state)
{
	uint64_t bytes;

	assert_int_equal(look(*state, at_gap, &bytes), 0);
	assert_int_equal(look(*state, at_second - 1, &bytes), 0);
	assert_int_equal(look(*state, at_end, &bytes), 0);
	assert_int_equal(look(*state, 16, &bytes), 0);
	assert_int_equal(look(*state, UINTPTR_MAX, &bytes), 0);
}

static uint8_t *header(const struct self *self, Elf64_Phdr **ret)
{
	const Elf64_Ehdr *h = (const Elf64_Ehdr *)self->data;
	Elf64_Phdr *p = (Elf64_Phdr *)(self->data + h->e_phoff);

	for (int i = 0; i < h->e_phnum; i++)
		if (p[i].p_type == PT_GNU_EH_FRAME) {
			*ret = &p[i];
			return (uint8_t *)self->data + p[i].p_offset;
		}
	fail_msg("no .eh_frame_hdr");
	return NULL;
}

/* Other versions and encodings, and counts that the table has no room for: no table. */
static void tables_that_are_not_understood(void **state)
{
	const struct self *self = *state;
	Elf64_Phdr *p = NULL;
	uint8_t *hdr = header(self, &p);
	uint32_t n = (uint32_t)(p->p_memsz - 12) / 8 + 1, was;
	uint64_t bytes;

	for (int i = 0; i < 4; i++) {
		hdr[i] ^= 1;
		assert_int_equal(look(self, at_first, &bytes), 0);
		hdr[i] ^= 1;
	}
	memcpy(&was, hdr + 8, 4);
	memcpy(hdr + 8, &n, 4);
	assert_int_equal(look(self, at_first, &bytes), 0);
	memcpy(hdr + 8, &(uint32_t){0}, 4);
	assert_int_equal(look(self, at_first, &bytes), 0);
	memcpy(hdr + 8, &was, 4);
	p->p_memsz = 11;
	assert_int_equal(look(self, at_first, &bytes), 0);
	p->p_memsz = p->p_filesz;
	assert_int_equal(look(self, at_first, &bytes), at_first);
}

/* Entries that lead to that of another function, or out of the file. */
static void entries_that_lie(void **state)
{
	const struct self *self = *state;
	Elf64_Phdr *p = NULL;
	uint8_t *hdr = header(self, &p);
	uint64_t hdr_addr = p->p_vaddr + self->bias, bytes;
	int32_t start = (int32_t)(at_first - hdr_addr), was, bad;
	uint8_t *entry = memmem(hdr + 12, p->p_filesz - 12, &start, 4);

	assert_non_null(entry);
	memcpy(&was, entry + 4, 4);
	memcpy(&bad, entry + 12, 4); /* the next function's */
	memcpy(entry + 4, &bad, 4);
	assert_int_equal(look(self, at_first, &bytes), 0);
	memcpy(entry + 4, &(int32_t){INT32_MAX}, 4);
	assert_int_equal(look(self, at_first, &bytes), 0);
	memcpy(entry + 4, &was, 4);
	assert_int_equal(look(self, at_first, &bytes), at_first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_and_last_byte),
		cmocka_unit_test(between_functions_is_none),
		cmocka_unit_test(tables_that_are_not_understood),
		cmocka_unit_test(entries_that_lie),
	};

	return cmocka_run_group_tests(tests, self_setup, self_teardown);
}
