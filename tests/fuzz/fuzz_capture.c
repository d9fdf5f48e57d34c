/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "pipe/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A capture file, through the whole pipeline. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct replay_options options = {.root = "/nonexistent"};
	struct replay *replay = NULL;
	struct errmsg e = {};
	FILE *in = size ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;

	if (!in)
		return 0;
	if (!replay_read(&replay, in, "fuzz", &options, &e))
		replay_free(replay);
	fclose(in);
	return 0;
}
