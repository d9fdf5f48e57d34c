/* SPDX-License-Identifier: Apache-2.0 */
#include "code/debugdata.h"

#include <errno.h>
#include <lzma.h>
#include <stdlib.h>

#include "base/cleanup.h"

enum {
	FIRST_BYTES = 256 * 1024,
	DECODER_MAX_BYTES = 80 << 20, /* xz -9 needs 65 MiB; what packagers use (-6) needs 9 */
};

/* Runs the decoder into a buffer that grows up to max_bytes. */
static int run_decoder(lzma_stream *s, size_t max_bytes, uint8_t **buf, size_t *cap)
{
	for (;;) {
		lzma_ret lr = lzma_code(s, LZMA_FINISH);
		size_t want;
		uint8_t *p;

		if (lr == LZMA_STREAM_END)
			return 0;
		if (lr == LZMA_MEM_ERROR || lr == LZMA_MEMLIMIT_ERROR)
			return -ENOMEM;
		if ((lr != LZMA_OK && lr != LZMA_BUF_ERROR) || s->avail_out > 0)
			return -EINVAL;
		if (*cap >= max_bytes)
			return -EFBIG;
		want = *cap * 2 < max_bytes ? *cap * 2 : max_bytes;
		p = realloc(*buf, want);
		if (!p)
			return -ENOMEM;
		s->next_out = p + *cap;
		s->avail_out = want - *cap;
		*buf = p;
		*cap = want;
	}
}

int decode_debugdata(const void *xz, size_t xz_bytes, size_t max_bytes, uint8_t **ret,
		     size_t *ret_bytes)
{
	lzma_stream s = LZMA_STREAM_INIT;
	size_t cap = max_bytes < FIRST_BYTES ? max_bytes : FIRST_BYTES;
	AUTO_FREE uint8_t *buf = malloc(cap ? cap : 1);
	int r;

	if (!buf || lzma_stream_decoder(&s, DECODER_MAX_BYTES, 0) != LZMA_OK)
		return -ENOMEM;
	s.next_in = xz;
	s.avail_in = xz_bytes;
	s.next_out = buf;
	s.avail_out = cap;
	r = run_decoder(&s, max_bytes, &buf, &cap);
	*ret_bytes = (size_t)s.total_out;
	lzma_end(&s);
	if (r)
		return r;
	*ret = TAKE_PTR(buf);
	return 0;
}
