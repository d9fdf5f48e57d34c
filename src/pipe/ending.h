/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ending.h: how a span ended, from its end record, or made up when there is none. Pure.
 */
#ifndef SPANPROF_PIPE_ENDING_H
#define SPANPROF_PIPE_ENDING_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/wire.h"
#include "pipe/assemble.h"

struct ending {
	uint64_t end_ns;
	struct wire_wall total; /* of the span */
	uint16_t reason;        /* enum wire_end_reason */
	uint32_t n_due;
	const uint8_t *name; /* borrowed from the record */
	size_t name_bytes;
};

struct ending ending_of(const struct wire_end *end);
/*
 * Of a span that is open: what its last snapshot says, and from there on blocked or waiting for a
 * CPU when that found it so, else on CPU.
 */
struct ending ending_unfinished(const struct open_span *s, uint64_t now_ns, uint16_t reason);

#endif
