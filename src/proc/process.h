/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.h: which processes there are, what they run, and who forked whom, from /proc.
 *
 * A process is identified by its PID and start time. Executables are identified by device and inode
 * of /proc/PID/exe, so symbolic links, deleted files and other mount namespaces do not matter.
 * Everything read may be stale at once: processes come and go.
 */
#ifndef SPANPROF_PROC_PROCESS_H
#define SPANPROF_PROC_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/errmsg.h"
#include "base/vec.h"

enum { PROCESS_COMM_MAX = 16, PROCESS_PATH_MAX = 4096 };

struct process {
	pid_t pid;
	pid_t parent;
	uint64_t start_ticks; /* since boot: /proc/PID/stat, field 22 */
	dev_t exe_dev;        /* 0, 0: kernel thread, zombie, or not readable */
	ino_t exe_ino;
	char comm[PROCESS_COMM_MAX];
};

struct process_list {
	struct process *at;
	size_t n;
	size_t cap;
};

static inline void process_list_deinit(struct process_list *l)
{
	vec_free(l);
}

/*
 * Reads one process. -ESRCH: there is none (or it is a thread's id), with a message; -EACCES: its
 * executable cannot be looked at, the message says which capability is missing.
 */
int process_read(pid_t pid, struct process *ret, struct errmsg *e);

/*
 * Refuses what cannot be profiled: kernel threads and zombies, 32-bit and foreign-architecture
 * programs. 0 or -ENOEXEC with a message.
 */
int process_check_supported(const struct process *p, struct errmsg *e);
/* The same of an executable file; who: what the message is about, "process 12 (sh)". */
int process_check_program(int fd, const char *who, struct errmsg *e);

/* The path of its executable as the process sees it, " (deleted)" cut off; "" when unknown. */
void process_exe_path(pid_t pid, char *buf, size_t n);
/*
 * The same for people: by the name that the process has, where that is another one of the same file, in the same
 * folder. Debian's redis-server is a link to redis-check-rdb.
 */
void process_shown_path(pid_t pid, char *buf, size_t n);

/* All processes. 0, -ENOMEM, or an errno of /proc. */
int process_scan(struct process_list *ret);

/*
 * Appends to ret those of `all` that descend from pid and run the same executable as it: the workers
 * of a server that forks. 0 or -ENOMEM.
 */
int process_workers(const struct process_list *all, pid_t pid, struct process_list *ret);

/* True when its parent or one of its children runs the same executable: a server that forks. */
bool process_forks(const struct process *p);

/*
 * True of what a command of this process has left, which began at that time and has ended: the process is
 * not older, and its nearest ancestor that is older is one that inherits such processes: init, or an
 * ancestor of this process.
 */
bool process_is_left(pid_t pid, uint64_t start_ticks);

/* The process that traces it (a debugger, strace); 0: none, or it cannot be told. */
pid_t process_tracer(pid_t pid);

/*
 * True when processes have the same numbers here as in the initial PID namespace, whose numbers the
 * kernel's tracing uses.
 */
bool process_numbers_are_initial(void);

/* The effective ones of this process, a bit for each CAP_*. */
uint64_t process_own_capabilities(void);

/* True while the process is there and is the same one. */
bool process_is_alive(const struct process *p);

/* What its threads have used of the CPUs since it began. 0 or negative errno. */
int process_cpu_ns(pid_t pid, uint64_t *ret);

#endif
