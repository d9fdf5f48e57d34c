/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_preset.c: preset files. */
#include <assert.h>

#include "fuzz.h"
#include "probe/preset.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct presets *p = NULL;
	struct errmsg e = {""};

	if (presets_new(&p) < 0)
		return 0;
	if (parse_presets(p, (const char *)data, n, "x", &e) < 0)
		assert(e.text[0]);
	presets_free(p);
	return 0;
}
