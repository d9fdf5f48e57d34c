/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rootfile.h: opens regular files below a root folder that may belong to another mount namespace.
 *
 * Symbolic links, ".." and mounts are followed inside that root only, so that a target cannot point
 * at files of the host; devices and pipes are refused without blocking.
 */
#ifndef SPANPROF_CODE_ROOTFILE_H
#define SPANPROF_CODE_ROOTFILE_H

#include <sys/stat.h>

/* 0; -ENOENT also for what is not a regular file; the errno of open otherwise. */
int rootfile_open(int root_fd, const char *path, int *ret_fd, struct stat *ret_st);

#endif
