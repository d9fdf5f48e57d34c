/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linecache.h: the DWARF of several files, within one limit of memory. For src/code only.
 *
 * A file's DWARF is opened when it is needed; when others leave no room for it, those used longest ago are
 * closed, and opened again when they are needed. A file that alone does not fit, or would have to be opened
 * again and again, or takes too much work, is left out: its addresses have no lines, which is told and counted by the owner.
 */
#ifndef SPANPROF_CODE_LINECACHE_H
#define SPANPROF_CODE_LINECACHE_H

#include "base/vec.h"
#include "code/srcline.h"

struct linecache_file {
	struct module *module;         /* borrowed, as debug; both outlive their closing */
	const struct debugfile *debug; /* may be NULL */
	struct srcline *lines;         /* owned; NULL: closed */
	uint64_t used;
	uint64_t n_steps;      /* work on it, since the last rest, without that of `lines` */
	unsigned int n_pushed; /* times that it was closed for another, since the last rest */
	bool is_known;         /* opened: that it has no DWARF, too */
	bool is_left_out;      /* for good */
};

struct linecache {
	struct debugfile_search *search; /* borrowed */
	uint64_t max_bytes;              /* of all files together; 0: each as srcline limits it */
	uint64_t max_steps; /* of one file that is not root's, until the next rest; 0: wide */
	bool (*shall_stop)(void *ctx); /* true: all files are left out from now on; may be NULL */
	void *stop_ctx;
	uint64_t *
		n_cut; /* borrowed; counts units and functions that are read in part; may be NULL */
	void (*on_left_out)(void *ctx, const struct linecache_file *file);
	void *ctx;
	VEC(struct linecache_file *) open;
	uint64_t clock; /* counts look-ups */
};

/* 0, also when the file has no DWARF or is left out; -ENOMEM. */
int linecache_open(struct linecache *c, struct linecache_file *f);
void linecache_close(struct linecache *c, struct linecache_file *f);
/* Nothing more is asked for a while: afterwards it may be opened as often as at first. */
void linecache_rest(struct linecache *c, struct linecache_file *f);
/* As srcline_find. */
int linecache_find(struct linecache *c, struct linecache_file *f, uint64_t vaddr,
		   struct srcline_frame *ret);
void linecache_deinit(struct linecache *c);

#endif
