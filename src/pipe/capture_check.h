/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture_check.h: whether the totals of a capture can be those of its records. Pure.
 *
 * The checksum of a file says that its bytes are those that were written, not that they are true. What
 * would hide losses or change the figures of calls is compared with the records here. Totals were read
 * while calls went on: where that may have cost a few, they are forgiven.
 */
#ifndef SPANPROF_PIPE_CAPTURE_CHECK_H
#define SPANPROF_PIPE_CAPTURE_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "base/errmsg.h"
#include "bpf/wire.h"
#include "model/counters.h"
#include "model/latency.h"
#include "model/profile.h"

/* What the records say. All-zero: there were none. */
struct capture_check {
	struct {
		uint64_t n_begun; /* spans that were profiled */
		uint64_t n_ended; /* of those, whose end was seen */
	} of[WIRE_EP_MAX];
	uint64_t n_lost;  /* snapshots that ends tell of, once for each span */
	uint64_t last_ns; /* of the last record */
};

void capture_check_add(struct capture_check *c, const void *record, size_t bytes);

/* 0, or -EBADMSG and what is wrong, as the end of a sentence. */
int capture_check_latency(const struct capture_check *c, uint32_t ep_id, const struct latency *l,
			  struct errmsg *e);
/* share_ppm of the turns is not 0. */
int capture_check_turns(const struct profile_turns *t, uint64_t duration_ns, struct errmsg *e);
int capture_check_totals(const struct capture_check *c, uint64_t end_ns, const struct counters *t,
			 struct errmsg *e);

#endif
