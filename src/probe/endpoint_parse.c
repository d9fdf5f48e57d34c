/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint_parse.c: the text of a specification as an endpoint. Its expressions are read in expression.c. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "probe/endpoint.h"
#include "probe/endpoint_priv.h"
#include "probe/pattern.h"
#include "probe/usdt.h"

/* Text with a position: the part of the specification before and between expressions. */
struct cursor {
	const char *text;
	size_t pos;
	struct errmsg *e;
};

static int fail_at(const struct cursor *c, size_t at, const char *why)
{
	struct scan s = {.text = c->text, .what = "endpoint", .e = c->e};

	return scan_error(&s, at, "%s", why);
}

static bool ends_word(const struct cursor *c, const char *stop)
{
	char ch = c->text[c->pos];

	if (ch == '\0' || ch == ';')
		return true;
	if (ch == ':' && strchr(stop, ':')) {
		if (c->text[c->pos + 1] == ':')
			return false;
		return c->pos == 0 || c->text[c->pos - 1] != ':';
	}
	return strchr(stop, ch) != NULL;
}

/* A word up to one of `stop`, to ';' or to the end; a word in quotes may hold any of them. */
static int take_word(struct cursor *c, const char *stop, char **ret)
{
	size_t from, n;

	while (c->text[c->pos] == ' ')
		c->pos++;
	from = c->pos;
	if (c->text[from] == '\'' || c->text[from] == '"') {
		const char *end = strchr(c->text + from + 1, c->text[from]);

		if (!end)
			return fail_at(c, from, "no closing quote");
		c->pos = (size_t)(end - c->text) + 1;
		*ret = strndup(c->text + from + 1, c->pos - from - 2);
		while (c->text[c->pos] == ' ')
			c->pos++;
		if (*ret && **ret == '\0') {
			free(*ret);
			*ret = NULL;
			return fail_at(c, from, "empty name");
		}
		return *ret ? 0 : -ENOMEM;
	}
	while (!ends_word(c, stop))
		c->pos++;
	n = c->pos - from;
	while (n && c->text[from + n - 1] == ' ')
		n--;
	if (n == 0)
		return fail_at(c, from, "a name is missing");
	*ret = strndup(c->text + from, n);
	return *ret ? 0 : -ENOMEM;
}

/* 0xHEX as the whole word. */
static bool parse_offset(const char *word, uint64_t *ret)
{
	char *end;

	if (!word || word[0] != '0' || (word[1] | 0x20) != 'x' || !isxdigit((unsigned char)word[2]))
		return false;
	errno = 0;
	*ret = strtoull(word, &end, 16);
	return errno == 0 && *end == '\0';
}

static int finish_usdt(const struct cursor *c, struct target_text *t, size_t n, size_t at)
{
	if (n < 2)
		return fail_at(c, at,
			       "a USDT probe is usdt:PROVIDER:NAME or usdt:BINARY:PROVIDER:NAME");
	t->target.kind = ENDPOINT_USDT;
	t->target.binary = n == 3 ? t->words[0] : NULL;
	t->target.provider = t->words[n - 2];
	t->target.name = t->words[n - 1];
	return 0;
}

static int finish_symbol(const struct cursor *c, struct target_text *t, size_t n, size_t at)
{
	char *last = t->words[n - 1];

	if (n > 2)
		return fail_at(c, at, "too many ':' (put names that hold one into quotes)");
	t->target.binary = n == 2 ? t->words[0] : NULL;
	t->target.kind = ENDPOINT_SYMBOL;
	t->target.symbol = last;
	if (parse_offset(last, &t->target.offset)) {
		if (n == 1)
			return fail_at(c, at, "an offset needs its file: BINARY:0xOFFSET");
		t->target.kind = ENDPOINT_OFFSET;
	}
	return 0;
}

static int parse_target(struct cursor *c, const char *stop, struct target_text *ret)
{
	size_t at = c->pos, n = 0;
	bool usdt;
	int r;

	while (c->text[c->pos] == ' ')
		c->pos++;
	usdt = strncmp(c->text + c->pos, "usdt:", 5) == 0;
	if (usdt)
		c->pos += 5;
	for (;;) {
		if (n == ARRAY_SIZE(ret->words))
			return fail_at(c, c->pos,
				       "too many ':' (put names that hold one into quotes)");
		r = take_word(c, stop, &ret->words[n]);
		if (r < 0)
			return r;
		n++;
		if (c->text[c->pos] != ':')
			break;
		c->pos++;
	}
	return usdt ? finish_usdt(c, ret, n, at) : finish_symbol(c, ret, n, at);
}

/* An expression from the cursor on; the token after it must be the end or ';'. */
static int take_condition(struct cursor *c, struct expression **ret)
{
	struct scan s;
	int r;

	if (*ret)
		return fail_at(c, c->pos, "this option is given twice");
	scan_init(&s, "endpoint", c->text, c->pos, c->e);
	r = s.token.kind == TOKEN_BAD ? -EINVAL : parse_expression(&s, EXPRESSION_CONDITION, ret);
	if (r < 0)
		return r;
	if (s.token.kind == TOKEN_BAD)
		return -EINVAL;
	if (s.token.kind != TOKEN_END)
		return scan_error(&s, s.token.at, "unexpected text after the expression");
	c->pos = s.token.at;
	return 0;
}

/* True when both capture the same fields between the same literals, so that one formats the other. */
static bool same_parts(const struct expression *a, const struct expression *b)
{
	if (a->parts.n != b->parts.n)
		return false;
	for (size_t i = 0; i < a->parts.n; i++) {
		const struct expr_part *x = &a->parts.at[i];
		const struct expr_part *y = &b->parts.at[i];

		if ((x->kind == PART_LITERAL) != (y->kind == PART_LITERAL) || x->lower != y->lower)
			return false;
		if (x->kind == PART_LITERAL && strcmp(x->text, y->text) != 0)
			return false;
	}
	return true;
}

/* name [ "@" "guard" ] { "|" name [ "@" "guard" ] } */
static int parse_alternatives(struct scan *s, struct name_choice *ret)
{
	int r;

	do {
		size_t at = s->token.at;
		struct name_alternative *alt = &ret->at[ret->n];

		if (ret->n == NAME_ALTERNATIVES_MAX)
			return scan_error(s, at, "more than %d alternatives",
					  NAME_ALTERNATIVES_MAX);
		r = s->token.kind == TOKEN_BAD ? -EINVAL
					       : parse_expression(s, EXPRESSION_NAME, &alt->name);
		if (r < 0)
			return r;
		ret->n++;
		if (!same_parts(ret->at[0].name, alt->name))
			return scan_error(s, at,
					  "alternatives must have the same parts and literals");
		if (!scan_take_punct(s, "@"))
			continue;
		if (s->token.kind != TOKEN_STRING)
			return scan_error(
				s, s->token.at,
				"expected a pattern of the file's path, \"build-id:HEX\" or \"text:GLOB\"");
		if (strncmp(s->string, "text:", 5) == 0 && strcspn(s->string + 5, "*?[\\") < 3)
			return scan_error(s, s->token.at,
					  "a text: pattern begins with at least three plain bytes");
		alt->guard = strdup(s->string);
		if (!alt->guard)
			return -ENOMEM;
		scan_next(s);
	} while (scan_take_punct(s, "|"));
	return s->token.kind == TOKEN_BAD ? -EINVAL : 0;
}

/* "(" name ")" right after the target. */
static int take_parenthesized(struct cursor *c, struct name_choice *ret)
{
	struct scan s;
	int r;

	scan_init(&s, "endpoint", c->text, c->pos + 1, c->e);
	r = parse_alternatives(&s, ret);
	r = r < 0 ? r : scan_expect_punct(&s, ")");
	if (r < 0)
		return r;
	if (s.token.kind != TOKEN_END)
		return scan_error(&s, s.token.at,
				  "unexpected text after ')' (options start with ';')");
	c->pos = s.token.at;
	return 0;
}

/* A name as an option's value. */
static int take_name(struct cursor *c, struct name_choice *ret)
{
	struct scan s;
	int r;

	if (ret->n)
		return fail_at(c, c->pos, "this option is given twice");
	scan_init(&s, "endpoint", c->text, c->pos, c->e);
	r = parse_alternatives(&s, ret);
	if (r == 0 && s.token.kind != TOKEN_END)
		return scan_error(&s, s.token.at, "unexpected text after the expression");
	c->pos = s.token.at;
	return r;
}

/* end=TARGET or end=FUNCTION|FUNCTION */
static int take_ends(struct endpoint *ep, struct cursor *c)
{
	size_t at = c->pos;
	int r = parse_target(c, ":|", &ep->end);

	ep->has_end = true;
	if (r < 0 || c->text[c->pos] != '|')
		return r;
	c->pos++;
	ep->has_other_end = true;
	r = parse_target(c, ":|", &ep->other_end);
	if (r < 0)
		return r;
	if (c->text[c->pos] == '|')
		return fail_at(c, c->pos, "more than two end functions");
	if (ep->end.target.kind == ENDPOINT_USDT || ep->other_end.target.kind == ENDPOINT_USDT)
		return fail_at(c, at, "of two ends none can be a USDT probe");
	return 0;
}

static int take_normalize(struct endpoint *ep, struct cursor *c)
{
	static const char *const names[] = {"sql", "path", "lower", "mysql", "pgsql", "sqlite"};
	size_t at = c->pos;
	AUTO_FREE char *word = NULL;
	char *save = NULL;
	int r = take_word(c, "", &word);

	if (r < 0)
		return r;
	for (char *w = strtok_r(word, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		size_t i = 0;

		while (i < ARRAY_SIZE(names) && strcmp(w, names[i]) != 0)
			i++;
		if (i == ARRAY_SIZE(names))
			return fail_at(c, at,
				       "normalisers are sql, mysql, pgsql, sqlite, path, lower");
		ep->normalize |= 1U << i;
	}
	return 0;
}

static int take_leave(struct endpoint *ep, struct cursor *c)
{
	size_t at = c->pos;
	AUTO_FREE char *word = NULL;
	int r = take_word(c, "", &word);

	if (r < 0)
		return r;
	if (parse_leave_method(word, &ep->leave) < 0)
		return fail_at(c, at, "leave methods are auto, retsite, end, ret, uretprobe");
	return 0;
}

static int take_match(struct endpoint *ep, struct cursor *c)
{
	size_t at = c->pos;
	char *pattern;
	int r;

	if (ep->match || ep->pattern)
		return fail_at(c, at, "this option is given twice");
	if (c->text[c->pos] != '~')
		return take_word(c, "", &ep->match);
	c->pos++;
	r = take_word(c, "", &pattern);
	if (r < 0)
		return r;
	r = pattern_new(&ep->pattern, pattern);
	free(pattern);
	return r > 0 ? fail_at(c, at, pattern_reason(r)) : r;
}

static bool option_is(const struct cursor *c, size_t at, size_t n, const char *name)
{
	return n == strlen(name) && memcmp(c->text + at, name, n) == 0;
}

static int take_value(struct endpoint *ep, struct cursor *c, size_t at, size_t n)
{
	if (option_is(c, at, n, "name"))
		return take_name(c, &ep->name);
	if (option_is(c, at, n, "leave-name"))
		return take_name(c, &ep->leave_name);
	if (option_is(c, at, n, "if"))
		return take_condition(c, &ep->condition);
	if (option_is(c, at, n, "end-if"))
		return take_condition(c, &ep->end_condition);
	if (option_is(c, at, n, "normalize"))
		return take_normalize(ep, c);
	if (option_is(c, at, n, "leave"))
		return take_leave(ep, c);
	if (option_is(c, at, n, "match"))
		return take_match(ep, c);
	if (option_is(c, at, n, "as") && !ep->as)
		return take_word(c, "", &ep->as);
	if (option_is(c, at, n, "file") && !ep->file)
		return take_word(c, "", &ep->file);
	if (option_is(c, at, n, "end") && !ep->has_end)
		return take_ends(ep, c);
	return fail_at(
		c, at,
		"unknown or repeated option (name, leave-name, if, end, end-if, once, match, normalize, as, leave, file)");
}

static int take_option(struct endpoint *ep, struct cursor *c)
{
	size_t at, n = 0;

	while (c->text[c->pos] == ' ')
		c->pos++;
	at = c->pos;
	while (islower((unsigned char)c->text[at + n]) || c->text[at + n] == '-')
		n++;
	c->pos = at + n;
	if (option_is(c, at, n, "once")) {
		ep->once = true;
		return 0;
	}
	if (c->text[c->pos] != '=')
		return fail_at(
			c, at,
			"options are name=, leave-name=, if=, end=, end-if=, once, match=, normalize=, as=, leave=, file=");
	c->pos++;
	return take_value(ep, c, at, n);
}

static int parse_options(struct endpoint *ep, struct cursor *c)
{
	int r = 0;

	while (r == 0 && c->text[c->pos] == ';') {
		c->pos++;
		r = take_option(ep, c);
		while (r == 0 && c->text[c->pos] == ' ')
			c->pos++;
	}
	if (r == 0 && c->text[c->pos] != '\0')
		return fail_at(c, c->pos, "unexpected text (options start with ';')");
	return r;
}

/* A USDT probe whose name says that another one ends what it begins: as if that had been given. */
static int imply_end(struct endpoint *ep)
{
	const struct endpoint_target *begin = &ep->target.target;
	struct target_text *end = &ep->end;
	char partner[ENDPOINT_TEXT_MAX];

	if (begin->kind != ENDPOINT_USDT || ep->has_end || ep->leave != LEAVE_AUTO ||
	    !usdt_partner(begin->name, 0, partner, sizeof(partner)))
		return 0;
	end->words[0] = strdup(begin->provider);
	end->words[1] = strdup(begin->name);
	end->words[2] = begin->binary ? strdup(begin->binary) : NULL;
	if (!end->words[0] || !end->words[1] || (begin->binary && !end->words[2]))
		return -ENOMEM;
	end->target = (struct endpoint_target){.kind = ENDPOINT_USDT,
					       .binary = end->words[2],
					       .provider = end->words[0],
					       .name = end->words[1],
					       .is_partner = true};
	ep->has_end = true;
	return 0;
}

/* What makes no sense together. */
static int check_endpoint(const struct endpoint *ep, const struct cursor *c)
{
	if (ep->end_condition && !ep->has_end)
		return fail_at(c, 0, "end-if= needs end=");
	if (ep->leave == LEAVE_END && !ep->has_end)
		return fail_at(c, 0, "leave=end needs end=");
	if (ep->has_end && ep->leave != LEAVE_AUTO && ep->leave != LEAVE_END)
		return fail_at(c, 0,
			       "an endpoint with end= ends there: leave= cannot be another method");
	if (ep->name.n && ep->leave_name.n)
		return fail_at(c, 0, "name= and leave-name= exclude each other");
	return 0;
}

DEFINE_CLEANUP(struct endpoint *, endpoint_free)

int parse_endpoint(const char *text, struct endpoint **ret, struct errmsg *e)
{
	CLEANUP(endpoint_freep) struct endpoint *ep = calloc(1, sizeof(*ep));
	struct cursor c = {.text = text, .e = e};
	int r;

	if (!ep)
		return -ENOMEM;
	if (strlen(text) > ENDPOINT_TEXT_MAX)
		return errmsg_set(e, -EINVAL, "endpoint: the specification is longer than %d bytes",
				  ENDPOINT_TEXT_MAX);
	ep->text = strdup(text);
	if (!ep->text)
		return -ENOMEM;
	r = parse_target(&c, ":(", &ep->target);
	if (r == 0 && text[c.pos] == '(')
		r = take_parenthesized(&c, &ep->name);
	r = r < 0 ? r : parse_options(ep, &c);
	r = r < 0 ? r : imply_end(ep);
	r = r < 0 ? r : check_endpoint(ep, &c);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(ep);
	return 0;
}
