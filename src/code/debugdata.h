/* SPDX-License-Identifier: Apache-2.0 */
/*
 * debugdata.h: unpacks .gnu_debugdata: a small ELF file, xz-compressed, with the symbols that a
 * stripped binary would lack. For src/code only.
 */
#ifndef SPANPROF_CODE_DEBUGDATA_H
#define SPANPROF_CODE_DEBUGDATA_H

#include <stddef.h>
#include <stdint.h>

/* Pure. At most max_bytes of output. 0, -EINVAL (not xz, damaged), -EFBIG, -ENOMEM. */
int decode_debugdata(const void *xz, size_t xz_bytes, size_t max_bytes, uint8_t **ret,
		     size_t *ret_bytes);

#endif
