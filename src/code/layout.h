/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h: where things are in an ELF file: loaded segments, build ID, unwind sections.
 *
 * Pure: bytes come through a callback. The file is hostile: every count and size is checked and
 * bounded before it is used, and nothing is allocated.
 */
#ifndef SPANPROF_CODE_LAYOUT_H
#define SPANPROF_CODE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errmsg.h"

enum {
	LAYOUT_SEGMENTS_MAX = 32,
	LAYOUT_PHDRS_MAX = 256,
	LAYOUT_SECTIONS_MAX = 4096,
	LAYOUT_BUILD_ID_MAX = 64,
};

struct layout_segment {
	uint64_t vaddr;
	uint64_t file_off;
	uint64_t file_bytes;
	bool executable;
};

struct layout {
	struct layout_segment segments[LAYOUT_SEGMENTS_MAX];
	size_t n_segments;
	uint64_t eh_hdr_addr; /* PT_GNU_EH_FRAME; bytes 0: none */
	uint64_t eh_hdr_bytes;
	uint8_t build_id[LAYOUT_BUILD_ID_MAX];
	size_t build_id_bytes;
};

struct layout_section {
	uint64_t addr;
	uint64_t file_off;
	uint64_t bytes;
	bool compressed;
};

struct layout_source {
	/* Copies up to n bytes at a file offset. */
	size_t (*read)(void *ctx, uint64_t off, void *buf, size_t n);
	void *ctx;
	const char *name; /* for messages */
};

/* 0, or -ENOEXEC with a message: not ELF, 32-bit, other architecture, truncated, malformed. */
int layout_read(const struct layout_source *src, struct layout *ret, struct errmsg *e);

/* Looks a section up by name; false when it is not there or the headers are malformed. */
bool layout_find_section(const struct layout_source *src, const char *name,
			 struct layout_section *ret);

bool layout_vaddr_of_offset(const struct layout *l, uint64_t file_off, uint64_t *ret_vaddr);
/* The same for the start of a mapping, which is rounded down to a page. */
bool layout_vaddr_of_mapping(const struct layout *l, uint64_t file_off, uint64_t *ret_vaddr);
bool layout_offset_of_vaddr(const struct layout *l, uint64_t vaddr, uint64_t *ret_file_off);
/* File bytes that follow at vaddr in its segment; 0 when it is in none. */
uint64_t layout_bytes_at(const struct layout *l, uint64_t vaddr, uint64_t *ret_file_off);

#endif
