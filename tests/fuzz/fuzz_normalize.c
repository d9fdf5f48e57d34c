/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_normalize.c: any text as SQL and as a path, into buffers of any size. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "probe/normalize.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	size_t room = n ? data[0] + 1U : 1;
	char *in = malloc(n + 1), *out = malloc(room);

	memcpy(in, data, n);
	in[n] = '\0';
	assert(normalize_path(in, n, out, room) < room);
	for (enum sql_dialect d = SQL_UNKNOWN; d <= SQL_SQLITE; d++)
		assert(normalize_sql(d, in, n, out, room) < room);
	assert(normalize_sql((enum sql_dialect)(room & 3), in, n, in, n + 1) <= n);
	free(out);
	free(in);
	return 0;
}
