/* SPDX-License-Identifier: Apache-2.0 */
/* self.h: a test program as a file, and where it is loaded. */
#ifndef SPANPROF_TESTS_UNIT_SELF_H
#define SPANPROF_TESTS_UNIT_SELF_H

#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/file.h"

struct self {
	char *data;
	size_t n;
	uint64_t bias;
};

static inline int self_take_first(struct dl_phdr_info *info, size_t size, void *ctx)
{
	*(uint64_t *)ctx = info->dlpi_addr;
	return 1;
}

/* For groups of tests: *state is a struct self. */
static inline int self_setup(void **state)
{
	static struct self self;

	*state = &self;
	dl_iterate_phdr(self_take_first, &self.bias);
	return read_file(AT_FDCWD, "/proc/self/exe", 1 << 28, &self.data, &self.n);
}

static inline int self_teardown(void **state)
{
	free(((struct self *)*state)->data);
	return 0;
}

#endif
