/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture.h: the capture file: what a run saw, byte for byte, so that it can be replayed without
 * root, as often as one likes, with the same result.
 *
 * A file header, then blocks: {type, payload bytes} and a payload padded to 8 bytes. Integers are
 * little-endian as on x86-64. A SPACE block comes before the first record that needs it; the file
 * ends with an END block that counts the blocks, so that a cut file is noticed. docs/capture.md
 * describes the format. Reading is bounded and fuzzed: the file is hostile input.
 */
#ifndef SPANPROF_PIPE_CAPTURE_H
#define SPANPROF_PIPE_CAPTURE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/errmsg.h"
#include "model/counters.h"
#include "model/latency.h"
#include "model/profile.h"

enum {
	CAPTURE_VERSION = 3,
	CAPTURE_TEXT_MAX = 4096,      /* bytes of any one text */
	CAPTURE_BLOCK_MAX = 64 << 20, /* bytes of any one block */
	CAPTURE_BUILD_ID_MAX = 20,
};

enum capture_type {
	CAPTURE_ENDPOINT = 1, /* struct capture_endpoint, texts */
	CAPTURE_SPACE,        /* struct capture_space, ranges, texts */
	CAPTURE_RECORD,       /* one wire record (bpf/wire.h) */
	CAPTURE_SYMBOL, /* struct capture_symbol_head, texts: a name that only the live system knew */
	CAPTURE_LATENCY, /* struct capture_latency */
	CAPTURE_TOTALS,  /* struct capture_totals */
	CAPTURE_END,     /* struct capture_end */
	CAPTURE_TURNS,   /* struct profile_turns: only where functions were probed in turns */
	CAPTURE_TYPE_MAX
};

struct capture_info {
	uint64_t start_mono_ns;
	uint64_t start_real_ns;
	char hostname[256];
	char kernel_release[256];
};

struct capture_endpoint {
	uint32_t ep_id;
	uint32_t pad;
	uint64_t threshold_ns;
	uint64_t sample_after_ns;
	uint64_t period_ns;
	const char *spec;    /* borrowed */
	const char *display; /* borrowed */
};

struct capture_range {
	uint64_t start;
	uint64_t end;
	uint64_t file_off;
	uint64_t dev;
	uint64_t ino;
	uint32_t kind; /* enum space_kind */
	uint32_t build_id_bytes;
	uint8_t build_id[CAPTURE_BUILD_ID_MAX];
	const char *path; /* borrowed */
};

struct capture_symbol {
	uint32_t kernel; /* 1: a kernel address, 0: code without a file in process tgid */
	uint32_t tgid;
	uint64_t address;
	uint32_t frame_flags; /* enum profile_frame_flag */
	const char *module;   /* borrowed, as are the others */
	const char *function;
	const char *system_name;
};

/* Writing. Errors are sticky: the first one is returned by every later call and by close. */
struct capture_writer;

int capture_writer_new(struct capture_writer **ret, FILE *out /* borrowed */,
		       const struct capture_info *info);
struct capture_writer *capture_writer_free(struct capture_writer *w);
int capture_write_endpoint(struct capture_writer *w, const struct capture_endpoint *e);
int capture_write_space(struct capture_writer *w, uint32_t tgid, uint32_t as_id,
			const struct capture_range *ranges, size_t n);
int capture_write_record(struct capture_writer *w, const void *record, size_t bytes);
int capture_write_symbol(struct capture_writer *w, const struct capture_symbol *s);
int capture_write_latency(struct capture_writer *w, uint32_t ep_id, const struct latency *l);
int capture_write_turns(struct capture_writer *w, const struct profile_turns *t);
/* The last block but one: duration of the run and all counters. Then writes END. */
int capture_write_totals(struct capture_writer *w, uint64_t duration_ns, const struct counters *c);

/*
 * Reading: calls back for each block in file order; a callback that is NULL is not wanted. A
 * callback's negative return ends the reading with it. That the file is undamaged is known at its end. Pointers are valid during the call only; records are 8-byte aligned.
 */
struct capture_reader {
	int (*info)(void *ctx, const struct capture_info *i);
	int (*endpoint)(void *ctx, const struct capture_endpoint *e);
	int (*space)(void *ctx, uint32_t tgid, uint32_t as_id, const struct capture_range *ranges,
		     size_t n);
	int (*record)(void *ctx, const void *record, size_t bytes);
	int (*symbol)(void *ctx, const struct capture_symbol *s);
	int (*latency)(void *ctx, uint32_t ep_id, const struct latency *l);
	int (*turns)(void *ctx, const struct profile_turns *t);
	int (*totals)(void *ctx, uint64_t duration_ns, const struct counters *c);
	void *ctx;
};

/* name is for messages. -EBADMSG: not a capture file, another version, cut off, or malformed. */
int capture_read(FILE *in, const char *name, const struct capture_reader *reader, struct errmsg *e);

#endif
