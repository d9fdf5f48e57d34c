/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint_priv.h: the inside of an endpoint, and its compilation: for src/probe only.
 */
#ifndef SPANPROF_PROBE_ENDPOINT_PRIV_H
#define SPANPROF_PROBE_ENDPOINT_PRIV_H

#include <regex.h>

#include "probe/compile.h"
#include "probe/endpoint.h"
#include "probe/expression.h"

enum { ENDPOINT_TEXT_MAX = 4096 };

enum endpoint_normalize {
	ENDPOINT_NORMALIZE_SQL = 1 << 0,
	ENDPOINT_NORMALIZE_PATH = 1 << 1,
	ENDPOINT_NORMALIZE_LOWER = 1 << 2,
};

struct target_text {
	struct endpoint_target target; /* its strings are in words[] */
	char *words[3];                /* owned */
};

/* All owned. */
struct endpoint {
	char *text;
	struct target_text target;
	bool has_end;
	struct target_text end;
	enum leave_method leave;
	bool once;
	unsigned int normalize; /* enum endpoint_normalize */
	char *as;               /* display name given by the user */
	char *display;          /* found in the binary */
	char *match;            /* glob on the formatted name */
	bool has_regex;
	regex_t regex;
	struct expression *name;
	struct expression *leave_name;
	struct expression *condition;
	struct expression *end_condition;
};

/*
 * Fills in everything but site_off. entry and end resolve names at the entry and at the end function
 * (end may be NULL without one). ret_registers: registers that the programs at entry read.
 */
int endpoint_compile(const struct endpoint *ep, const struct expression_resolver *entry,
		     const struct expression_resolver *end, struct wire_endpoint *ret,
		     uint32_t *ret_registers, struct errmsg *e);

#endif
