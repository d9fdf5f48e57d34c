/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dict.h: the symbol tables of a profile as pprof and OTLP want them, filled with what is used.
 *
 * Indexes are dense and start at 1; row 0 of each table is reserved and means "none". Strings are
 * escaped. One function stands for all frames that differ in the line only.
 */
#ifndef SPANPROF_EXPORT_DICT_H
#define SPANPROF_EXPORT_DICT_H

#include "base/hash.h"
#include "model/profile.h"

struct dict_function {
	uint32_t name; /* indexes of strings */
	uint32_t system_name;
	uint32_t file;
	uint32_t start_line;
};

struct dict_line {
	uint32_t function;
	uint32_t line;
};

struct dict_location {
	uint32_t mapping;
	uint32_t first_line; /* index into lines, innermost inlined function first */
	uint32_t n_lines;
	uint32_t frame_flags; /* enum profile_frame_flag of its frames, together */
	uint64_t address;     /* in the mapping */
};

struct dict_mapping {
	uint32_t module;
	uint32_t filename; /* indexes of strings; build_id in hexadecimal */
	uint32_t build_id;
	bool has_functions;
	bool has_filenames;
	bool has_line_numbers;
	bool has_inline_frames;
};

struct dict {
	const struct profile *p; /* borrowed */
	struct strpool *strings; /* owned; string 0 is "" */
	VEC(struct dict_function) functions;
	VEC(struct dict_line) lines; /* no reserved row */
	VEC(struct dict_location) locations;
	VEC(struct dict_mapping) mappings;
	struct hash string_ids; /* private from here: ids of the profile -> indexes here */
	struct hash location_ids;
	struct hash mapping_ids;
	struct hash function_ids; /* hash of a function -> index */
	uint64_t *bias;           /* owned; module -> what to add to an ELF address */
};

/* d is all-zero before; deinit takes half-built ones. 0, -ENOMEM or -ENOSPC, as all of these. */
int dict_init(struct dict *d, const struct profile *p);
void dict_deinit(struct dict *d);

int dict_text(struct dict *d, const char *text, uint32_t *ret_idx);
/* A string of the profile. */
int dict_string(struct dict *d, uint32_t string, uint32_t *ret_idx);
/* A location of the profile, with its mapping, lines and functions. */
int dict_location(struct dict *d, uint32_t location, uint32_t *ret_idx);
int dict_mapping(struct dict *d, uint32_t module, uint32_t *ret_idx);

#endif
