/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/endpoint.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/glob.h"
#include "model/decode.h"
#include "probe/endpoint_priv.h"
#include "probe/normalize.h"

enum { NAME_BYTES_MAX = 2048 };

static const char *const leave_names[] = {
	[LEAVE_AUTO] = "auto", [LEAVE_RETSITE] = "retsite",     [LEAVE_END] = "end",
	[LEAVE_RET] = "ret",   [LEAVE_URETPROBE] = "uretprobe",
};

const char *leave_method_name(enum leave_method m)
{
	return (unsigned int)m < ARRAY_SIZE(leave_names) ? leave_names[m] : "?";
}

int parse_leave_method(const char *text, enum leave_method *ret)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(leave_names); i++) {
		if (strcmp(text, leave_names[i]) == 0) {
			*ret = (enum leave_method)i;
			return 0;
		}
	}
	return -EINVAL;
}

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

static void target_deinit(struct target_text *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(t->words); i++)
		free(t->words[i]);
	*t = (struct target_text){0};
}

/* 0xHEX as the whole word. */
static bool parse_offset(const char *word, uint64_t *ret)
{
	char *end;

	if (word[0] != '0' || (word[1] | 0x20) != 'x' || !isxdigit((unsigned char)word[2]))
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
static int take_expression(struct cursor *c, enum expression_kind kind, struct expression **ret)
{
	struct scan s;
	int r;

	if (*ret)
		return fail_at(c, c->pos, "this option is given twice");
	scan_init(&s, "endpoint", c->text, c->pos, c->e);
	r = s.token.kind == TOKEN_BAD ? -EINVAL : parse_expression(&s, kind, ret);
	if (r < 0)
		return r;
	if (s.token.kind == TOKEN_BAD)
		return -EINVAL;
	if (s.token.kind != TOKEN_END)
		return scan_error(&s, s.token.at, "unexpected text after the expression");
	c->pos = s.token.at;
	return 0;
}

/* "(" name ")" right after the target. */
static int take_parenthesized(struct cursor *c, struct expression **ret)
{
	struct scan s;
	int r;

	scan_init(&s, "endpoint", c->text, c->pos + 1, c->e);
	if (s.token.kind == TOKEN_BAD)
		return -EINVAL;
	r = parse_expression(&s, EXPRESSION_NAME, ret);
	r = r < 0 ? r : scan_expect_punct(&s, ")");
	if (r < 0)
		return r;
	if (s.token.kind != TOKEN_END)
		return scan_error(&s, s.token.at,
				  "unexpected text after ')' (options start with ';')");
	c->pos = s.token.at;
	return 0;
}

static int take_normalize(struct endpoint *ep, struct cursor *c)
{
	static const char *const names[] = {"sql", "path", "lower"};
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
			return fail_at(c, at, "normalisers are sql, path, lower");
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

	if (ep->match || ep->has_regex)
		return fail_at(c, at, "this option is given twice");
	if (c->text[c->pos] != '~')
		return take_word(c, "", &ep->match);
	c->pos++;
	r = take_word(c, "", &pattern);
	if (r < 0)
		return r;
	ep->has_regex = regcomp(&ep->regex, pattern, REG_EXTENDED | REG_NOSUB) == 0;
	free(pattern);
	return ep->has_regex ? 0 : fail_at(c, at, "not an extended regular expression");
}

static bool option_is(const struct cursor *c, size_t at, size_t n, const char *name)
{
	return n == strlen(name) && memcmp(c->text + at, name, n) == 0;
}

static int take_value(struct endpoint *ep, struct cursor *c, size_t at, size_t n)
{
	if (option_is(c, at, n, "name"))
		return take_expression(c, EXPRESSION_NAME, &ep->name);
	if (option_is(c, at, n, "leave-name"))
		return take_expression(c, EXPRESSION_NAME, &ep->leave_name);
	if (option_is(c, at, n, "if"))
		return take_expression(c, EXPRESSION_CONDITION, &ep->condition);
	if (option_is(c, at, n, "end-if"))
		return take_expression(c, EXPRESSION_CONDITION, &ep->end_condition);
	if (option_is(c, at, n, "normalize"))
		return take_normalize(ep, c);
	if (option_is(c, at, n, "leave"))
		return take_leave(ep, c);
	if (option_is(c, at, n, "match"))
		return take_match(ep, c);
	if (option_is(c, at, n, "as") && !ep->as)
		return take_word(c, "", &ep->as);
	if (option_is(c, at, n, "end") && !ep->has_end) {
		ep->has_end = true;
		return parse_target(c, ":", &ep->end);
	}
	return fail_at(
		c, at,
		"unknown or repeated option (name, leave-name, if, end, end-if, once, match, normalize, as, leave)");
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
			"options are name=, leave-name=, if=, end=, end-if=, once, match=, normalize=, as=, leave=");
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
	if (ep->name && ep->leave_name)
		return fail_at(c, 0, "name= and leave-name= exclude each other");
	if (ep->target.target.kind == ENDPOINT_USDT && !ep->has_end)
		return fail_at(
			c, 0,
			"a USDT probe is a place inside a function: say where the call ends with end=");
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
	r = r < 0 ? r : check_endpoint(ep, &c);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(ep);
	return 0;
}

struct endpoint *endpoint_free(struct endpoint *ep)
{
	if (!ep)
		return NULL;
	target_deinit(&ep->target);
	target_deinit(&ep->end);
	expression_free(ep->name);
	expression_free(ep->leave_name);
	expression_free(ep->condition);
	expression_free(ep->end_condition);
	if (ep->has_regex)
		regfree(&ep->regex);
	free(ep->text);
	free(ep->as);
	free(ep->display);
	free(ep->match);
	free(ep);
	return NULL;
}

const char *endpoint_text(const struct endpoint *ep)
{
	return ep->text;
}

const char *endpoint_display(const struct endpoint *ep)
{
	if (ep->as)
		return ep->as;
	if (ep->display)
		return ep->display;
	return ep->target.target.kind == ENDPOINT_USDT ? ep->target.target.name
						       : ep->target.target.symbol;
}

int endpoint_set_display(struct endpoint *ep, const char *name)
{
	char *copy = strdup(name);

	if (!copy)
		return -ENOMEM;
	free(ep->display);
	ep->display = copy;
	return 0;
}

enum leave_method endpoint_leave(const struct endpoint *ep)
{
	return ep->has_end ? LEAVE_END : ep->leave;
}

const struct endpoint_target *endpoint_target(const struct endpoint *ep)
{
	return &ep->target.target;
}

const struct endpoint_target *endpoint_end(const struct endpoint *ep)
{
	return ep->has_end ? &ep->end.target : NULL;
}

bool endpoint_has_name(const struct endpoint *ep)
{
	return ep->name || ep->leave_name;
}

bool endpoint_matches(const struct endpoint *ep, const char *name)
{
	if (ep->match)
		return glob_match(ep->match, name);
	if (ep->has_regex)
		return regexec(&ep->regex, name, 0, NULL, 0) == 0;
	return true;
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
		n_read += f.type != WIRE_FIELD_FAULT;
		if (f.type == WIRE_FIELD_STR || f.type == WIRE_FIELD_CUT)
			append(buf, &n, max, f.text, strnlen(f.text, f.text_bytes));
		else if (f.type == WIRE_FIELD_FAULT)
			append(buf, &n, max, "?", 1);
		else
			append_number(buf, &n, max, part, &f);
		for (size_t k = from; part->lower && k < n; k++)
			buf[k] = (char)tolower((unsigned char)buf[k]);
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

/* Control characters and bytes that are no UTF-8 become \xNN; white space becomes a blank. */
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

void endpoint_format_name(const struct endpoint *ep, const uint8_t *fields, size_t bytes, char *buf,
			  size_t buf_bytes)
{
	const struct expression *x = ep->name ? ep->name : ep->leave_name;
	char joined[NAME_BYTES_MAX];

	if (!x || join_fields(x, fields, bytes, joined, sizeof(joined)) == 0 || !joined[0]) {
		escape_name(endpoint_display(ep), buf, buf_bytes);
		return;
	}
	if (ep->normalize & ENDPOINT_NORMALIZE_SQL)
		normalize_sql(joined, strlen(joined), joined, sizeof(joined));
	if (ep->normalize & ENDPOINT_NORMALIZE_PATH) {
		char copy[NAME_BYTES_MAX];

		normalize_path(joined, strlen(joined), copy, sizeof(copy));
		snprintf(joined, sizeof(joined), "%s", copy);
	}
	for (char *p = joined; (ep->normalize & ENDPOINT_NORMALIZE_LOWER) && *p; p++)
		*p = (char)tolower((unsigned char)*p);
	escape_name(joined, buf, buf_bytes);
}

int endpoint_compile(const struct endpoint *ep, const struct expression_resolver *entry,
		     const struct expression_resolver *end, struct wire_endpoint *ret,
		     uint32_t *ret_registers, struct errmsg *e)
{
	struct compile_input in = {.text = ep->text,
				   .condition = ep->condition,
				   .keep = ep->leave_name,
				   .name = ep->name,
				   .phase = COMPILE_ENTRY};
	struct program program = {0};
	int r = compile_program(&in, entry, &program, e);

	if (r < 0)
		return r;
	memset(ret, 0, sizeof(*ret));
	memcpy(ret->entry_ops, program.ops, program.n * sizeof(program.ops[0]));
	memcpy(ret->match, program.match, sizeof(ret->match));
	ret->n_entry_ops = program.n;
	*ret_registers = program.registers;
	in = (struct compile_input){.text = ep->text,
				    .condition = ep->end_condition,
				    .name = ep->leave_name,
				    .phase = ep->has_end ? COMPILE_END : COMPILE_LEAVE};
	program.n = 0; /* the bytes to match stay: one table serves both programs */
	r = compile_program(&in, ep->has_end ? end : NULL, &program, e);
	if (r < 0)
		return r;
	memcpy(ret->leave_ops, program.ops, program.n * sizeof(program.ops[0]));
	memcpy(ret->match, program.match, sizeof(ret->match));
	ret->n_leave_ops = program.n;
	ret->flags = (ep->once ? WIRE_EP_F_BEGIN_IF_NONE : 0) |
		     (ep->has_end ? WIRE_EP_F_END_PROBE : 0) |
		     (ep->leave_name ? WIRE_EP_F_NAME_AT_LEAVE : 0) |
		     (ret->n_entry_ops ? WIRE_EP_F_HAS_OPS : 0) |
		     (ep->end_condition ? WIRE_EP_F_END_OPS : 0);
	return 0;
}
