/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Length of the well-formed UTF-8 sequence at s (RFC 3629), 0 when there is none. */
static size_t sequence(const unsigned char *s, uint32_t *ret_code)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
	uint32_t code = s[0] & (0x7f >> n);

	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	if (code < least[n] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;
	*ret_code = code;
	return n;
}

static bool is_unsafe(uint32_t code)
{
	return code < 0xa0 || code == 0x2028 || code == 0x2029 || code == 0x200e ||
	       code == 0x200f || (code >= 0x202a && code <= 0x202e) ||
	       (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

char *text_printable(char *s)
{
	unsigned char *in = (unsigned char *)s, *out = in;

	while (*in) {
		uint32_t code = 0;
		size_t n;

		if (*in < 0x80) {
			*out++ = *in < 0x20 || *in == 0x7f ? '?' : *in;
			in++;
			continue;
		}
		n = sequence(in, &code);
		if (n == 0 || is_unsafe(code)) {
			*out++ = '?';
			in += n ? n : 1;
			continue;
		}
		memmove(out, in, n);
		out += n;
		in += n;
	}
	*out = '\0';
	return s;
}

char *text_copy_printable(char *buf, size_t buf_bytes, const char *s, size_t n)
{
	size_t len = strnlen(s, n);

	if (len < buf_bytes) {
		memcpy(buf, s, len);
		buf[len] = '\0';
		return text_printable(buf);
	}
	len = buf_bytes - 4;
	memcpy(buf, s, len);
	while (len > 0 && ((unsigned char)s[len] & 0xc0) == 0x80)
		len--;
	memcpy(buf + len, "...", 4);
	return text_printable(buf);
}

const char *text_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

char *text_show(char *buf, size_t buf_bytes, const char *s)
{
	return text_copy_printable(buf, buf_bytes, s, SIZE_MAX);
}
