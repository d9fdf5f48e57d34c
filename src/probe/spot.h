/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spot.h: one place in one file that is probed, and the links that probe it: one for each process,
 * or a single one for every process that maps the file. A link that rests says for whom the place is to
 * be probed; nothing of it is in the kernel.
 */
#ifndef SPANPROF_PROBE_SPOT_H
#define SPANPROF_PROBE_SPOT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/errmsg.h"
#include "base/vec.h"
#include "bpf/wire.h"
#include "code/module.h"
#include "probe/attach.h"
#include "probe/endpoint.h"
#include "probe/site.h"

enum { SPOT_NAME_MAX = 288 };

struct spot_batch; /* an attachment that the links of several spots share */

struct spot_link {
	pid_t pid;                    /* -1: every process */
	struct attachment attachment; /* none: it rests */
	struct spot_batch *batch;     /* NULL: it has its own */
};

struct spot {
	enum wire_probe_kind kind;
	uint32_t ep_id;        /* 0 for leave sites: they serve all endpoints */
	struct module *module; /* owned reference */
	uint64_t vaddr; /* the function's first byte, or the return address of a leave site */
	struct site site;
	uint64_t semaphore_off;
	enum leave_method leave;  /* entry: how the call's end is seen */
	int program_fd;           /* borrowed */
	int other_program_fd;     /* for a kernel that does not take the first here; -1: none */
	char name[SPOT_NAME_MAX]; /* for people */
	VEC(struct spot_link) links;
};

/* The module is referenced; no links yet. -ENOMEM, or 0. */
int spot_new(struct spot **ret, enum wire_probe_kind kind, uint32_t ep_id, struct module *m,
	     uint64_t vaddr);
struct spot *spot_free(struct spot *s);

/*
 * Nothing to do when the pid (-1: every process) is covered already. source NULL: the link rests at first,
 * and so below.
 */
int spot_attach(struct spot *s, const struct attach_source *source, pid_t pid, struct errmsg *e);
/*
 * The same for leave sites of one module, which come and go together where the kernel can do that.
 * Those that cannot be attached are left uncovered, and counted in *ret_failed.
 */
void spots_attach(struct spot *const *spots, size_t n, const struct attach_source *source,
		  pid_t pid, size_t *ret_failed);
/*
 * The links of one process, without waiting for the kernel, or with SPOT_ALL all links of many spots,
 * which have gone when this returns.
 */
#define SPOT_ALL 0
void spots_detach(struct spot *const *spots, size_t n, pid_t pid);
/* All links rest from now on. Without waiting for the kernel: probe_detach_is_done() tells. */
void spots_rest(struct spot *const *spots, size_t n);
/*
 * Attaches what rests. Links of processes that have ended are dropped, others that cannot be attached go on
 * resting: their number.
 */
size_t spots_resume(struct spot *const *spots, size_t n, const struct attach_source *source);
/* A file that has been written to, or is waited for by a writer, and is probed; NULL: none. */
struct module *spots_changed(struct spot *const *spots, size_t n);
/* All links of the spots in this file, which have gone when this returns. */
void spots_leave(struct spot *const *spots, size_t n, const struct module *m);
bool spot_covers(const struct spot *s, pid_t pid);
/* Whether the process has a link of its own. */
bool spot_is_own(const struct spot *s, pid_t pid);
/*
 * Takes away the links of single processes of one leave site that has a link for every process, and
 * true when there was one: it costs the kernel a grace period, for which the first calls of a new
 * process must not wait.
 */
bool spot_shed(struct spot *s);

#endif
