/* SPDX-License-Identifier: Apache-2.0 */
/*
 * syscall_stub.h: code around a system call instruction that has no unwind rules on purpose.
 *
 * glibc ends the rules of clone and clone3 before the instruction, because in the child, which goes on
 * behind it on another stack, they would be wrong. In the parent SP still points to the return address.
 */
#ifndef SPANPROF_CODE_SYSCALL_STUB_H
#define SPANPROF_CODE_SYSCALL_STUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "code/cfi.h"
#include "code/module.h"

enum { SYSCALL_STUB_BEFORE = 24, SYSCALL_STUB_BYTES = SYSCALL_STUB_BEFORE + 2 };

/*
 * True when a `syscall` is at `at`, or before it with nothing but tests and conditional jumps that are not
 * taken in between. code: n bytes, of which `at` are before the address in question. Pure.
 */
bool is_syscall_stub(const uint8_t *code, size_t n, size_t at);

/* The rule at an ELF virtual address for which the file has none. CFI_OK or CFI_E_NO_CFI. */
int syscall_stub_find_cfi(const struct module *m, uint64_t vaddr, struct cfi_buf *ret);

#endif
