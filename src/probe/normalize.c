/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/normalize.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

struct out {
	char *at;
	size_t n;
	size_t max; /* without the NUL */
};

static void put(struct out *o, char c)
{
	if (o->n < o->max)
		o->at[o->n++] = c;
}

static char last(const struct out *o)
{
	return o->n ? o->at[o->n - 1] : '\0';
}

static bool is_word(int c)
{
	return isalnum(c) || c == '_' || c == '$' || c >= 0x80;
}

/* After a quoted text: doubled quotes and, where the dialect has them, backslashes. */
static size_t skip_quoted(const char *in, size_t n, size_t i, bool backslashes)
{
	char quote = in[i];

	for (i++; i < n; i++) {
		if (in[i] == '\\' && backslashes && i + 1 < n) {
			i++;
		} else if (in[i] == quote) {
			if (i + 1 >= n || in[i + 1] != quote)
				return i + 1;
			i++;
		}
	}
	return n;
}

/* $tag$ ... $tag$ of PostgreSQL; 0 when there is no such literal at i. */
static size_t skip_dollar(const char *in, size_t n, size_t i)
{
	size_t tag = i + 1;
	size_t len;

	while (tag < n && is_word((unsigned char)in[tag]) && in[tag] != '$')
		tag++;
	if (tag >= n || in[tag] != '$' || (tag > i + 1 && isdigit((unsigned char)in[i + 1])))
		return 0;
	len = tag + 1 - i;
	for (size_t j = tag + 1; j + len <= n; j++)
		if (memcmp(in + j, in + i, len) == 0)
			return j + len;
	return n;
}

static bool is_pair(const char *in, size_t n, size_t i, char first, char second)
{
	return i + 1 < n && in[i] == first && in[i + 1] == second;
}

/*
 * Comments nest in PostgreSQL only. Where the dialect is not known nobody can tell where one with
 * another beginning inside ends, so nothing behind it is kept.
 */
static size_t skip_block(enum sql_dialect dialect, const char *in, size_t n, size_t i)
{
	size_t depth = 1;

	for (i += 2; i + 1 < n; i++) {
		if (is_pair(in, n, i, '*', '/')) {
			i++;
			if (--depth == 0)
				return i + 1;
		} else if (is_pair(in, n, i, '/', '*') && dialect == SQL_PGSQL) {
			i++;
			depth++;
		} else if (is_pair(in, n, i, '/', '*') && dialect == SQL_UNKNOWN) {
			return n;
		}
	}
	return n;
}

/* "--" and, in some dialects, "#"; MySQL wants white space behind the dashes. */
static bool is_line_comment(enum sql_dialect dialect, const char *in, size_t n, size_t i)
{
	if (in[i] == '#')
		return dialect == SQL_UNKNOWN || dialect == SQL_MYSQL;
	if (!is_pair(in, n, i, '-', '-'))
		return false;
	return dialect != SQL_MYSQL || i + 2 >= n || (unsigned char)in[i + 2] <= ' ';
}

static size_t skip_comment(enum sql_dialect dialect, const char *in, size_t n, size_t i)
{
	if (is_pair(in, n, i, '/', '*'))
		return skip_block(dialect, in, n, i);
	if (!is_line_comment(dialect, in, n, i))
		return 0;
	while (i < n && in[i] != '\n')
		i++;
	return i;
}

/*
 * A literal of PostgreSQL goes on behind white space with a newline in it, by the rules of its first
 * part. Returns the place of the next quote, 0: none.
 */
static size_t find_continuation(const char *in, size_t n, size_t i)
{
	bool newline = false;

	for (; i < n && (isspace((unsigned char)in[i]) || is_pair(in, n, i, '-', '-')); i++) {
		if (in[i] == '-')
			while (i + 1 < n && in[i + 1] != '\n')
				i++;
		newline = newline || in[i] == '\n';
	}
	return newline && i < n && in[i] == '\'' ? i : 0;
}

static size_t skip_number(const char *in, size_t n, size_t i)
{
	while (i < n && (is_word((unsigned char)in[i]) || in[i] == '.' ||
			 ((in[i] == '+' || in[i] == '-') && (in[i - 1] | 0x20) == 'e')))
		i++;
	return i;
}

static void put_blank(struct out *o)
{
	if (o->n && last(o) != ' ' && last(o) != '(')
		put(o, ' ');
}

/* A sign belongs to the number when no operand comes before it. */
static void drop_sign(struct out *o)
{
	size_t n = o->n;

	if (!n || (o->at[n - 1] != '-' && o->at[n - 1] != '+'))
		return;
	n--;
	while (n && o->at[n - 1] == ' ')
		n--;
	if (n == 0 || strchr("(,=<>", o->at[n - 1]))
		o->n--;
}

/* A literal: "?" unless it continues a list "?, " of such, which then stays one "?". */
static void put_literal(struct out *o)
{
	size_t n;

	drop_sign(o);
	n = o->n;
	while (n && o->at[n - 1] == ' ')
		n--;
	if (n && o->at[n - 1] == ',') {
		n--;
		while (n && o->at[n - 1] == ' ')
			n--;
		if (n && o->at[n - 1] == '?') {
			o->n = n;
			return;
		}
	}
	put(o, '?');
}

/* Whether a prefix such as E stands right in front of what comes next. */
static bool has_prefix(const struct out *o, const char *letters)
{
	return o->n && strchr(letters, last(o)) &&
	       (o->n == 1 || !is_word((unsigned char)o->at[o->n - 2]));
}

/* N'..', E'..', X'..', B'..': the prefix goes with the literal. */
static void drop_prefix(struct out *o)
{
	if (has_prefix(o, "nNeExXbB"))
		o->n--;
}

static bool has_backslashes(enum sql_dialect dialect, const struct out *o)
{
	if (dialect == SQL_PGSQL)
		return has_prefix(o, "eE");
	return dialect != SQL_SQLITE;
}

/* Whether the last word of the output is one after which there are names. */
static bool is_name_next(const struct out *o)
{
	static const char *const words[] = {"from",  "join", "into",  "update",
					    "table", "as",   "index", "view"};
	size_t end = o->n, start;

	while (end && o->at[end - 1] == ' ')
		end--;
	for (start = end; start && is_word((unsigned char)o->at[start - 1]);)
		start--;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strlen(words[i]) == end - start &&
		    strncasecmp(words[i], o->at + start, end - start) == 0)
			return true;
	return false;
}

static bool is_plain_name(const char *in, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!is_word((unsigned char)in[i]))
			return false;
	return n && !isdigit((unsigned char)in[0]);
}

/* Whether "..." from i to end is a name. Where that cannot be known, only what can be nothing else. */
static bool is_name(enum sql_dialect dialect, const struct out *o, const char *in, size_t n,
		    size_t i, size_t end)
{
	if (dialect == SQL_MYSQL || dialect == SQL_PGSQL)
		return dialect == SQL_PGSQL;
	if (end - i < 2 || in[end - 1] != '"')
		return false;
	if (last(o) == '.' || (end < n && in[end] == '.'))
		return true;
	return is_name_next(o) && is_plain_name(in + i + 1, end - i - 2);
}

/* Any quoted text at i; returns what comes after it. */
static size_t take_quoted(enum sql_dialect dialect, struct out *o, const char *in, size_t n,
			  size_t i)
{
	bool backslashes =
		in[i] == '\'' ? has_backslashes(dialect, o)
			      : in[i] == '"' && (dialect == SQL_UNKNOWN || dialect == SQL_MYSQL);
	size_t end = skip_quoted(in, n, i, backslashes);
	size_t more;

	while (in[i] == '\'' && dialect == SQL_PGSQL && (more = find_continuation(in, n, end)) != 0)
		end = skip_quoted(in, n, more, backslashes);
	if (in[i] == '\'' || (in[i] == '"' && !is_name(dialect, o, in, n, i, end))) {
		drop_prefix(o);
		put_literal(o);
		return end;
	}
	while (i < end)
		put(o, in[i++]);
	return end;
}

size_t normalize_sql(enum sql_dialect dialect, const char *in, size_t n, char *out,
		     size_t out_bytes)
{
	struct out o = {.at = out, .max = out_bytes - 1};
	size_t i = 0;

	while (i < n) {
		unsigned char c = (unsigned char)in[i];
		size_t skip = skip_comment(dialect, in, n, i);

		if (skip) {
			put_blank(&o);
			i = skip;
		} else if (isspace(c)) {
			put_blank(&o);
			i++;
		} else if (c == '\'' || c == '"' || c == '`') {
			i = take_quoted(dialect, &o, in, n, i);
		} else if (c == '$' && (skip = skip_dollar(in, n, i)) != 0) {
			i = skip;
			put_literal(&o);
		} else if (isdigit(c) && !is_word((unsigned char)last(&o)) && last(&o) != '`' &&
			   last(&o) != '"') {
			i = skip_number(in, n, i + 1);
			put_literal(&o);
		} else {
			put(&o, in[i++]);
		}
	}
	while (o.n && (last(&o) == ' ' || last(&o) == ';'))
		o.n--;
	out[o.n] = '\0';
	return o.n;
}

struct letters {
	size_t digits, hex, dashes, upper, lower;
};

static void count_letters(const char *s, size_t n, struct letters *ret)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		ret->digits += isdigit(c) != 0;
		ret->hex += isxdigit(c) != 0;
		ret->dashes += c && strchr("-_.,:", c);
		ret->upper += isupper(c) != 0;
		ret->lower += islower(c) != 0;
	}
}

/*
 * Digits, hexadecimal ids of 8 and more with a digit, UUIDs, words in which digits prevail; what only
 * a person or a key is called: with @, a web token, a long word of digits and both cases.
 */
static bool is_id(const char *s, size_t n)
{
	struct letters c = {0};

	if (n > 2 && s[0] == '0' && (s[1] | 0x20) == 'x') {
		s += 2;
		n -= 2;
	}
	if (n == 0)
		return false;
	count_letters(s, n, &c);
	if (c.digits == n || memchr(s, '@', n))
		return true;
	if (c.digits && c.hex + c.dashes == n && n >= 8)
		return true;
	if (n >= 16 && (memcmp(s, "eyJ", 3) == 0 || (c.digits >= 4 && c.upper && c.lower)))
		return true;
	return c.digits * 2 > n && c.digits >= 4;
}

/* Where a query or a fragment begins, percent-encoded ones too. */
static bool ends_path(const char *in, size_t n, size_t i)
{
	if (in[i] == '?' || in[i] == '#')
		return true;
	return i + 2 < n && in[i] == '%' && (in[i + 1] == '2' || in[i + 1] == '3') &&
	       ((in[i + 1] == '3' && (in[i + 2] | 0x20) == 'f') ||
		(in[i + 1] == '2' && in[i + 2] == '3'));
}

static bool ends_segment(const char *in, size_t n, size_t i)
{
	return in[i] == '/' || in[i] == ' ' || in[i] == '\0' || ends_path(in, n, i);
}

size_t normalize_path(const char *in, size_t n, char *out, size_t out_bytes)
{
	static const char id[] = "{id}";
	struct out o = {.at = out, .max = out_bytes - 1};
	size_t i = 0;

	while (i < n && !ends_path(in, n, i)) {
		size_t end = i, after;

		while (end < n && in[end] != ';' && !ends_segment(in, n, end))
			end++;
		for (after = end; after < n && !ends_segment(in, n, after);)
			after++;
		if (i > 0 && in[i - 1] == '/' && is_id(in + i, end - i))
			for (size_t k = 0; k < sizeof(id) - 1; k++)
				put(&o, id[k]);
		else
			while (i < end)
				put(&o, in[i++]);
		i = after;
		if (i < n && !ends_path(in, n, i))
			put(&o, in[i++]);
	}
	out[o.n] = '\0';
	return o.n;
}
