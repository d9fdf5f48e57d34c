/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "pipe/capture_format.h"
#include "pipe/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Gives the file an END block, with its checksum, behind the last whole block. Returns its size. */
static size_t finish(uint8_t *file, size_t size)
{
	struct capture_block_header h, end = {CAPTURE_END, sizeof(struct capture_end_head)};
	struct capture_end_head e = {};
	size_t at = sizeof(struct capture_file_header);

	for (; at + sizeof(h) <= size; at += sizeof(h) + ((h.bytes + 7) & ~7ULL)) {
		memcpy(&h, file + at, sizeof(h));
		if (h.type == CAPTURE_END || h.bytes > size || at + sizeof(h) + h.bytes + 7 > size)
			break;
		e.n_blocks++;
	}
	e.crc = crc32_z(0, file, at);
	memcpy(file + at, &end, sizeof(end));
	memcpy(file + at + sizeof(end), &e, sizeof(e));
	return at + sizeof(end) + sizeof(e);
}

/* A capture file, through the whole pipeline: as it is, and with a checksum that is right. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct replay_options options = {.root = "/nonexistent"};
	uint8_t *file = malloc(size + 64);

	for (int i = 0; i < 2 && file && size > sizeof(struct capture_file_header); i++) {
		struct replay *replay = NULL;
		struct errmsg e = {};
		FILE *in;

		memcpy(file, data, size);
		in = fmemopen(file, i ? finish(file, size) : size, "r");
		if (in && !replay_read(&replay, in, "fuzz", &options, &e))
			replay_free(replay);
		if (in)
			fclose(in);
	}
	free(file);
	return 0;
}
