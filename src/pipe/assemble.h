/* SPDX-License-Identifier: Apache-2.0 */
/*
 * assemble.h: the table of PROFILING spans that have not ended yet.
 *
 * Keyed by span id; owns each span's observations until the span is finished and taken out. It
 * finds spans whose end was lost: a thread cannot enter a later call at the place on its stack
 * where another one is still open.
 */
#ifndef SPANPROF_PIPE_ASSEMBLE_H
#define SPANPROF_PIPE_ASSEMBLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "bpf/wire.h"
#include "pipe/account.h"
#include "pipe/gates.h"

struct open_span {
	struct wire_promoted begin;
	struct gate_terms terms;     /* set by the caller */
	VEC(struct observation) obs; /* in order of arrival */
	uint32_t n_dropped;          /* observations beyond the limit */
	uint64_t last_ns;            /* of the last record about it */
	uint64_t next_in_thread;     /* span id of another open span of the thread; 0: none */
};

struct assemble;

int assemble_new(struct assemble **ret, size_t max_open);
struct assemble *assemble_free(struct assemble *a);

/* Adds a span. 0, -ENOMEM, -ENOSPC (table full), -EEXIST. */
int assemble_begin(struct assemble *a, const struct wire_promoted *begin);
/* NULL: not known. Valid until the span is taken. */
struct open_span *assemble_find(const struct assemble *a, uint64_t span_id);
/* Takes the span out of the table; free it with open_span_free. NULL: not known. */
struct open_span *assemble_take(struct assemble *a, uint64_t span_id);
struct open_span *open_span_free(struct open_span *s);

/* The id of an open span that `begin` proves to have ended before; 0: none. */
uint64_t assemble_superseded(const struct assemble *a, const struct wire_promoted *begin);
/* The id of any open span (of the process; 0: of all); 0: none. */
uint64_t assemble_any(const struct assemble *a, uint32_t tgid);
/* The id of any open span of this endpoint and instance; 0: none. */
uint64_t assemble_any_of(const struct assemble *a, uint32_t ep_id, uint32_t instance_id);
/* The first that began after after_ns and not after until_ns; NULL: none. */
const struct open_span *assemble_first(const struct assemble *a, uint64_t after_ns,
				       uint64_t until_ns);
size_t assemble_n_open(const struct assemble *a);

#endif
