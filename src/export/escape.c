/* SPDX-License-Identifier: Apache-2.0 */
/*
 * escape.c: strict UTF-8 decoding, display width, and escapes.
 *
 * The width tables are short on purpose: they know the blocks that matter (East Asian wide and
 * full-width, emoji, combining marks), not each character. Invariant: what escape_next hands out
 * is printable and valid UTF-8, whatever the input.
 */
#include "export/escape.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct range {
	uint32_t first;
	uint32_t last;
};

/* Invisible or direction-changing characters, and the C1 controls (Unicode categories Cc, Cf). */
static const struct range hidden[] = {
	{0x80, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},     {0x180e, 0x180e},
	{0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},   {0xfeff, 0xfeff},
	{0xfff9, 0xfffb}, {0xfffe, 0xffff}, {0xe0000, 0xe007f},
};

static const struct range wide[] = {
	{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0x4dbf},   {0x4e00, 0xa4cf},
	{0xa960, 0xa97f},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
	{0xff01, 0xff60},   {0xffe0, 0xffe6},   {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff},
	{0x1f900, 0x1f9ff}, {0x1fa70, 0x1faff}, {0x20000, 0x3fffd},
};

static const struct range combining[] = {
	{0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},     {0x610, 0x61a},
	{0x64b, 0x65f},   {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff},   {0x20d0, 0x20ff},
	{0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xe0100, 0xe01ef},
};

static bool in_ranges(uint32_t c, const struct range *r, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (c >= r[i].first && c <= r[i].last)
			return true;
	return false;
}

/* Bytes of the UTF-8 character at s, 0 when it is not one (RFC 3629: shortest form, no surrogates). */
static unsigned int decode_utf8(const unsigned char *s, uint32_t *ret)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	unsigned int n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	uint32_t c = s[0];

	if (!n || s[0] > 0xf4)
		return 0;
	if (n > 1)
		c &= 0x7fU >> n;
	for (unsigned int i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*ret = c;
	return n;
}

bool escape_next(const char **s, struct escape_unit *ret)
{
	const unsigned char *p = (const unsigned char *)*s;
	char text[sizeof(ret->text) + 1];
	uint32_t c = 0;
	unsigned int n;
	int len;

	if (!*p)
		return false;
	if (*p >= 0x20 && *p < 0x7f) { /* nearly all of it */
		*ret = (struct escape_unit){.text = {*p}, .bytes = 1, .width = 1};
		++*s;
		return true;
	}
	n = decode_utf8(p, &c);
	*s += n ? n : 1;
	if (n && c >= 0x20 && c != 0x7f && !in_ranges(c, hidden, ARRAY_SIZE(hidden))) {
		memcpy(ret->text, p, n);
		ret->bytes = n;
		ret->width = 1;
		if (c >= 0x300 && in_ranges(c, combining, ARRAY_SIZE(combining)))
			ret->width = 0;
		else if (c >= 0x1100 && in_ranges(c, wide, ARRAY_SIZE(wide)))
			ret->width = 2;
		return true;
	}
	if (n <= 1)
		len = snprintf(text, sizeof(text), "\\x%02x", *p);
	else
		len = snprintf(text, sizeof(text), c > 0xffff ? "\\U%08x" : "\\u%04x", c);
	memcpy(ret->text, text, len);
	ret->bytes = ret->width = len;
	return true;
}

unsigned int escape_width(const char *s, unsigned int limit)
{
	struct escape_unit u;
	unsigned int width = 0;

	while (width <= limit && escape_next(&s, &u))
		width += u.width;
	return width;
}

unsigned int escape_print(FILE *out, const char *s, unsigned int max)
{
	bool cut = escape_width(s, max) > max;
	unsigned int dots = cut ? (max < 3 ? max : 3) : 0, width = 0;
	struct escape_unit u;

	while (escape_next(&s, &u) && width + u.width <= max - dots) {
		fwrite(u.text, 1, u.bytes, out);
		width += u.width;
	}
	fprintf(out, "%.*s", (int)dots, "...");
	return width + dots;
}

void escape_write(FILE *out, const char *s)
{
	struct escape_unit u;
	size_t n = 0;

	while (escape_next(&s, &u)) {
		if (n + u.bytes > ESCAPE_MAX_BYTES - 3) {
			fputs("...", out);
			return;
		}
		fwrite(u.text, 1, u.bytes, out);
		n += u.bytes;
	}
}

char *escape_dup(const char *s)
{
	size_t room = strlen(s) * 4, n = 0;
	struct escape_unit u;
	char *copy;

	if (room > ESCAPE_MAX_BYTES)
		room = ESCAPE_MAX_BYTES;
	copy = malloc(room + 1);
	if (!copy)
		return NULL;
	while (escape_next(&s, &u)) {
		if (n + u.bytes > ESCAPE_MAX_BYTES - 3) {
			memcpy(copy + n, "...", 3);
			n += 3;
			break;
		}
		memcpy(copy + n, u.text, u.bytes);
		n += u.bytes;
	}
	copy[n] = 0;
	return copy;
}
