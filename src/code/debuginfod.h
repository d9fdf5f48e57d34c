/* SPDX-License-Identifier: Apache-2.0 */
/*
 * debuginfod.h: fetches a debug file from the servers of DEBUGINFOD_URLS. For src/code only.
 *
 * libdebuginfod (and with it libcurl) is loaded at the first call, never before. Built without it,
 * debuginfod_none.c takes the place of debuginfod.c.
 */
#ifndef SPANPROF_CODE_DEBUGINFOD_H
#define SPANPROF_CODE_DEBUGINFOD_H

#include <stddef.h>
#include <stdint.h>

struct debuginfod; /* a loaded library and its client */

/* 0, -ENOSYS (not built in), -ENOENT (library not installed), -ENOMEM. */
int debuginfod_new(struct debuginfod **ret);
struct debuginfod *debuginfod_free(struct debuginfod *d);

/* Gives up with -ETIME after budget_ns. 0, or another negative errno. */
int debuginfod_fetch(struct debuginfod *d, const uint8_t *build_id, size_t build_id_bytes,
		     uint64_t budget_ns, int *ret_fd);

#endif
