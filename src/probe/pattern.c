/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/pattern.h"

#include <errno.h>
#include <limits.h>
#include <regex.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { TEXT_BYTES_MAX = 256, PLACES_MAX = 256, DEPTH_MAX = 32, MATCHED_BYTES_MAX = 2048 };

struct pattern {
	regex_t regex;
	size_t matched_bytes; /* since it was compiled */
	char text[TEXT_BYTES_MAX + 1];
};

/* For each open group the places so far; `last`: of what a repetition would repeat. */
struct count {
	uint64_t places[DEPTH_MAX];
	uint64_t last;
	unsigned int depth;
};

static void add(struct count *c, uint64_t places)
{
	c->last = places;
	c->places[c->depth] += places;
}

static void repeat(struct count *c, uint64_t times)
{
	c->places[c->depth] += c->last * (times - 1);
	c->last *= times;
}

/* After the ']' of a set that begins at text. */
static const char *skip_set(const char *text)
{
	const char *p = text + 1;

	p += *p == '^';
	p += *p == ']';
	while (*p && *p != ']') {
		const char *inner = p[0] == '[' && p[1] && strchr(":.=", p[1]) ? p + 1 : NULL;

		p++;
		if (!inner)
			continue;
		for (p++; *p && !(p[0] == *inner && p[1] == ']');)
			p++;
		p += *p ? 2 : 0;
	}
	return *p ? p + 1 : p;
}

/* The larger bound of {n}, {n,} or {n,m} at text; *ret_end: after it. */
static uint64_t read_bounds(const char *text, const char **ret_end)
{
	uint64_t most = 1, n = 0;
	const char *p = text + 1;

	for (; *p && *p != '}'; p++) {
		n = *p >= '0' && *p <= '9' ? n * 10 + (uint64_t)(*p - '0') : 0;
		if (n > PLACES_MAX)
			n = PLACES_MAX + 1;
		if (n > most)
			most = n;
	}
	*ret_end = *p ? p + 1 : p;
	return p > text + 1 && p[-1] == ',' ? most + 1 : most;
}

/* A group's end or begin; false: nested too deeply. */
static bool step_group(struct count *c, char bracket)
{
	if (bracket == '(') {
		if (++c->depth == DEPTH_MAX)
			return false;
		c->places[c->depth] = 1;
		c->last = 0;
	} else if (c->depth) {
		c->depth--;
		add(c, c->places[c->depth + 1]);
	}
	return true;
}

static const char *step(struct count *c, const char *p)
{
	switch (*p) {
	case '[':
		add(c, 1);
		return skip_set(p);
	case '{':
		repeat(c, read_bounds(p, &p));
		return p;
	case '+': /* one, and any number of the same */
		repeat(c, 2);
		return p + 1;
	case '*':
	case '?':
		c->places[c->depth]++;
		c->last++;
		return p + 1;
	case '\\':
		add(c, 1);
		return p[1] ? p + 2 : p + 1;
	default:
		add(c, 1);
		return p + 1;
	}
}

unsigned int pattern_places(const char *text)
{
	struct count c = {0};

	for (const char *p = text; *p;) {
		if (*p == '(' || *p == ')') {
			if (!step_group(&c, *p++))
				return UINT_MAX;
		} else {
			p = step(&c, p);
		}
		if (c.places[c.depth] > PLACES_MAX)
			return UINT_MAX;
	}
	while (c.depth)
		step_group(&c, ')');
	return c.places[0] > PLACES_MAX ? UINT_MAX : (unsigned int)c.places[0];
}

static bool refers_back(const char *text)
{
	for (const char *p = text; *p;) {
		if (*p == '[') {
			p = skip_set(p);
			continue;
		}
		if (*p == '\\' && p[1] >= '1' && p[1] <= '9')
			return true;
		p += *p == '\\' && p[1] ? 2 : 1;
	}
	return false;
}

int pattern_new(struct pattern **ret, const char *text)
{
	size_t n = strlen(text);
	struct pattern *p;
	int r;

	if (refers_back(text))
		return PATTERN_E_BACK_REFERENCE;
	if (n > TEXT_BYTES_MAX || pattern_places(text) > PLACES_MAX)
		return PATTERN_E_TOO_LARGE;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	memcpy(p->text, text, n + 1);
	r = regcomp(&p->regex, text, REG_EXTENDED | REG_NOSUB);
	if (r) {
		free(p);
		return r == REG_ESPACE ? -ENOMEM : PATTERN_E_SYNTAX;
	}
	*ret = p;
	return PATTERN_OK;
}

struct pattern *pattern_free(struct pattern *p)
{
	if (p) {
		regfree(&p->regex);
		free(p);
	}
	return NULL;
}

/*
 * The C library keeps each state that a text leads to, up to one a byte and some KiB each, until the
 * expression is freed; so it begins anew now and then.
 */
static void renew(struct pattern *p)
{
	regex_t fresh;

	if (regcomp(&fresh, p->text, REG_EXTENDED | REG_NOSUB))
		return;
	regfree(&p->regex);
	p->regex = fresh;
	p->matched_bytes = 0;
}

bool pattern_matches(struct pattern *p, const char *text)
{
	if (p->matched_bytes > MATCHED_BYTES_MAX)
		renew(p);
	p->matched_bytes += strlen(text) + 1;
	return regexec(&p->regex, text, 0, NULL, 0) == 0;
}

const char *pattern_reason(enum pattern_result result)
{
	switch (result) {
	case PATTERN_E_BACK_REFERENCE:
		return "back references such as \\1 are not allowed";
	case PATTERN_E_TOO_LARGE:
		return "the regular expression is too large: at most 256 bytes and places, {repetitions} written out";
	default:
		return "not an extended regular expression";
	}
}
