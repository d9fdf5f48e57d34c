/* SPDX-License-Identifier: Apache-2.0 */
/* debuginfod_none.c: a build without libdebuginfod. */
#include <errno.h>

#include "code/debuginfod.h"

int debuginfod_new(struct debuginfod **ret)
{
	return -ENOSYS;
}

struct debuginfod *debuginfod_free(struct debuginfod *d)
{
	return NULL;
}

int debuginfod_fetch(struct debuginfod *d, const uint8_t *build_id, size_t build_id_bytes,
		     uint64_t budget_ns, int *ret_fd)
{
	return -ENOSYS;
}
