/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_endpoint.c: endpoint specifications, compiled as far as this goes without a binary. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "probe/endpoint.h"
#include "probe/endpoint_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct endpoint_build build = {.path = "/usr/bin/x", .build_id = "00"};
	struct endpoint *ep = NULL;
	struct endpoint_code *code = calloc(1, sizeof(*code));
	struct errmsg e = {""};
	char *text = calloc(1, n + 1);
	char name[64];

	memcpy(text, data, n);
	if (parse_endpoint(text, &ep, &e) < 0) {
		assert(e.text[0]);
	} else {
		if (endpoint_compile(ep, NULL, NULL, &build, code, &e) == 0)
			assert(code->wire.n_entry_ops < WIRE_OPS_MAX &&
			       code->wire.n_leave_ops < WIRE_OPS_MAX);
		/* Any bytes as captured fields. */
		endpoint_format_name(ep, data, n & ~7UL, name, sizeof(name));
		assert(strlen(name) < sizeof(name));
		endpoint_matches(ep, name);
	}
	endpoint_free(ep);
	free(code);
	free(text);
	return 0;
}
