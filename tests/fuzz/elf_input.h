/* SPDX-License-Identifier: Apache-2.0 */
/* elf_input.h: a module out of a fuzzer's bytes. */
#ifndef SPANPROF_TESTS_FUZZ_ELF_INPUT_H
#define SPANPROF_TESTS_FUZZ_ELF_INPUT_H

#include <sys/mman.h>
#include <unistd.h>

#include "code/module.h"

/* NULL when the bytes are no module. */
static inline struct module *elf_input(const uint8_t *data, size_t n)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct module *m = NULL;
	struct errmsg e;

	if (fd < 0 || write(fd, data, n) != (ssize_t)n || module_open_fd(&m, fd, "/fuzz", &e)) {
		close(fd);
		return NULL;
	}
	return m;
}

#endif
