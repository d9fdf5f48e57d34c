/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/scan.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SCAN_SHOWN_MAX = 160 }; /* bytes of the text that an error shows on each side of the caret */

void scan_init(struct scan *s, const char *what, const char *text, size_t pos, struct errmsg *e)
{
	*s = (struct scan){.text = text, .what = what, .pos = pos, .e = e};
	scan_next(s);
}

int scan_error(const struct scan *s, size_t at, const char *format, ...)
{
	char why[256];
	va_list args;
	size_t len = strlen(s->text);
	size_t from = at > SCAN_SHOWN_MAX ? at - SCAN_SHOWN_MAX : 0;
	char shown[2 * SCAN_SHOWN_MAX + 1];
	size_t n = len - from < 2 * SCAN_SHOWN_MAX ? len - from : 2 * SCAN_SHOWN_MAX;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s->text[from + i];

		shown[i] = (char)(c < 0x20 || c >= 0x7f ? '?' : c);
	}
	shown[n] = '\0';
	return errmsg_set(s->e, -EINVAL, "%s: %s at column %zu\n  %s\n  %*s^", s->what, why, at + 1,
			  shown, (int)(at - from), "");
}

static int hex_value(int c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = tolower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads one possibly escaped character of a quoted text; -1 after an error. */
static int scan_char(struct scan *s, char quote)
{
	char c = s->text[s->pos];
	int hi, lo;

	if (c == '\0')
		return scan_error(s, s->token.at, "no closing %c", quote), -1;
	s->pos++;
	if (c != '\\')
		return (unsigned char)c;
	c = s->text[s->pos];
	if (c != '\0')
		s->pos++;
	switch (c) {
	case 'n':
		return '\n';
	case 't':
		return '\t';
	case '0':
		return '\0';
	case '\\':
	case '"':
	case '\'':
		return c;
	case 'x':
		hi = hex_value(s->text[s->pos]);
		lo = hi < 0 ? -1 : hex_value(s->text[s->pos + 1]);
		if (lo < 0)
			break;
		s->pos += 2;
		return hi * 16 + lo;
	default:
		break;
	}
	return scan_error(s, s->pos - 1, "unknown escape (use \\n \\t \\0 \\\\ \\\" \\' \\xNN)"),
	       -1;
}

static void scan_string(struct scan *s)
{
	s->pos++;
	s->string_bytes = 0;
	while (s->text[s->pos] != '"') {
		int c = scan_char(s, '"');

		if (c < 0) {
			s->token.kind = TOKEN_BAD;
			return;
		}
		if (s->string_bytes + 1 >= sizeof(s->string)) {
			scan_error(s, s->token.at, "text is longer than %d bytes",
				   SCAN_STRING_MAX - 1);
			s->token.kind = TOKEN_BAD;
			return;
		}
		s->string[s->string_bytes++] = (char)c;
	}
	s->string[s->string_bytes] = '\0';
	s->pos++;
	s->token.kind = TOKEN_STRING;
}

static void scan_quoted_char(struct scan *s)
{
	int c;

	s->pos++;
	c = scan_char(s, '\'');
	if (c >= 0 && s->text[s->pos] != '\'') {
		scan_error(s, s->pos, "expected ' after the character");
		c = -1;
	}
	if (c >= 0)
		s->pos++;
	s->token.kind = c < 0 ? TOKEN_BAD : TOKEN_NUMBER;
	s->token.number = c < 0 ? 0 : (uint64_t)c;
}

static void scan_number(struct scan *s)
{
	unsigned int base = 10;
	uint64_t v = 0;
	int d;

	if (s->text[s->pos] == '0' && (s->text[s->pos + 1] | 0x20) == 'x') {
		base = 16;
		s->pos += 2;
		if (hex_value(s->text[s->pos]) < 0) {
			scan_error(s, s->token.at, "hexadecimal digits expected after 0x");
			s->token.kind = TOKEN_BAD;
			return;
		}
	}
	while ((d = hex_value(s->text[s->pos])) >= 0 && d < (int)base) {
		if (v > (UINT64_MAX - (unsigned int)d) / base) {
			scan_error(s, s->token.at, "number does not fit into 64 bits");
			s->token.kind = TOKEN_BAD;
			return;
		}
		v = v * base + (unsigned int)d;
		s->pos++;
	}
	if (isalnum((unsigned char)s->text[s->pos]) || s->text[s->pos] == '_') {
		scan_error(s, s->pos, "'%c' is not part of a number", s->text[s->pos]);
		s->token.kind = TOKEN_BAD;
		return;
	}
	s->token.kind = TOKEN_NUMBER;
	s->token.number = v;
}

static void scan_punct(struct scan *s)
{
	static const char *const two[] = {
		"->", "==", "!=", "<=", ">=", "<<", ">>", "^=", "=~", "&&"};
	static const char one[] = "()[]*+-&<>,.=:@/|";
	const char *p = s->text + s->pos;

	for (size_t i = 0; i < sizeof(two) / sizeof(two[0]); i++) {
		if (p[0] == two[i][0] && p[1] == two[i][1]) {
			snprintf(s->token.punct, sizeof(s->token.punct), "%s", two[i]);
			s->token.kind = TOKEN_PUNCT;
			s->pos += 2;
			return;
		}
	}
	if (strchr(one, *p)) {
		s->token.punct[0] = *p;
		s->token.punct[1] = '\0';
		s->token.kind = TOKEN_PUNCT;
		s->pos++;
		return;
	}
	scan_error(s, s->pos, "unexpected character");
	s->token.kind = TOKEN_BAD;
}

void scan_next(struct scan *s)
{
	unsigned char c;

	while (s->text[s->pos] == ' ' || s->text[s->pos] == '\t' || s->text[s->pos] == '\n')
		s->pos++;
	s->token = (struct token){.kind = TOKEN_END, .at = s->pos};
	c = (unsigned char)s->text[s->pos];
	if (c == '\0' || c == ';')
		;
	else if (c == '"')
		scan_string(s);
	else if (c == '\'')
		scan_quoted_char(s);
	else if (isdigit(c))
		scan_number(s);
	else if (isalpha(c) || c == '_') {
		while (isalnum((unsigned char)s->text[s->pos]) || s->text[s->pos] == '_')
			s->pos++;
		s->token.kind = TOKEN_IDENT;
	} else
		scan_punct(s);
	s->token.end = s->pos;
}

bool scan_is_punct(const struct scan *s, const char *punct)
{
	return s->token.kind == TOKEN_PUNCT && strcmp(s->token.punct, punct) == 0;
}

bool scan_is_ident(const struct scan *s, const char *name)
{
	size_t n = s->token.end - s->token.at;

	return s->token.kind == TOKEN_IDENT && n == strlen(name) &&
	       memcmp(s->text + s->token.at, name, n) == 0;
}

bool scan_take_punct(struct scan *s, const char *punct)
{
	if (!scan_is_punct(s, punct))
		return false;
	scan_next(s);
	return true;
}

int scan_expect_punct(struct scan *s, const char *punct)
{
	if (s->token.kind == TOKEN_BAD)
		return -EINVAL;
	if (scan_take_punct(s, punct))
		return s->token.kind == TOKEN_BAD ? -EINVAL : 0;
	return scan_error(s, s->token.at, "expected '%s'", punct);
}
