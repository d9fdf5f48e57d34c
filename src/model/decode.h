/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode.h: raw wire records to views. Pure; every length is checked; fuzzed.
 */
#ifndef SPANPROF_MODEL_DECODE_H
#define SPANPROF_MODEL_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/wire.h"

/* A checked view into one record; valid as long as the record's bytes are. */
struct event {
	const struct wire_header *h;
	union {
		const struct wire_promoted *promoted;
		const struct wire_snapshot *snapshot;
		const struct wire_end *end; /* also WIRE_K_SLOW */
		const struct wire_retsite *retsite;
		const struct wire_proc *proc;
	};
	/* WIRE_K_SNAPSHOT only */
	const uint64_t *kernel; /* snapshot->kernel_frames of them */
	const uint8_t *window;  /* snapshot->window_bytes of them */
};

enum decode_result {
	DECODE_OK,
	DECODE_E_SHORT = 1, /* fewer bytes than the record says */
	DECODE_E_KIND,      /* unknown kind */
	DECODE_E_FIELD,     /* a count or length inside is out of range */
};

/* data must be 8-byte aligned. bytes may be larger than the record. */
enum decode_result decode_record(const void *data, size_t bytes, struct event *ret);

/* One captured name field. */
struct name_field {
	enum wire_field_type type;
	const char *text; /* STR, CUT: not NUL-terminated */
	size_t text_bytes;
	int64_t number; /* INT, UINT */
};

/* Reads the field at *off and moves *off on; false at the end or at the first malformed field. */
bool decode_field(const uint8_t *name, size_t name_bytes, size_t *off, struct name_field *ret);

#endif
