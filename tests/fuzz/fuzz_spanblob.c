/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_spanblob.c: what is inside a blob's zlib stream; every index must stay in its table. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "model/tree.h"
#include "task/spanblob.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	uLongf packed = compressBound(n);
	uint8_t *blob = malloc(packed + 4);
	struct profile *p = NULL;
	struct tree tree = {};
	uint32_t span;

	assert(blob && !profile_new(&p) && n < 1 << 24);
	for (int i = 0; i < 4; i++)
		blob[i] = n >> (8 * i);
	assert(compress2(blob + 4, &packed, data, n, 1) == Z_OK);
	if (!decode_spanblob(blob, packed + 4, p, &span)) {
		assert(span < p->spans.n);
		if (!tree_build(p, TREE_BY_FUNCTION, NULL, NULL, &tree))
			tree_deinit(&tree);
	}
	free(blob);
	profile_free(p);
	return 0;
}
