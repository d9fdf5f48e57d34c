/* SPDX-License-Identifier: Apache-2.0 */
/* probes_command.h: the parts of `spanprof probes`. Each returns an exit status. */
#ifndef SPANPROF_APP_PROBES_COMMAND_H
#define SPANPROF_APP_PROBES_COMMAND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "app/inspect.h"
#include "probe/site.h"

enum { CANDIDATES_MAX = 480, CANDIDATES_ALL = 4096 }; /* functions counted */

struct probes_command {
	pid_t pid;
	const char *pattern; /* NULL: functions of the executable whose names sound like requests */
	const char *check;   /* specification to dry-run */
	const char *debug_dirs;
	struct site_rules rules; /* of this kernel */
	uint64_t count_ns;       /* 0: list only */
	bool all;                /* no limit on what is listed */
};

enum { SHOWN_MAX = 1024 }; /* bytes of a name or a path of the process, as it is printed */

/* A function that could be an endpoint. */
struct candidate {
	struct resolved function;
	struct site site;  /* when nothing is read */
	struct site named; /* when a name reads the first arguments */
	size_t idx;        /* among those found, in the order of the symbol tables */
	int sound; /* how much its name reads like that of a function that serves requests */
	bool has_site;
	bool makes_calls;
	const char *why_not; /* NULL: can be probed */
};

struct candidates {
	struct candidate *at;
	size_t n;
	size_t cap;
	size_t n_left_out; /* by the limit */
};

/*
 * Functions of the process that match, `max` at most: ordered as in the symbol tables, or without a
 * pattern the likely ones first.
 */
int candidates_find(struct candidates *ret, struct inspect *i, const struct probes_command *c,
		    size_t max);

/* Why there is none, and what to do. */
void candidates_tell_none(struct inspect *i, const struct probes_command *c, char *buf, size_t n);

int probes_list(struct inspect *i, const struct probes_command *c);
int probes_count(struct inspect *i, const struct probes_command *c);
int probes_check(struct inspect *i, const struct probes_command *c);

#endif
