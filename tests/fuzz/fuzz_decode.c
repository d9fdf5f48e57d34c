/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_decode.c: raw records and their name fields. What is accepted must be readable as a whole. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "fuzz.h"
#include "model/decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	uint64_t *record = malloc(n ? n : 1), sum = 0;
	struct name_field f;
	struct event e;
	size_t off = 0;

	if (!record)
		return 0;
	memcpy(record, data, n);
	if (decode_record(record, n, &e) == DECODE_OK) {
		sum = hash_bytes(e.h, e.h->size, 0);
		if (e.h->kind == WIRE_K_SNAPSHOT)
			sum ^= hash_bytes(e.kernel, e.snapshot->kernel_frames * 8, sum) ^
			       hash_bytes(e.window, e.snapshot->window_bytes, sum);
		while (e.h->kind == WIRE_K_END &&
		       decode_field(e.end->name, e.end->name_bytes, &off, &f))
			sum ^= f.text ? hash_bytes(f.text, f.text_bytes, sum) : (uint64_t)f.number;
	}
	free(record);
	return (int)(sum & 0);
}
