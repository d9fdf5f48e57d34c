/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint.h: an endpoint specification, from its text to the programs that BPF runs.
 *
 *   [BINARY:]SYMBOL[(NAME)][;OPTION]...
 *   BINARY:0xOFFSET[(NAME)][;OPTION]...
 *   usdt:[BINARY:]PROVIDER:NAME[(NAME)][;OPTION]...
 *
 * Parsing is pure. Compiling asks an endpoint_resolver for what only the binary knows (distances to
 * globals, parameters and fields by name, USDT arguments). docs/endpoints.md is the user's
 * reference.
 */
#ifndef SPANPROF_PROBE_ENDPOINT_H
#define SPANPROF_PROBE_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errmsg.h"
#include "bpf/wire.h"

enum leave_method { LEAVE_AUTO, LEAVE_RETSITE, LEAVE_END, LEAVE_RET, LEAVE_URETPROBE };

const char *leave_method_name(enum leave_method m);
int parse_leave_method(const char *text, enum leave_method *ret);

enum endpoint_target_kind { ENDPOINT_SYMBOL, ENDPOINT_OFFSET, ENDPOINT_USDT };

/* Where a probe goes, as the user wrote it. Strings are owned by the endpoint. */
struct endpoint_target {
	enum endpoint_target_kind kind;
	const char *binary; /* NULL: any module of the process, the executable first */
	const char *symbol; /* ENDPOINT_SYMBOL: symbol, demangled name, or glob of one */
	uint64_t offset;    /* ENDPOINT_OFFSET: byte in the file */
	const char *provider;
	const char *name; /* ENDPOINT_USDT */
	/* The end of a USDT probe by convention: name is that where it begins, see usdt_partner. */
	bool is_partner;
};

struct endpoint; /* owned strings, parsed expressions */

/* Pure. A bad specification is explained with its position marked; -EINVAL. */
int parse_endpoint(const char *text, struct endpoint **ret, struct errmsg *e);
struct endpoint *endpoint_free(struct endpoint *ep);

/* The specification as given. */
const char *endpoint_text(const struct endpoint *ep);
/* Display name: the option as=, else the function as given, demangled when known. */
const char *endpoint_display(const struct endpoint *ep);
/* The function that it turned out to be. The first one stays: processes may differ, a name may not change. */
int endpoint_found(struct endpoint *ep, const char *function);
/* A name that is given to it, for good: as the option as=. 0 or -ENOMEM. */
int endpoint_set_name(struct endpoint *ep, const char *name);
/* While the function is not known that it will be named after: what that matches; else NULL. */
const char *endpoint_pattern(const struct endpoint *ep);
/* The option leave=; LEAVE_AUTO when there is none, LEAVE_END when end= is given. */
enum leave_method endpoint_leave(const struct endpoint *ep);
const struct endpoint_target *endpoint_target(const struct endpoint *ep);
/* The declared end function, or NULL. */
const struct endpoint_target *endpoint_end(const struct endpoint *ep);
/* A second one, in the same file; NULL when there is none. */
const struct endpoint_target *endpoint_other_end(const struct endpoint *ep);
/* The option file=GLOB or file=!GLOB: whether the endpoint is meant for a file of this path. */
bool endpoint_wants_file(const struct endpoint *ep, const char *path);
bool endpoint_has_name(const struct endpoint *ep);
/* The option if=. */
bool endpoint_has_condition(const struct endpoint *ep);

/* Which programs the kernel side needs for it, as bits. */
enum endpoint_need {
	ENDPOINT_NEEDS_END = 1 << 0,
	ENDPOINT_NEEDS_URETPROBE =
		1 << 1,                /* the option leave=; the command line may ask for it, too */
	ENDPOINT_NEEDS_NAMES = 1 << 2, /* an expression is evaluated at entry */
	ENDPOINT_NEEDS_END_READS = 1 << 3, /* one that reads memory is, when the call ends */
};
unsigned int endpoint_needs(const struct endpoint *ep);

/*
 * The name of one span from its captured fields: fields joined with the expression's literals,
 * normalised, control characters escaped. Falls back to endpoint_display when there are no fields
 * or none could be read. Always NUL-terminated, cut at a character's boundary.
 */
void endpoint_format_name(const struct endpoint *ep, const uint8_t *fields, size_t bytes, char *buf,
			  size_t buf_bytes);

/*
 * match=: false for a span whose name the user did not ask for (glob and regex are evaluated here,
 * on the formatted name; exact and prefix conditions are evaluated in BPF where they can be).
 */
bool endpoint_matches(const struct endpoint *ep, const char *name);

#endif
