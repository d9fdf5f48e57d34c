/* SPDX-License-Identifier: Apache-2.0 */
/* caught.h: what is written to a standard stream between begin and end, read back. */
#ifndef SPANPROF_TESTS_UNIT_CAUGHT_H
#define SPANPROF_TESTS_UNIT_CAUGHT_H

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/unit.h"

struct caught {
	FILE *stream;
	int fd;       /* a file that the stream goes to meanwhile */
	int saved_fd; /* where it went before */
	char text[8192];
};

static inline void catch_begin(struct caught *c, FILE *stream)
{
	fflush(stream);
	c->stream = stream;
	c->fd = memfd_create("caught", MFD_CLOEXEC);
	c->saved_fd = fcntl(fileno(stream), F_DUPFD_CLOEXEC, 3);
	assert_true(c->fd >= 0 && c->saved_fd >= 0);
	assert_true(dup2(c->fd, fileno(stream)) >= 0);
}

/* The text, cut to its first 8191 bytes; valid as long as *c is. */
static inline const char *catch_end(struct caught *c)
{
	ssize_t n;

	fflush(c->stream);
	assert_true(dup2(c->saved_fd, fileno(c->stream)) >= 0);
	close(c->saved_fd);
	n = pread(c->fd, c->text, sizeof(c->text) - 1, 0);
	assert_true(n >= 0);
	c->text[n] = '\0';
	close(c->fd);
	return c->text;
}

static inline void assert_has(const char *text, const char *words)
{
	if (!strstr(text, words))
		fail_msg("no '%s' in '%s'", words, text);
}

#endif
