/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracecontext.h: the caller's trace, read from what the caller sent along. Pure; hostile input.
 *
 * Two forms: SkyWalking's sw8 header (8 fields joined by '-': sampled, then base64 trace id, base64
 * parent segment id, decimal parent span id, and base64 service, instance, endpoint, address) and
 * W3C's traceparent (https://www.w3.org/TR/trace-context/, version 00 and later).
 */
#ifndef SPANPROF_NET_TRACECONTEXT_H
#define SPANPROF_NET_TRACECONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRACECONTEXT_TEXT_MAX = 512 }; /* bytes of one decoded field, NUL included */

enum tracecontext_kind { TRACECONTEXT_SW8, TRACECONTEXT_W3C };

struct tracecontext {
	enum tracecontext_kind kind;
	bool sampled;
	char trace_id[TRACECONTEXT_TEXT_MAX];
	/* W3C: 16 hex digits of the parent span; SW8: the parent's segment */
	char parent_id[TRACECONTEXT_TEXT_MAX];
	/* SW8 only */
	int32_t parent_span_id;
	char parent_service[TRACECONTEXT_TEXT_MAX];
	char parent_instance[TRACECONTEXT_TEXT_MAX];
	char parent_endpoint[TRACECONTEXT_TEXT_MAX];
	char address[TRACECONTEXT_TEXT_MAX];
};

enum tracecontext_result {
	TRACECONTEXT_OK,
	TRACECONTEXT_E_FORM = 1, /* neither form */
	TRACECONTEXT_E_FIELD,    /* right number of fields, but one of them is bad or too long */
};

/* ret is set only on success. */
enum tracecontext_result parse_tracecontext(const char *text, struct tracecontext *ret);

/*
 * A span's name may end in " sw8=CONTEXT" or " traceparent=CONTEXT": so an endpoint's name expression
 * hands the context over. Returns the length of the name without it and the context; the whole
 * length and NULL when there is none.
 */
size_t tracecontext_split(const char *name, const char **ret_context);

#endif
