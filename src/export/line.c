/* SPDX-License-Identifier: Apache-2.0 */
/* line.c: cells, cutting and colours of terminal lines (see line.h). */
#include "export/line.h"

#include <stdarg.h>
#include <string.h>

#include "base/cleanup.h"
#include "export/escape.h"

static const char *const styles[] = {
	[LINE_PLAIN] = "",       [LINE_BOLD] = "\x1b[1m",    [LINE_DIM] = "\x1b[2m",
	[LINE_RED] = "\x1b[31m", [LINE_YELLOW] = "\x1b[33m", [LINE_GREEN] = "\x1b[32m",
};
_Static_assert(ARRAY_SIZE(styles) == LINE_STYLE_MAX, "styles");

void line_init(struct line *l, FILE *out, unsigned int columns, bool color)
{
	*l = (struct line){.out = out,
			   .limit = columns && columns < LINE_UNLIMITED ? columns : LINE_UNLIMITED,
			   .color = color};
}

unsigned int line_room(const struct line *l)
{
	return l->used < l->limit ? l->limit - l->used : 0;
}

void line_pad(struct line *l, unsigned int columns)
{
	l->pending += columns;
	l->used += columns;
}

/* Spaces at the end of the text are held back like padding. */
static void print(struct line *l, enum line_style style, const char *s, unsigned int max)
{
	size_t n = strlen(s), spaces = 0;
	bool styled = l->color && style != LINE_PLAIN;
	AUTO_FREE char *head = NULL;

	while (spaces < n && s[n - spaces - 1] == ' ')
		spaces++;
	if (spaces)
		head = strndup(s, n - spaces);
	if (head)
		s = head;
	if (max && *s) {
		fprintf(l->out, "%*s", (int)l->pending, "");
		l->pending = 0;
		if (styled)
			fputs(styles[style], l->out);
		l->used += escape_print(l->out, s, max);
		if (styled)
			fputs("\x1b[0m", l->out);
	}
	line_pad(l, spaces < line_room(l) ? spaces : line_room(l));
}

void line_text(struct line *l, enum line_style style, const char *s)
{
	print(l, style, s, line_room(l));
}

void line_printf(struct line *l, enum line_style style, const char *format, ...)
{
	char buf[512];
	va_list ap;

	va_start(ap, format);
	vsnprintf(buf, sizeof(buf), format, ap);
	va_end(ap);
	line_text(l, style, buf);
}

void line_cell(struct line *l, enum line_style style, const char *s, unsigned int width)
{
	unsigned int from = l->used, room = line_room(l);

	print(l, style, s, width < room ? width : room);
	if (l->used - from < width)
		line_pad(l, width - (l->used - from));
}

void line_right(struct line *l, enum line_style style, const char *s, unsigned int width)
{
	unsigned int w = escape_width(s, width);

	if (w < width)
		line_pad(l, width - w);
	print(l, style, s, line_room(l));
}

void line_end(struct line *l)
{
	fputc('\n', l->out);
	l->used = l->pending = 0;
}

void line_wrap(struct line *l, enum line_style style, const char *s, unsigned int indent)
{
	char word[128];
	bool first = true;

	while (*s) {
		size_t n = strcspn(s, " ");

		snprintf(word, sizeof(word), "%.*s", (int)n, s);
		s += n + strspn(s + n, " ");
		if (!first && escape_width(word, l->limit) + 1 > line_room(l)) {
			line_end(l);
			line_pad(l, indent);
		} else if (!first) {
			line_pad(l, 1);
		}
		line_text(l, style, word);
		first = false;
	}
	line_end(l);
}
