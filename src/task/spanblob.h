/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spanblob.h: one span with its samples, stacks and symbols as bytes, for the store. Pure.
 *
 * Format: u32 length of what follows when unpacked (bit 31: it is not packed), then, mostly as a zlib
 * stream, LEB128 numbers: a version,
 * the profile's clocks, then the tables (strings, modules, frames, locations, stacks) with only what
 * the span uses, indexes starting at 1 and 0 for "none", then endpoint, span, samples. Several blobs can be
 * read into one profile, which merges what they have in common.
 */
#ifndef SPANPROF_TASK_SPANBLOB_H
#define SPANPROF_TASK_SPANBLOB_H

#include <stddef.h>
#include <stdint.h>

#include "model/profile.h"
#include "model/task.h"

/*
 * For one of the tasks that took the span, whose threshold and period are stored: the endpoint's in the
 * profile may be another's. 0, -ENOMEM, -E2BIG. The bytes are the caller's.
 */
int encode_spanblob(const struct profile *p, uint32_t span, const struct task *t, uint8_t **ret,
		    size_t *ret_bytes);

/*
 * Adds the span to the profile, whose clocks become those of the blob when it has no span yet (times
 * of later blobs are moved onto them). 0, -EINVAL: not a blob, -ENOMEM, -ENOSPC.
 */
int decode_spanblob(const uint8_t *data, size_t bytes, struct profile *p, uint32_t *ret_span);

#endif
