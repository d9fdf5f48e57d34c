/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup.h: what the names in an endpoint's expressions mean at one place of a binary: variables and
 * fields by DWARF, globals and getters by symbols, arguments of USDT probes by their notes.
 */
#ifndef SPANPROF_PROBE_LOOKUP_H
#define SPANPROF_PROBE_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "probe/compile.h"
#include "probe/resolve.h"

struct lookup {
	const struct resolved *function;
	const char *usdt_arguments; /* NULL: a function */
	int64_t sp_shift;           /* bytes by which RSP is taken to be above what it is */
	bool sp_unknown;            /* that is not the same at each place */
	bool several;               /* places: what is known of one is not known of all */
};

/* The lookup is borrowed by the resolver. */
void lookup_make_resolver(struct lookup *l, struct expression_resolver *ret);

#endif
