/* SPDX-License-Identifier: Apache-2.0 */
/*
 * demangle.c: libiberty's demanglers behind bounds.
 *
 * A short name can expand to more text than fits into memory (substitutions double it again and
 * again), and the demanglers have no way to be told to stop. So the text goes to a callback that
 * leaves them by longjmp when the buffer is full: in callback form they keep their state on the
 * stack. Only the decoding of a punycode identifier (Rust, not ASCII) allocates; libiberty itself
 * loses those few bytes when the punycode is malformed.
 */
#include "code/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>

#include "base/text.h"

enum {
	INPUT_MAX = 1024, /* libiberty's own recursion limit refuses longer C++ names as well */
};

struct sink {
	char *buf;
	size_t n;
	size_t cap;
	jmp_buf full;
};

static void sink_text(const char *text, size_t n, void *ctx)
{
	struct sink *s = ctx;
	size_t room = s->cap - s->n;

	if (n == 0)
		return;
	memcpy(s->buf + s->n, text, n < room ? n : room);
	s->n += n < room ? n : room;
	if (n > room)
		longjmp(s->full, 1);
}

/* Writes at most s->cap bytes; true when name is mangled (then also when the text was cut). */
static bool run_demangler(const char *name, bool parameters, struct sink *s)
{
	int options = DMGL_ANSI | (parameters ? DMGL_PARAMS : 0);

	if (setjmp(s->full))
		return true;
	if (rust_demangle_callback(name, options, sink_text, s))
		return true;
	s->n = 0;
	return strncmp(name, "_Z", 2) == 0 &&
	       cplus_demangle_v3_callback(name, options, sink_text, s);
}

static bool is_number(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s[i] < '0' || s[i] > '9')
			return false;
	return n > 0;
}

static bool is_clone_mark(const char *s, size_t n)
{
	static const char *const marks[] = {
		"cold", "part",       "isra",    "constprop", "lto_priv",
		"llvm", "localalias", "clone",   "exit",      "__uniq",
		"warm", "hot",        "startup", "unlikely",  "simdclone",
	};

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (strlen(marks[i]) == n && memcmp(s, marks[i], n) == 0)
			return true;
	return false;
}

/* Index of the last dot in name[0..n), 0 when there is none. */
static size_t last_dot(const char *name, size_t n)
{
	while (n > 0 && name[n - 1] != '.')
		n--;
	return n ? n - 1 : 0;
}

size_t demangle_base_length(const char *name)
{
	bool mangled = name[0] == '_' && (name[1] == 'Z' || name[1] == 'R');
	size_t n = strcspn(name, "@");

	if (n == 0)
		n = strlen(name);
	for (;;) {
		size_t dot = last_dot(name, n), end = n;

		/* A number belongs to the mark before it; alone it is part of a Go or static name. */
		if (dot > 0 && is_number(name + dot + 1, n - dot - 1) && !mangled) {
			end = dot;
			dot = last_dot(name, end);
		}
		if (dot == 0 || (!is_clone_mark(name + dot + 1, end - dot - 1) &&
				 !(mangled && is_number(name + dot + 1, n - dot - 1))))
			return n;
		n = dot;
	}
}

bool demangle_name(const char *name, bool parameters, char *buf, size_t buf_bytes)
{
	size_t n = demangle_base_length(name);
	char input[INPUT_MAX + 1];
	char text[DEMANGLE_TEXT_MAX];
	struct sink s = {.buf = text, .cap = sizeof(text)};

	if (n <= INPUT_MAX && name[0] == '_') {
		memcpy(input, name, n);
		input[n] = '\0';
		if (run_demangler(input, parameters, &s) && s.n > 0) {
			text_copy_printable(buf, buf_bytes, text, s.n);
			return true;
		}
	}
	text_copy_printable(buf, buf_bytes, name, n);
	return false;
}
