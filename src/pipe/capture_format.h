/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture_format.h: the bytes of a capture file, shared by its writer and its reader. A text is a
 * __u32 length and that many bytes, without NUL and without padding.
 */
#ifndef SPANPROF_PIPE_CAPTURE_FORMAT_H
#define SPANPROF_PIPE_CAPTURE_FORMAT_H

#include <stdint.h>

#define CAPTURE_MAGIC "SPANPROF"

struct capture_file_header {
	char magic[8];
	uint32_t version;
	uint32_t wire_version;
	uint32_t machine; /* ELF machine, arch.h */
	uint32_t pad;
	uint64_t start_mono_ns;
	uint64_t start_real_ns;
	char hostname[256];       /* NUL-terminated */
	char kernel_release[256]; /* NUL-terminated */
};
_Static_assert(sizeof(struct capture_file_header) == 552, "capture_file_header");

struct capture_block_header {
	uint32_t type;
	uint32_t bytes; /* of the payload; it is followed by padding to a multiple of 8 */
};
_Static_assert(sizeof(struct capture_block_header) == 8, "capture_block_header");

struct capture_endpoint_head {
	uint32_t ep_id;
	uint32_t pad;
	uint64_t threshold_ns;
	uint64_t sample_after_ns;
	uint64_t period_ns;
	/* text spec; text display */
};
_Static_assert(sizeof(struct capture_endpoint_head) == 32, "capture_endpoint_head");

struct capture_space_head {
	uint32_t tgid;
	uint32_t as_id;
	uint32_t n_ranges;
	uint32_t pad;
	/* n_ranges of { struct capture_range_head; text path } */
};
_Static_assert(sizeof(struct capture_space_head) == 16, "capture_space_head");

struct capture_range_head {
	uint64_t start;
	uint64_t end;
	uint64_t file_off;
	uint64_t dev;
	uint64_t ino;
	uint32_t kind;
	uint32_t build_id_bytes;
	uint8_t build_id[20];
	uint32_t pad;
};
_Static_assert(sizeof(struct capture_range_head) == 72, "capture_range_head");

struct capture_symbol_head {
	uint32_t kernel;
	uint32_t tgid;
	uint64_t address;
	uint32_t frame_flags;
	uint32_t pad;
	/* text module; text function; text system_name */
};
_Static_assert(sizeof(struct capture_symbol_head) == 24, "capture_symbol_head");

struct capture_latency_head {
	uint32_t ep_id;
	uint32_t n_buckets;
	/* struct latency */
};
_Static_assert(sizeof(struct capture_latency_head) == 8, "capture_latency_head");

struct capture_turns_head {
	uint32_t share_ppm;
	uint32_t pad;
	uint64_t n_turns;
	uint64_t probed_ns;
	uint64_t cost_ns;
	uint64_t cpu_ns;
};
_Static_assert(sizeof(struct capture_turns_head) == 40, "capture_turns_head");

struct capture_totals_head {
	uint64_t duration_ns;
	uint32_t n_counters;
	uint32_t pad;
	/* n_counters of { __u64 value; text name } */
};
_Static_assert(sizeof(struct capture_totals_head) == 16, "capture_totals_head");

struct capture_end_head {
	uint64_t n_blocks; /* before this one */
	uint32_t crc;      /* CRC-32 (zlib's) of all bytes of the file before this block */
	uint32_t pad;
};
_Static_assert(sizeof(struct capture_end_head) == 16, "capture_end_head");

#endif
