/* SPDX-License-Identifier: Apache-2.0 */
#include "base/glob.h"

#include <stddef.h>
#include <string.h>

/* The byte after the set's ']', or NULL when p (at '[') does not start a set. */
static const char *set_end(const char *p)
{
	p++;
	if (*p == '!' || *p == '^')
		p++;
	if (*p == ']')
		p++;
	p = strchr(p, ']');
	return p ? p + 1 : NULL;
}

static bool set_has(const char *p, const char *end, unsigned char c)
{
	bool negated = p[1] == '!' || p[1] == '^';
	bool found = false;

	p += negated ? 2 : 1;
	for (end--; p < end; p++) {
		unsigned char low = *p, high = *p;

		if (p + 2 < end && p[1] == '-') {
			high = p[2];
			p += 2;
		}
		if (c >= low && c <= high)
			found = true;
	}
	return found != negated;
}

/* Matches one byte of text with the element at *p and moves *p behind it. */
static bool match_one(const char **p, char c)
{
	const char *end = **p == '[' ? set_end(*p) : NULL;
	const char *at = *p;

	if (end) {
		*p = end;
		return set_has(at, end, c);
	}
	if (*at == '\\' && at[1])
		at++;
	else if (*at == '?') {
		*p = at + 1;
		return true;
	}
	*p = at + 1;
	return *at == c;
}

bool glob_match(const char *pattern, const char *text)
{
	const char *star = NULL, *star_text = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = ++pattern;
			star_text = text;
			continue;
		}
		if (*pattern && match_one(&pattern, *text)) {
			text++;
			continue;
		}
		if (!star)
			return false;
		pattern = star;
		text = ++star_text;
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

bool glob_is_pattern(const char *pattern)
{
	for (const char *p = pattern; *p; p++) {
		if (*p == '\\' && p[1])
			p++;
		else if (*p == '*' || *p == '?' || (*p == '[' && set_end(p)))
			return true;
	}
	return false;
}
