/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint.h: an endpoint specification, from its text to the configuration that BPF runs.
 *
 *   [BINARY:]SYMBOL[(NAME EXPRESSION)]     BINARY:0xOFFSET     usdt:PROVIDER:NAME
 *
 * (draft: src/probe owner fills; docs/endpoints.md is the user's reference)
 */
#ifndef SPANPROF_PROBE_ENDPOINT_H
#define SPANPROF_PROBE_ENDPOINT_H

#include "base/errmsg.h"
#include "bpf/wire.h"

#include <stddef.h>
#include <stdint.h>

enum leave_method { LEAVE_AUTO, LEAVE_RETSITE, LEAVE_END, LEAVE_RET, LEAVE_URETPROBE };

struct endpoint; /* owned strings, parsed expression, compiled operations */

/* Pure. A bad specification is explained with its position marked; -EINVAL. */
int parse_endpoint(const char *text, struct endpoint **ret, struct errmsg *e);
struct endpoint *endpoint_free(struct endpoint *ep);

const char *endpoint_text(const struct endpoint *ep);
/* Display name: the function, demangled when known, or the preset's name. */
const char *endpoint_display(const struct endpoint *ep);

/*
 * The name of one span from its captured fields: fields joined with the expression's literals,
 * normalised, control characters escaped. Falls back to endpoint_display. Always NUL-terminated.
 */
void endpoint_format_name(const struct endpoint *ep, const uint8_t *fields, size_t bytes, char *buf,
			  size_t buf_bytes);

#endif
