/* SPDX-License-Identifier: Apache-2.0 */
#include "code/syscall_stub.h"

#include <string.h>

#include "base/arch.h"

enum { RIP_OFF = -8, SYSCALL_BYTES = 2 };

static bool is_syscall(const uint8_t *code, size_t n)
{
	return n >= SYSCALL_BYTES && code[0] == 0x0f && code[1] == 0x05;
}

/* Length of a test or conditional jump as it is behind a system call; 0: another instruction. */
static size_t test_length(const uint8_t *code, size_t n)
{
	static const uint8_t test_rax[] = {0x48, 0x85, 0xc0};

	if (n >= sizeof(test_rax) && !memcmp(code, test_rax, sizeof(test_rax)))
		return sizeof(test_rax);
	if (n >= 2 && (code[0] & 0xf0) == 0x70) /* jcc rel8 */
		return 2;
	if (n >= 6 && code[0] == 0x0f && (code[1] & 0xf0) == 0x80) /* jcc rel32 */
		return 6;
	if (n >= 6 && code[0] == 0x48 && code[1] == 0x3d) /* cmp $imm32,%rax */
		return 6;
	return 0;
}

static bool leads_to(const uint8_t *code, size_t from, size_t at)
{
	size_t length = 1;

	while (from < at && length) {
		length = test_length(code + from, at - from);
		from += length;
	}
	return from == at;
}

bool is_syscall_stub(const uint8_t *code, size_t n, size_t at)
{
	if (at > n)
		return false;
	if (is_syscall(code + at, n - at))
		return true;
	for (size_t from = 0; from + SYSCALL_BYTES <= at; from++)
		if (is_syscall(code + from, at - from) && leads_to(code, from + SYSCALL_BYTES, at))
			return true;
	return false;
}

int syscall_stub_find_cfi(const struct module *m, uint64_t vaddr, struct cfi_buf *ret)
{
	uint8_t code[SYSCALL_STUB_BYTES];

	if (vaddr < SYSCALL_STUB_BEFORE ||
	    module_read_code(m, vaddr - SYSCALL_STUB_BEFORE, code, sizeof(code)) != sizeof(code) ||
	    !is_syscall_stub(code, sizeof(code), SYSCALL_STUB_BEFORE))
		return CFI_E_NO_CFI;
	ret->rule = (struct cfi_rule){
		.cfa = {.kind = CFI_REG, .base = ARCH_SP, .off = -RIP_OFF},
		.n_values = 2,
		.values = {{.reg = ARCH_PC, .kind = CFI_AT_CFA, .off = RIP_OFF},
			   {.reg = ARCH_SP, .kind = CFI_CFA}},
		.ops = ret->ops,
	};
	return CFI_OK;
}
