/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_rules.c: a rules file is refused with a message or loaded and freed. */
#include <assert.h>

#include "task/rules.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct rules *r = NULL;
	struct errmsg e = {};

	if (n > 16384)
		return 0;
	if (parse_rules((const char *)data, n, "fuzz", &r, &e))
		assert(e.text[0]);
	rules_free(r);
	return 0;
}
