/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracecontext.c: sw8 and traceparent, field by field.
 */
#include "net/tracecontext.h"

#include <string.h>

#include "base/cleanup.h"
#include "net/label.h"

enum { SW8_FIELDS = 8 };

struct piece {
	const char *at;
	size_t n;
};

/* Splits at '-'; returns the number of pieces, max + 1 when there are more. */
static size_t split(const char *text, struct piece *ret, size_t max)
{
	size_t n = 0;

	for (;;) {
		size_t len = strcspn(text, "-");

		if (n == max)
			return max + 1;
		ret[n++] = (struct piece){text, len};
		if (!text[len])
			return n;
		text += len + 1;
	}
}

static int base64_digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Standard alphabet, padding optional. False when malformed, too long, or not clean text. */
static bool decode_base64(struct piece p, char *buf, size_t buf_bytes)
{
	uint32_t bits = 0;
	size_t out = 0;
	int n_bits = 0;

	while (p.n && p.at[p.n - 1] == '=')
		p.n--;
	if (p.n % 4 == 1)
		return false;
	for (size_t i = 0; i < p.n; i++) {
		int digit = base64_digit(p.at[i]);

		if (digit < 0)
			return false;
		bits = bits << 6 | (uint32_t)digit;
		n_bits += 6;
		if (n_bits < 8)
			continue;
		n_bits -= 8;
		if (out + 1 >= buf_bytes)
			return false;
		buf[out++] = (char)(bits >> n_bits & 0xff);
	}
	buf[out] = '\0';
	return strlen(buf) == out && label_is_clean(buf);
}

static bool decode_span_id(struct piece p, int32_t *ret)
{
	int64_t v = 0;

	if (!p.n || p.n > 10)
		return false;
	for (size_t i = 0; i < p.n; i++) {
		if (p.at[i] < '0' || p.at[i] > '9')
			return false;
		v = v * 10 + (p.at[i] - '0');
	}
	if (v > INT32_MAX)
		return false;
	*ret = (int32_t)v;
	return true;
}

static bool is_hex(struct piece p, size_t n)
{
	bool zero = true;

	if (p.n != n)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!strchr("0123456789abcdef", p.at[i]))
			return false;
		zero = zero && p.at[i] == '0';
	}
	return !zero;
}

static unsigned int hex_byte(const char *s)
{
	unsigned int v = 0;

	for (int i = 0; i < 2; i++)
		v = v * 16 + (unsigned int)(s[i] <= '9' ? s[i] - '0' : s[i] - 'a' + 10);
	return v;
}

static enum tracecontext_result parse_sw8(const struct piece *f, struct tracecontext *c)
{
	const struct {
		size_t field;
		char *to;
	} texts[] = {
		{1, c->trace_id},        {2, c->parent_id},       {4, c->parent_service},
		{5, c->parent_instance}, {6, c->parent_endpoint}, {7, c->address},
	};

	if (f[0].n != 1 || (f[0].at[0] != '0' && f[0].at[0] != '1'))
		return TRACECONTEXT_E_FIELD;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (!decode_base64(f[texts[i].field], texts[i].to, TRACECONTEXT_TEXT_MAX))
			return TRACECONTEXT_E_FIELD;
	if (!decode_span_id(f[3], &c->parent_span_id) || !*c->trace_id || !*c->parent_id)
		return TRACECONTEXT_E_FIELD;
	c->kind = TRACECONTEXT_SW8;
	c->sampled = f[0].at[0] == '1';
	return TRACECONTEXT_OK;
}

static enum tracecontext_result parse_w3c(const struct piece *f, size_t n, struct tracecontext *c)
{
	/* Version ff is forbidden; version 00 has no further fields. */
	if (strncmp(f[0].at, "ff", 2) == 0 || (n > 4 && strncmp(f[0].at, "00", 2) == 0))
		return TRACECONTEXT_E_FIELD;
	if (!is_hex(f[1], 32) || !is_hex(f[2], 16))
		return TRACECONTEXT_E_FIELD;
	if (!is_hex(f[3], 2) && strncmp(f[3].at, "00", 2) != 0)
		return TRACECONTEXT_E_FIELD;
	if (f[3].n != 2)
		return TRACECONTEXT_E_FIELD;
	c->kind = TRACECONTEXT_W3C;
	c->sampled = hex_byte(f[3].at) & 1;
	memcpy(c->trace_id, f[1].at, 32);
	memcpy(c->parent_id, f[2].at, 16);
	return TRACECONTEXT_OK;
}

enum tracecontext_result parse_tracecontext(const char *text, struct tracecontext *ret)
{
	struct piece fields[SW8_FIELDS];
	struct tracecontext c = {};
	enum tracecontext_result r;
	size_t n = split(text, fields, SW8_FIELDS);

	if (n == SW8_FIELDS && fields[0].n == 1)
		r = parse_sw8(fields, &c);
	else if (n >= 4 && (is_hex(fields[0], 2) || strncmp(text, "00-", 3) == 0))
		r = parse_w3c(fields, n, &c);
	else
		return TRACECONTEXT_E_FORM;
	if (r == TRACECONTEXT_OK)
		*ret = c;
	return r;
}

size_t tracecontext_split(const char *name, const char **ret_context)
{
	static const char *const keys[] = {" sw8=", " traceparent="};

	*ret_context = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const char *found = NULL;

		for (const char *s = name; (s = strstr(s, keys[i])); s++)
			found = s;
		if (!found)
			continue;
		*ret_context = found + strlen(keys[i]);
		return (size_t)(found - name);
	}
	return strlen(name);
}
