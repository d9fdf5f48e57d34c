/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.h: the files of -o, checked before anything is attached and written at the end, and the
 * text on the terminal.
 */
#ifndef SPANPROF_APP_OUTPUT_H
#define SPANPROF_APP_OUTPUT_H

#include "app/run_options.h"
#include "base/file.h"
#include "model/profile.h"

struct outputs {
	VEC(struct file_out) files; /* in the order of options->outputs */
};

/* Opens all files; 0 or EXIT_FAILED after one message. */
int outputs_open(struct outputs *ret, const struct run_options *o);
/* Files that were not written are removed. */
void outputs_deinit(struct outputs *f);
/* Writes all files, and the text to stdout unless a file goes there or --quiet is given. */
int outputs_write(struct outputs *f, const struct run_options *o, const struct profile *p);

#endif
