/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint_priv.h: the inside of an endpoint, and its compilation: for src/probe only.
 */
#ifndef SPANPROF_PROBE_ENDPOINT_PRIV_H
#define SPANPROF_PROBE_ENDPOINT_PRIV_H

#include "probe/compile.h"
#include "probe/endpoint.h"
#include "probe/expression.h"

enum { ENDPOINT_TEXT_MAX = 4096 };

enum endpoint_normalize {
	ENDPOINT_NORMALIZE_SQL = 1 << 0,
	ENDPOINT_NORMALIZE_PATH = 1 << 1,
	ENDPOINT_NORMALIZE_LOWER = 1 << 2,
	ENDPOINT_NORMALIZE_MYSQL = 1 << 3,
	ENDPOINT_NORMALIZE_PGSQL = 1 << 4,
	ENDPOINT_NORMALIZE_SQLITE = 1 << 5,
};

struct target_text {
	struct endpoint_target target; /* its strings are in words[] */
	char *words[3];                /* owned */
};

enum { NAME_ALTERNATIVES_MAX = 8 };

/* One way to read the name; the first that fits the binary is used. */
struct name_alternative {
	struct expression *name; /* owned */
	char *guard; /* owned; NULL, a glob on the file's path, "build-id:HEX" or "text:GLOB" */
};

struct name_choice {
	struct name_alternative at[NAME_ALTERNATIVES_MAX]; /* all have the same parts */
	size_t n;
};

/* All owned. */
struct endpoint {
	char *text;
	struct target_text target;
	bool has_end;
	struct target_text end;
	bool has_other_end;
	struct target_text other_end;
	enum leave_method leave;
	bool once;
	unsigned int normalize;  /* enum endpoint_normalize */
	char *as;                /* display name given by the user */
	char *display;           /* found in the binary */
	char *match;             /* glob on the formatted name */
	char *file;              /* glob on the path of the file, '!' in front: all others */
	struct pattern *pattern; /* match=~ */
	struct name_choice name;
	struct name_choice leave_name;
	struct expression *condition;
	struct expression *end_condition;
};

/* The binary that an endpoint is compiled for; each may be NULL. */
struct endpoint_build {
	const char *path;
	const char *build_id;                          /* lower-case hexadecimal */
	bool (*has_text)(void *ctx, const char *glob); /* see binary_has_text() */
	void *ctx;
};

struct endpoint_code {
	struct wire_endpoint wire; /* everything but site_off */
	uint32_t registers;        /* bit i: the entry program reads enum wire_reg i */
	bool reads_memory;         /* the entry program does, too */
	uint32_t end_registers;    /* what the program at the end reads */
	bool end_reads_memory;
	bool nameless; /* a name was asked for, but no alternative fits this build */
};

/* entry and end resolve names at the entry and at the end function (end may be NULL without one). */
int endpoint_compile(const struct endpoint *ep, const struct expression_resolver *entry,
		     const struct expression_resolver *end, const struct endpoint_build *build,
		     struct endpoint_code *ret, struct errmsg *e);

#endif
