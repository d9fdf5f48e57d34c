/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bounds.h: where a function begins and ends when no symbol says so: from the search table of
 * .eh_frame_hdr, which every stripped C, C++ and Rust binary keeps.
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

struct bounds_function {
	uint64_t start;
	uint64_t bytes;
};

/* True: vaddr is in it. */
bool bounds_find(const struct bounds *b, struct module *m, uint64_t vaddr,
		 struct bounds_function *ret);

#endif
