/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file.h: whole small files in, and output files that appear whole or not at all.
 */
#ifndef SPANPROF_BASE_FILE_H
#define SPANPROF_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/errmsg.h"

/*
 * Reads a file of at most max_bytes. The buffer is NUL-terminated after ret_bytes bytes and owned by
 * the caller. 0, -EFBIG, -ENOMEM, or the errno of open or read.
 */
int read_file(int dir_fd, const char *path, size_t max_bytes, char **ret_data, size_t *ret_bytes);

/* Everything that was printed to it is written. 0 or negative errno; -EIO: an earlier write failed. */
int file_flush(FILE *stream);

/*
 * An output file under construction. Bytes go to "<path>.tmp-XXXXXX" in the same folder; the name
 * appears at file_out_commit. A symbolic link stays one: the file that it leads to is written, if the
 * kernel lets this user follow the link (see protected_symlinks in proc(5)).
 * Written in place are "-", files that are not regular (pipes, /dev/null), and what a link in /proc leads
 * to (/dev/stdout): an open file of somebody's, whose name must not be given to another.
 */
struct file_out {
	FILE *stream;    /* write here; owned */
	char *path;      /* owned; links followed */
	char *temp_path; /* owned; NULL when written in place */
	bool is_private; /* set after open: readable by its owner only */
};

int file_out_open(struct file_out *ret, const char *path, struct errmsg *e);

/* Flushes, syncs and renames. On any error (disk full included) the temporary file is removed. */
int file_out_commit(struct file_out *f, struct errmsg *e);

/* Gives up: removes the temporary file. Safe after commit and on an all-zero struct. */
void file_out_deinit(struct file_out *f);

#endif
