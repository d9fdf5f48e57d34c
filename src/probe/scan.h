/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan.h: tokens of endpoint expressions, with their position, and errors that mark it. Pure.
 */
#ifndef SPANPROF_PROBE_SCAN_H
#define SPANPROF_PROBE_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errmsg.h"

enum token_kind {
	TOKEN_END,    /* end of the text, or the ';' before the next option */
	TOKEN_NUMBER, /* 12, 0x1f, 'c' */
	TOKEN_IDENT,
	TOKEN_STRING, /* "text" with \" \\ \n \t \xNN; value in scan.string */
	TOKEN_PUNCT,  /* one of the operators; value in token.punct */
	TOKEN_BAD,    /* the error is already set */
};

struct token {
	enum token_kind kind;
	size_t at;  /* offset of the first byte in the text */
	size_t end; /* offset after the last byte */
	uint64_t number;
	char punct[3]; /* "(", "->", "==" ... NUL-terminated */
};

enum { SCAN_STRING_MAX = 256 };

struct scan {
	const char *text; /* borrowed, NUL-terminated: the whole specification */
	const char *what; /* "endpoint", for messages */
	size_t pos;
	struct token token;           /* the token at hand */
	char string[SCAN_STRING_MAX]; /* value of the TOKEN_STRING at hand */
	size_t string_bytes;
	struct errmsg *e;
};

void scan_init(struct scan *s, const char *what, const char *text, size_t pos, struct errmsg *e);

/* Reads the next token into s->token. */
void scan_next(struct scan *s);

bool scan_is_punct(const struct scan *s, const char *punct);
bool scan_is_ident(const struct scan *s, const char *name);
/* Consumes the operator when it is at hand. */
bool scan_take_punct(struct scan *s, const char *punct);
/* Consumes the operator or fails with "expected X". 0 or -EINVAL. */
int scan_expect_punct(struct scan *s, const char *punct);
/* Sets the message with the text and a caret under offset `at`; returns -EINVAL. */
int scan_error(const struct scan *s, size_t at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
