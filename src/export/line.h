/* SPDX-License-Identifier: Apache-2.0 */
/*
 * line.h: lines of a terminal, made of cells that know their width.
 *
 * All text passes through escape.h and is cut at the line's limit; padding is held back until text
 * follows it, so no line ends in spaces. Colours are written only when asked for.
 */
#ifndef SPANPROF_EXPORT_LINE_H
#define SPANPROF_EXPORT_LINE_H

#include <stdbool.h>
#include <stdio.h>

enum line_style {
	LINE_PLAIN,
	LINE_BOLD,
	LINE_DIM,
	LINE_RED,
	LINE_YELLOW,
	LINE_GREEN,
	LINE_STYLE_MAX
};

enum { LINE_UNLIMITED = 4000 }; /* columns of a line when there is no terminal to fit */

struct line {
	FILE *out; /* borrowed */
	unsigned int limit;
	unsigned int used;    /* columns, pending spaces included */
	unsigned int pending; /* spaces to write before the next text */
	bool color;
};

void line_init(struct line *l, FILE *out, unsigned int columns, bool color);

/* Text from here on, cut at the limit. */
void line_text(struct line *l, enum line_style style, const char *s);
void line_printf(struct line *l, enum line_style style, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Text in a cell of `width` columns: cut to it, padded on the right, or on the left. */
void line_cell(struct line *l, enum line_style style, const char *s, unsigned int width);
void line_right(struct line *l, enum line_style style, const char *s, unsigned int width);

void line_pad(struct line *l, unsigned int columns);
unsigned int line_room(const struct line *l);
void line_end(struct line *l);

/*
 * Words of `s` over as many lines as they need, the following ones indented by `indent`; starts
 * where the line stands and ends it.
 */
void line_wrap(struct line *l, enum line_style style, const char *s, unsigned int indent);

#endif
