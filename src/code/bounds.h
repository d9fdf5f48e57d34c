/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bounds.h: where a function begins and ends when no symbol says so: from the search table of
 * .eh_frame_hdr, which every stripped C, C++ and Rust binary keeps. For src/code only.
 */
#ifndef SPANPROF_CODE_BOUNDS_H
#define SPANPROF_CODE_BOUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "code/module.h"

struct bounds {
	uint64_t hdr_addr;   /* of .eh_frame_hdr; 0: the module has no table that can be used */
	uint64_t table_addr; /* pairs of int32: function, its entry; both relative to hdr_addr */
	uint32_t n;
};

void bounds_init(struct bounds *b, struct module *m);

/* True: vaddr is in [*ret_start, *ret_start + *ret_size). */
bool bounds_find(const struct bounds *b, struct module *m, uint64_t vaddr, uint64_t *ret_start,
		 uint64_t *ret_size);

#endif
