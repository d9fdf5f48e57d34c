/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>

#include "base/cleanup.h"
#include "code/syscall_stub.h"
#include "tests/unit/unit.h"

/* The middle of glibc's clone3, from "mov $0x1b3,%eax" on. */
static const uint8_t clone3[] = {
	0xb8, 0xb3, 0x01, 0x00, 0x00, /* mov */
	0x0f, 0x05,                   /* syscall */
	0x48, 0x85, 0xc0,             /* test %rax,%rax */
	0x7c, 0x18,                   /* jl */
	0x74, 0x01,                   /* je */
	0xc3,                         /* ret */
	0x31, 0xed,                   /* xor %ebp,%ebp: in the child only */
};

static void test_places(void **state)
{
	static const size_t yes[] = {5, 7, 10, 12, 14}, no[] = {0, 6, 8, 15, 17};

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
		assert_true(is_syscall_stub(clone3, sizeof(clone3), yes[i]));
	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		assert_false(is_syscall_stub(clone3, sizeof(clone3), no[i]));
	assert_false(is_syscall_stub(clone3, sizeof(clone3), sizeof(clone3) + 1));
	/* Cut inside the instruction. */
	assert_false(is_syscall_stub(clone3, 6, 5));
	assert_false(is_syscall_stub(clone3, 0, 0));
}

static void test_long_jump(void **state)
{
	static const uint8_t code[] = {0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff,
				       0xff, 0x0f, 0x83, 0x10, 0,    0,    0};

	assert_true(is_syscall_stub(code, sizeof(code), 8));
	assert_true(is_syscall_stub(code, sizeof(code), sizeof(code)));
	assert_false(is_syscall_stub(code, sizeof(code), 9));
}

/* The libc that is here: behind the system call of clone the caller is found by SP. */
static void test_own_libc(void **state)
{
	struct module *m = NULL;
	struct cfi_buf buf = {};
	Dl_info info;
	const uint8_t *code = dlsym(RTLD_DEFAULT, "clone");
	struct link_map *map = NULL;
	size_t at = 0;
	int fd;

	if (!code || !dladdr1(code, &info, (void **)&map, RTLD_DL_LINKMAP))
		skip();
	while (at < 200 && !is_syscall_stub(code, 200, at))
		at++;
	fd = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
	if (at == 200 || fd < 0)
		skip();
	assert_int_equal(module_open_fd(&m, fd, info.dli_fname, NULL), 0);
	assert_int_equal(syscall_stub_find_cfi(m, (uintptr_t)code + at - map->l_addr, &buf),
			 CFI_OK);
	assert_int_equal(buf.rule.cfa.base, WIRE_REG_RSP);
	assert_int_equal(buf.rule.cfa.off, 8);
	assert_int_equal(syscall_stub_find_cfi(m, 0, &buf), CFI_E_NO_CFI);
	assert_int_equal(syscall_stub_find_cfi(m, UINT64_MAX, &buf), CFI_E_NO_CFI);
	module_unref(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_long_jump),
		cmocka_unit_test(test_own_libc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
