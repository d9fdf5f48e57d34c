/* SPDX-License-Identifier: Apache-2.0 */
/*
 * label.c: text made fit for a protobuf string field (RFC 3629: no surrogates, nothing above
 * U+10FFFF, no overlong forms).
 */
#include "net/label.h"

#include <stdint.h>
#include <string.h>

/* Bytes of the well-formed character at s, 0 when there is none. ret_cp: its code point. */
static size_t decode_char(const unsigned char *s, uint32_t *ret_cp)
{
	static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc0 ? 2 : 0;
	uint32_t cp;

	if (!n || s[0] >= 0xf8)
		return 0;
	cp = n == 1 ? s[0] : s[0] & (0xff >> (n + 1));
	for (size_t i = 1; i < n; i++) {
		/* The terminating NUL is no continuation byte: no read past it. */
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		cp = cp << 6 | (s[i] & 0x3f);
	}
	if (cp < lowest[n] || cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff))
		return 0;
	*ret_cp = cp;
	return n;
}

static bool is_control(uint32_t cp)
{
	return cp < 0x20 || (cp >= 0x7f && cp < 0xa0);
}

size_t label_copy(char *buf, size_t n, const char *src, size_t max_units)
{
	const unsigned char *s = (const unsigned char *)(src ? src : "");
	size_t out = 0, units = 0;

	while (*s) {
		uint32_t cp = 0;
		size_t len = decode_char(s, &cp);
		bool good = len && !is_control(cp);
		size_t need = good ? len : 1;
		size_t cost = good && cp >= 0x10000 ? 2 : 1;

		if (out + need >= n || units + cost > max_units)
			break;
		if (good)
			memcpy(buf + out, s, len);
		else
			buf[out] = '?';
		out += need;
		units += cost;
		s += len ? len : 1;
	}
	buf[out] = '\0';
	return out;
}

bool label_is_clean(const char *src)
{
	const unsigned char *s = (const unsigned char *)src;
	uint32_t cp;
	size_t len;

	for (; *s; s += len) {
		len = decode_char(s, &cp);
		if (!len || is_control(cp))
			return false;
	}
	return true;
}
