/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h: what would be attached for one endpoint in one process: the function, the site, how the
 * call's end is seen, and the programs. Making a plan changes nothing.
 */
#ifndef SPANPROF_PROBE_PLAN_H
#define SPANPROF_PROBE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/errmsg.h"
#include "probe/endpoint.h"
#include "probe/resolve.h"
#include "probe/site.h"

enum { PLAN_PLACES_MAX = 64 };

/* One place to probe: a function's entry, one of its returns, or one place of a USDT probe. */
struct plan_place {
	uint64_t vaddr; /* of the function or the USDT place */
	struct site site;
	uint64_t semaphore_off; /* in the file, 0: none */
};

struct plan_target {
	struct resolved function;
	struct plan_place places[PLAN_PLACES_MAX];
	size_t n, n_left_out; /* USDT probes: places that are not probed */
};

struct plan {
	struct plan_target entry;
	struct plan_target end;    /* n 0: no end function; a second one is another place */
	struct resolved other_end; /* the function of that place; binary NULL: none */
	enum leave_method leave;
	uint64_t enclosing;      /* USDT without end: first byte of the function that holds it */
	bool nameless;           /* a name was asked for, but this build is not known */
	bool wants_return_value; /* return sites must come before RAX is written */
	struct plan_target rets; /* LEAVE_RET: where the function is left; n 0: otherwise */
	struct wire_endpoint wire;
	char warning[512]; /* "" */
};

struct plan_options {
	enum leave_method leave;
	bool force;
	struct site_rules rules;
	unsigned int runtimes; /* of all modules of the process, enum binary_runtime */
};

/* 0; -ENOENT: not in this process; -ESRCH: the option file= leaves this build out; another negative errno with the message set. */
int plan_endpoint(const struct resolve_input *in, const struct endpoint *ep,
		  const struct plan_options *o, struct plan *p, struct errmsg *e);

/* The places where a function is left; r is OK or the message is set. */
int plan_rets(const struct resolved *f, const char *text, struct plan_target *ret,
	      struct errmsg *e);

/* Runtimes of all modules of the process together. */
unsigned int plan_runtimes(const struct resolve_input *in);

/* "C++ exceptions", ... : why a uretprobe could kill such a process; NULL when it could not. */
const char *plan_uretprobe_danger(unsigned int runtimes);

#endif
