/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint_name.c: from captured fields to the name of a span, fit to be printed. Pure. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/glob.h"
#include "model/decode.h"
#include "probe/endpoint.h"
#include "probe/endpoint_priv.h"
#include "probe/normalize.h"
#include "probe/pattern.h"

enum { NAME_BYTES_MAX = 2048 };

bool endpoint_matches(const struct endpoint *ep, const char *name)
{
	if (ep->match)
		return glob_match(ep->match, name);
	return !ep->pattern || pattern_matches(ep->pattern, name);
}

static void append(char *buf, size_t *n, size_t max, const char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes && *n + 1 < max; i++)
		buf[(*n)++] = text[i];
	buf[*n] = '\0';
}

static void append_number(char *buf, size_t *n, size_t max, const struct expr_part *part,
			  const struct name_field *f)
{
	char text[32];

	for (size_t i = 0; i < part->map.n; i++) {
		if (part->map.at[i].from == f->number) {
			append(buf, n, max, part->map.at[i].to, strlen(part->map.at[i].to));
			return;
		}
	}
	if (part->kind == PART_HEX)
		snprintf(text, sizeof(text), "0x%" PRIx64, (uint64_t)f->number);
	else if (f->type == WIRE_FIELD_UINT)
		snprintf(text, sizeof(text), "%" PRIu64, (uint64_t)f->number);
	else
		snprintf(text, sizeof(text), "%" PRId64, f->number);
	append(buf, n, max, text, strlen(text));
}

/*
 * A pointer that is not what the expression takes it for reads as bytes that are no text. Such a
 * field counts as not read.
 */
static bool is_text(const char *text, size_t bytes)
{
	size_t bad = 0;

	for (size_t i = 0; i < bytes; i++) {
		unsigned char c = (unsigned char)text[i];

		bad += (c < 0x20 && c != '\n' && c != '\t' && c != '\r') || c == 0x7f;
	}
	return bad * 4 <= bytes;
}

/* What could not be read, until escape_name: other than a query's "?", it stays in a normalized path. */
#define UNREAD "\x1a"

/* Appends one field; false when it could not be read. */
static bool append_field(const struct expr_part *part, const struct name_field *f, char *buf,
			 size_t *n, size_t max)
{
	bool text = f->type == WIRE_FIELD_STR || f->type == WIRE_FIELD_CUT;

	if (f->type == WIRE_FIELD_FAULT || (text && !is_text(f->text, f->text_bytes))) {
		append(buf, n, max, UNREAD, strlen(UNREAD));
		return false;
	}
	if (text)
		append(buf, n, max, f->text, strnlen(f->text, f->text_bytes));
	else
		append_number(buf, n, max, part, f);
	return true;
}

static void make_lower(char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		text[i] = (char)tolower((unsigned char)text[i]);
}

/* Joins fields and literals; the number of fields that could be read is returned. */
static size_t join_fields(const struct expression *x, const uint8_t *fields, size_t bytes,
			  char *buf, size_t max)
{
	size_t n = 0, off = 0, n_read = 0;
	struct name_field f;

	buf[0] = '\0';
	for (size_t i = 0; i < x->parts.n; i++) {
		const struct expr_part *part = &x->parts.at[i];
		size_t from = n;

		if (part->kind == PART_LITERAL) {
			append(buf, &n, max, part->text, part->text_bytes);
			continue;
		}
		if (!decode_field(fields, bytes, &off, &f))
			break;
		n_read += append_field(part, &f, buf, &n, max);
		if (part->lower)
			make_lower(buf + from, n - from);
	}
	return n_read;
}

/* Length of the well-formed UTF-8 character at s, 0 when there is none. */
static size_t utf8_length(const unsigned char *s)
{
	size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	if (s[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

/* Control characters and bytes that are no UTF-8 become \xNN, white space a blank, and UNREAD "?". */
static void escape_name(const char *in, char *buf, size_t max)
{
	const unsigned char *s = (const unsigned char *)in;
	size_t n = 0;

	while (*s) {
		size_t len = utf8_length(s);
		char hex[5];

		if (*s == '\n' || *s == '\t' || *s == '\r') {
			snprintf(hex, sizeof(hex), " ");
			len = 1;
		} else if (*s == UNREAD[0]) {
			snprintf(hex, sizeof(hex), "?");
			len = 1;
		} else if (len == 0 || *s < 0x20 || *s == 0x7f || (*s == 0xc2 && s[1] < 0xa0)) {
			snprintf(hex, sizeof(hex), "\\x%02x", *s);
			len = 1;
		} else {
			memcpy(hex, s, len);
			hex[len] = '\0';
		}
		if (n + strlen(hex) + 1 > max)
			break;
		n += (size_t)snprintf(buf + n, max - n, "%s", hex);
		s += len;
	}
	buf[n] = '\0';
}

static const struct {
	enum endpoint_normalize flag;
	enum sql_dialect dialect;
} dialects[] = {
	{ENDPOINT_NORMALIZE_SQL, SQL_UNKNOWN},
	{ENDPOINT_NORMALIZE_MYSQL, SQL_MYSQL},
	{ENDPOINT_NORMALIZE_PGSQL, SQL_PGSQL},
	{ENDPOINT_NORMALIZE_SQLITE, SQL_SQLITE},
};

void endpoint_format_name(const struct endpoint *ep, const uint8_t *fields, size_t bytes, char *buf,
			  size_t buf_bytes)
{
	const struct expression *x = ep->name.n ? ep->name.at[0].name : ep->leave_name.at[0].name;
	char joined[NAME_BYTES_MAX];

	if (!x || join_fields(x, fields, bytes, joined, sizeof(joined)) == 0 || !joined[0]) {
		escape_name(endpoint_display(ep), buf, buf_bytes);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(dialects); i++)
		if (ep->normalize & dialects[i].flag)
			normalize_sql(dialects[i].dialect, joined, strlen(joined), joined,
				      sizeof(joined));
	if (ep->normalize & ENDPOINT_NORMALIZE_PATH) {
		char copy[NAME_BYTES_MAX];

		normalize_path(joined, strlen(joined), copy, sizeof(copy));
		snprintf(joined, sizeof(joined), "%s", copy);
	}
	for (char *p = joined; (ep->normalize & ENDPOINT_NORMALIZE_LOWER) && *p; p++)
		*p = (char)tolower((unsigned char)*p);
	escape_name(joined, buf, buf_bytes);
}
