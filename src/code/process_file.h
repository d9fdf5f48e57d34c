/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process_file.h: opens what a process has mapped, through the process.
 *
 * Works for files that were deleted or replaced and for other mount namespaces. The target chose
 * the names, so what was opened is compared with the device and inode of the mapping, and nothing
 * but regular files is opened for reading.
 */
#ifndef SPANPROF_CODE_PROCESS_FILE_H
#define SPANPROF_CODE_PROCESS_FILE_H

#include "code/module.h"

struct process_file {
	uint64_t start; /* of the mapping */
	uint64_t end;
	uint64_t
		dev; /* as in maps: kernel's s_dev, which stat() shows differently on some systems */
	uint64_t ino;
	const char *path;
};

/* proc_fd: the folder /proc/PID. 0, or -errno with a message; -ENOEXEC: not usable ELF. */
int process_file_open(int proc_fd, const struct process_file *f, struct module **ret,
		      struct errmsg *e);

/* The vDSO at [start, end), as it is in the process's memory. */
int process_file_open_vdso(int proc_fd, uint64_t start, uint64_t end, struct module **ret,
			   struct errmsg *e);

#endif
