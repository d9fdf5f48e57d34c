/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_parcel.c: any bytes as a parcel from a spool file; what passes the checks must be sendable. */
#include <assert.h>

#include "net/parcel.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct bytes b = {};
	struct parcel p;

	if (decode_parcel(data, n, &p) != PARCEL_OK)
		return 0;
	for (uint32_t i = 0; i < p.n_snapshots && i < 1000; i++)
		assert(encode_parcel_snapshot(&p, i, &b) == 0);
	bytes_deinit(&b);
	return 0;
}
