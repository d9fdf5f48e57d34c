/* SPDX-License-Identifier: Apache-2.0 */
/* spanblob_priv.h: what the writer and the reader of a blob agree on. */
#ifndef SPANPROF_TASK_SPANBLOB_PRIV_H
#define SPANPROF_TASK_SPANBLOB_PRIV_H

enum {
	BLOB_VERSION = 1,
	HEADER_BYTES = 4,
	RAW_MAX = 64 << 20,
};

#define HEADER_PLAIN (1U << 31)

#endif
