/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parcel.h: one span ready to be sent, as one compact block of bytes: its segment, each distinct stack
 * once, and for each snapshot its time and stack. What waits in the spool, also on disk; so opening
 * one checks every number. The messages on the wire, in which stacks repeat, are made when they go.
 */
#ifndef SPANPROF_NET_PARCEL_H
#define SPANPROF_NET_PARCEL_H

#include <stddef.h>
#include <stdint.h>

#include "model/profile.h"
#include "net/messages.h"
#include "net/snapshots.h"

/* What a parcel is made of; all borrowed. */
struct parcel_input {
	const struct profile *profile;
	uint32_t span; /* index into its spans */
	const struct snapshots *snapshots;
	const struct segment_info *info;
	const char *task_id;
	size_t max_bytes;
};

/* Packs a span; ret_data: malloc. 0, -ENOMEM, or -EFBIG when it would be larger than max_bytes. */
int pack_parcel(const struct parcel_input *in, void **ret_data, size_t *ret_bytes);

/* A view; valid as long as the bytes are. */
struct parcel {
	const char *task_id;
	const char *segment_id;
	const uint8_t *segment; /* SegmentObject */
	size_t segment_bytes;
	int64_t start_ms;
	uint32_t n_snapshots;
	uint32_t n_stacks;
	const uint8_t *stack_offs; /* n_stacks + 1 uint32_t, unaligned, into stacks */
	const uint8_t *stacks;
	const uint8_t *snapshots; /* n_snapshots pairs of uint32_t: ms since start_ms, stack */
};

enum parcel_result { PARCEL_OK, PARCEL_E_FORM = 1 };

enum parcel_result decode_parcel(const void *data, size_t bytes, struct parcel *ret);

/* Appends the ThreadSnapshot with number i < n_snapshots; 0 or -ENOMEM. */
int encode_parcel_snapshot(const struct parcel *p, uint32_t i, struct bytes *to);

#endif
