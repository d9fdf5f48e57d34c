/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach.h: uprobes with a BPF program and a cookie, of one of the kernel's two kinds: links of
 * their own (see multi.h), which come and go in a fraction of the time, or perf events.
 *
 * The file is named by its open descriptor (/proc/self/fd/N), so deleted files and other mount
 * namespaces work and the file probed is exactly the one that was looked at. Everything is undone
 * by closing the descriptors, which the kernel does when the program dies.
 */
#ifndef SPANPROF_PROBE_ATTACH_H
#define SPANPROF_PROBE_ATTACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/errmsg.h"

/* How this kernel probes functions, found out once. */
struct attach_source {
	bool multi;             /* by links; the programs are loaded for one kind */
	uint32_t type;          /* perf event type */
	uint32_t retprobe_bit;  /* in attr.config */
	uint32_t ref_ctr_shift; /* in attr.config; semaphores of USDT probes */
	bool has_ref_ctr;
};

/*
 * Links where the kernel has them and they work (rules_measure may still find that they do not),
 * else perf events. The environment variable SPANPROF_UPROBES ("link", "perf") insists on one.
 */
int attach_source_read(struct attach_source *ret, struct errmsg *e);
/* "links (uprobe_multi)", "perf events" */
const char *attach_source_name(const struct attach_source *source);

struct attach_point {
	int file_fd; /* borrowed */
	uint64_t file_off;
	uint64_t semaphore_off; /* 0: none */
	bool retprobe;
	pid_t pid;      /* -1: every process that maps the file */
	int program_fd; /* borrowed */
	uint64_t cookie;
};

/* Places of one file, all without a semaphore, for one program and process. */
struct attach_batch {
	int file_fd;    /* borrowed */
	pid_t pid;      /* -1: every process that maps the file */
	int program_fd; /* borrowed */
	const uint64_t *file_offs;
	const uint64_t *cookies;
	size_t n;
};

struct attachment {
	int perf_fd;
	int link_fd;
};
#define ATTACHMENT_NONE ((struct attachment){.perf_fd = -1, .link_fd = -1})

/*
 * 0 or a negative errno: -EPERM, -ESRCH, -ENOTSUP (the instruction cannot be probed), -EMFILE, ...;
 * the message says which.
 */
int probe_attach(const struct attach_source *source, const struct attach_point *at,
		 struct attachment *ret, struct errmsg *e);
/* The same for many, which come and go together; -EOPNOTSUPP: each needs an attachment of its own. */
int probe_attach_batch(const struct attach_source *source, const struct attach_batch *batch,
		       struct attachment *ret);
void probe_detach(struct attachment *a);

/* The program is not called any more when this returns; the event itself is still to be detached. */
void probe_silence(struct attachment *a);

#endif
