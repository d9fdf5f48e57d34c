/* SPDX-License-Identifier: Apache-2.0 */
#include "code/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

enum { SHORT_BYTES = 6 };

static size_t lower(char *to, const char *from)
{
	size_t n = 0;

	for (; from[n] && n < NEAREST_TEXT_MAX - 1; n++)
		to[n] = (char)tolower((unsigned char)from[n]);
	to[n] = '\0';
	return n;
}

void nearest_init(struct nearest *near, const char *name)
{
	memset(near, 0, sizeof(*near));
	near->name_n = lower(near->name, name);
	near->limit = (near->name_n + 1) / 3;
}

static size_t min3(size_t a, size_t b, size_t c)
{
	size_t m = a < b ? a : b;

	return m < c ? m : c;
}

/* Levenshtein's distance, or limit + 1 as soon as it is certain to be above limit. */
static size_t edit_distance(const char *a, size_t an, const char *b, size_t bn, size_t limit)
{
	size_t row[NEAREST_TEXT_MAX + 1];

	if ((an > bn ? an - bn : bn - an) > limit)
		return limit + 1;
	for (size_t j = 0; j <= bn; j++)
		row[j] = j;
	for (size_t i = 1; i <= an; i++) {
		size_t diagonal = row[0], least = i;

		row[0] = i;
		for (size_t j = 1; j <= bn; j++) {
			size_t above = row[j];

			row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
			diagonal = above;
			least = row[j] < least ? row[j] : least;
		}
		if (least > limit)
			return limit + 1;
	}
	return row[bn];
}

/* The last component of "a::b::c<d::e>", "c<d::e>". */
static const char *last_component(const char *s)
{
	const char *last = s;
	size_t depth = 0;

	for (; *s; s++) {
		if (*s == '<' || *s == '(')
			depth++;
		else if ((*s == '>' || *s == ')') && depth > 0)
			depth--;
		else if (depth == 0 && s[0] == ':' && s[1] == ':')
			last = s + 2;
	}
	return last;
}

/* Of a few letters most are shared by chance: what is near begins with the same one. */
static size_t word_distance(const struct nearest *near, const char *word, size_t n)
{
	if (near->name_n < SHORT_BYTES && word[0] != near->name[0])
		return near->limit + 1;
	return edit_distance(near->name, near->name_n, word, n, near->limit);
}

static size_t distance(const struct nearest *near, const char *text, size_t n)
{
	const char *word = last_component(text);
	size_t d = word_distance(near, text, n);

	if (word != text && d > 0) {
		size_t w = word_distance(near, word, strlen(word));

		d = w < d ? w : d;
	}
	/* Longer names that contain this one come after those with a typing error or two. */
	if ((d > 2 || d > near->limit) && near->name_n >= 4 && strstr(text, near->name)) {
		size_t extra = 2 + (n - near->name_n) / 8;

		d = extra < near->limit ? extra : near->limit;
	}
	return d;
}

void nearest_offer(struct nearest *near, const char *text)
{
	char low[NEAREST_TEXT_MAX];
	size_t n = lower(low, text), d = distance(near, low, n), at;

	if (d > near->limit)
		return;
	for (size_t i = 0; i < near->n; i++)
		if (strcmp(near->best[i].text, text) == 0)
			return;
	for (at = near->n; at > 0; at--) {
		const struct nearest_name *b = &near->best[at - 1];

		if (b->distance < d || (b->distance == d && strlen(b->text) <= strlen(text)))
			break;
	}
	if (at == NEAREST_MAX)
		return;
	if (near->n < NEAREST_MAX)
		near->n++;
	memmove(&near->best[at + 1], &near->best[at], (near->n - at - 1) * sizeof(near->best[0]));
	near->best[at].distance = d;
	strncpy(near->best[at].text, text, NEAREST_TEXT_MAX - 1);
	near->best[at].text[NEAREST_TEXT_MAX - 1] = '\0';
}
