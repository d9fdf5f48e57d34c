/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usdt.h: statically defined probes, from the notes in .note.stapsdt. Pure; fuzzed.
 *
 * A note names a place (a nop), a semaphore that enables it, and where its arguments are in the
 * assembler's own syntax ("-4@%edi 8@-24(%rbp)").
 */
#ifndef SPANPROF_PROBE_USDT_H
#define SPANPROF_PROBE_USDT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errmsg.h"
#include "probe/compile.h"

enum { USDT_ARGUMENTS_MAX = 12 };

struct usdt_note {
	uint64_t vaddr;       /* as linked: add the difference to the section .stapsdt.base */
	uint64_t base;        /* address of .stapsdt.base when the note was made; 0: none */
	uint64_t semaphore;   /* 0: none */
	const char *provider; /* all three borrowed from the notes, NUL-terminated, hostile */
	const char *name;
	const char *arguments;
};

/* Reads the note at *off and moves *off on; false at the end or at the first malformed note. */
bool parse_usdt_note(const uint8_t *data, size_t bytes, size_t *off, struct usdt_note *ret);

/*
 * Names of probes that by convention end what this one begins ("query__start": "query__done", ...),
 * likeliest first, k = 0, 1, ...; false: no more, or the name says nothing. In buf.
 */
bool usdt_partner(const char *begin, unsigned int k, char *buf, size_t n);

/* Number of arguments in the text. */
unsigned int usdt_n_arguments(const char *arguments);

/* Where argument `number` (from 0) is. 0; -ENOENT: there are fewer; -ENOTSUP: a form not read. */
int parse_usdt_argument(const char *arguments, unsigned int number, struct place *ret);

#endif
