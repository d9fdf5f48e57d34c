/* SPDX-License-Identifier: Apache-2.0 */
/* gzip.c: zlib's deflate with a gzip header; the same bytes give the same file. */
#include "export/gzip.h"

#include <errno.h>
#include <zlib.h>

#include "base/cleanup.h"

enum { GZIP_WINDOW_BITS = 15 + 16, CHUNK_BYTES = 64 * 1024, MEM_LEVEL = 8 };

static void end_deflate(z_stream *z)
{
	deflateEnd(z);
}

int gzip_write(FILE *out, const uint8_t *data, size_t bytes)
{
	CLEANUP(end_deflate) z_stream z = {};
	AUTO_FREE uint8_t *chunk = malloc(CHUNK_BYTES);
	size_t taken = 0;
	int r = Z_OK;

	if (!chunk || deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW_BITS,
				   MEM_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	while (r != Z_STREAM_END) {
		if (!z.avail_in) {
			z.next_in = (Bytef *)data + taken;
			z.avail_in = bytes - taken < CHUNK_BYTES ? bytes - taken : CHUNK_BYTES;
			taken += z.avail_in;
		}
		z.next_out = chunk;
		z.avail_out = CHUNK_BYTES;
		r = deflate(&z, taken == bytes ? Z_FINISH : Z_NO_FLUSH);
		if (r == Z_STREAM_ERROR)
			return -EIO;
		if (fwrite(chunk, 1, CHUNK_BYTES - z.avail_out, out) != CHUNK_BYTES - z.avail_out)
			return -EIO;
	}
	return 0;
}
