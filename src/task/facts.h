/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facts.h: what rules may ask of one process, read from /proc when it is asked for.
 *
 * Everything in here is written by the process itself and may be anything; sizes are bounded. A
 * part that cannot be read (the process is gone, or belongs to somebody else) is empty.
 */
#ifndef SPANPROF_TASK_FACTS_H
#define SPANPROF_TASK_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum facts_part {
	FACTS_EXE = 1 << 0,
	FACTS_CMDLINE = 1 << 1,
	FACTS_CGROUP = 1 << 2,
	FACTS_ENVIRON = 1 << 3,
};

struct facts {
	pid_t pid;
	pid_t parent;
	uid_t uid;
	uint64_t start_ticks; /* since boot */
	unsigned int have;    /* enum facts_part: parts that were read or tried */
	char *exe;            /* owned, as all below; NULL: not there; " (deleted)" is cut off */
	char *cmdline;        /* arguments joined by single spaces */
	char *cgroup;         /* path in the unified hierarchy, or of the first line */
	char *environ;        /* NUL-separated, environ_bytes */
	size_t environ_bytes;
};

/* Parent, user, start time. 0, -ESRCH. proc_fd: descriptor of /proc. */
int facts_read(int proc_fd, pid_t pid, struct facts *ret);
void facts_deinit(struct facts *f);

/* Reads the parts that are not there yet. */
void facts_need(int proc_fd, struct facts *f, unsigned int parts);

/* The file that a process runs. */
struct facts_program {
	dev_t dev;
	ino_t ino; /* 0: not known */
};

struct facts_program facts_program(int proc_fd, pid_t pid);
bool facts_same_program(struct facts_program a, struct facts_program b);

/* Value of an environment variable of f->environ; NULL. */
const char *facts_env(const struct facts *f, const char *name);
/* The last path element of the executable; "". */
const char *facts_exe_base(const struct facts *f);
/*
 * The container of the process from its cgroup path: the first 12 digits of the last 64-digit
 * hexadecimal run (docker, containerd, CRI-O); without one the last path element. "" when at root.
 */
void facts_cgroup_id(const struct facts *f, char *buf, size_t n);

/* Parses /proc/PID/stat: name in parentheses may contain anything. 0 or -EINVAL. Pure. */
int parse_facts_stat(const char *text, pid_t *ret_parent, char *ret_state, uint64_t *ret_start);

#endif
