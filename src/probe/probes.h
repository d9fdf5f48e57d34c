/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probes.h: the probes of a run: which endpoint is probed where, for which processes.
 *
 * Owns every attached link. Decides per file whether probes are scoped to one process or to the
 * file with the membership check in BPF. Leave probes (return sites) are attached as BPF reports
 * call sites, and ahead of time for the direct callers found in the binary.
 */
#ifndef SPANPROF_PROBE_PROBES_H
#define SPANPROF_PROBE_PROBES_H

#include <sys/types.h>

#include "base/errmsg.h"
#include "bpf/wire.h"
#include "code/space.h"
#include "model/counters.h"
#include "probe/attach.h"
#include "probe/endpoint.h"
#include "probe/site.h"

/* File descriptors of the loaded BPF programs and maps; borrowed. -1: not loaded. */
struct probe_programs {
	int enter_fd;
	int enter_sleepable_fd; /* reads names from pages that are not mapped yet */
	int leave_fd;           /* return sites */
	int end_fd;             /* declared end functions */
	int ret_fd;             /* returns of the function itself */
	int uret_fd;
	int endpoints_fd;    /* array map: struct wire_endpoint */
	int return_sites_fd; /* hash map: struct wire_site_key -> __u32 state */
};

struct probes;

struct probes_options {
	struct attach_source source; /* the programs are loaded for it */
	struct site_rules rules;     /* of this kernel */
	enum leave_method leave;
	bool force;               /* also what can kill the target: see plan.h */
	bool preset_callers;      /* look for direct callers at start */
	bool report_slow;         /* WIRE_EP_F_REPORT_SLOW on every endpoint */
	const char *debug_dirs;   /* as in symbolize.h; NULL: /usr/lib/debug */
	uint64_t debug_max_bytes; /* limits.debug_info, for the DWARF that tells names; 0: wide */
};

int probes_new(struct probes **ret, const struct probe_programs *programs,
	       const struct probes_options *options);
/* Gives back the memory of DWARF that told names; it is opened again when it is needed. */
void probes_close_debug(struct probes *p);
/* Detaches everything. */
struct probes *probes_free(struct probes *p);

/* take_ep is consumed on success; slots are numbered 0, 1, ... in the order of addition. */
int probes_add_endpoint(struct probes *p, struct endpoint *take_ep, uint32_t *ret_ep_id);
const struct endpoint *probes_endpoint(const struct probes *p, uint32_t ep_id);
/* A build was met for which its name has no alternative; a warning has said so. */
bool probes_nameless(const struct probes *p, uint32_t ep_id);

/* A process to be probed. */
struct probes_process {
	pid_t pid;
	uint32_t as_id;      /* the address space that the member entry in BPF carries */
	struct space *space; /* borrowed during the call */
	bool forks;          /* the instance has or may get several processes */
	uint64_t endpoints;  /* that it is probed for, as bits */
};
/*
 * Resolves these endpoints in the process and attaches what is not attached yet.
 * -ENOENT: none of them is in this process (the message has the nearest names).
 */
int probes_add_process(struct probes *p, const struct probes_process *process, struct errmsg *e);
/* Whether one of them is in a file that the process has not mapped: it may do so later. */
bool probes_may_come(const struct probes *p, const struct probes_process *process);
void probes_remove_process(struct probes *p, pid_t pid);
/* Endpoints, as bits, whose entry is probed for this process alone: struct wire_member. */
uint64_t probes_own_endpoints(const struct probes *p, pid_t pid);
/*
 * The process forked without exec: what is probed for it alone is probed for every process of the
 * file, too. ret_widened: that had not been so before.
 */
int probes_widen(struct probes *p, pid_t pid, bool *ret_widened);
/*
 * Turns: probes_drain() takes the entries off, so that the calls that are open can end, probes_rest() all
 * else; neither waits for the kernel: probe_detach_is_done(). What is added or found meanwhile is only
 * noted, until probes_resume() attaches everything, first what ends calls. -EIO: some of that cannot be,
 * and nothing is attached. *ret_failed: probes that could not be.
 */
int probes_drain(struct probes *p);
void probes_rest(struct probes *p);
int probes_resume(struct probes *p, size_t *ret_failed);
/*
 * A bounded piece of what probes_widen left to be done later, and now and then a look for files that are
 * written to: at least each 100 ms, as the writer waits.
 */
void probes_tidy(struct probes *p, uint64_t now_ns);

/* A call site that BPF reported: attaches a leave probe there, marks it known. */
void probes_on_retsite(struct probes *p, const struct wire_retsite *site, struct space *space,
		       struct counters *counters);

/* What was attached where: for messages. Strings are borrowed until the next call on p. */
struct probe_info {
	uint32_t ep_id;
	const char *module; /* path */
	const char *symbol; /* "function" or "function+0x4", demangled */
	uint64_t site_vaddr;
	bool dear;                   /* single-stepped: every call pays for a trap */
	enum leave_method leave;     /* how leaving is detected */
	unsigned int n_return_sites; /* attached leave sites of this file so far, all endpoints */
	unsigned int n_dear_sites;   /* of those, single-stepped */
};
/* Entry probe number idx (0, 1, ...); false at the end. */
bool probes_info(const struct probes *p, size_t idx, struct probe_info *ret);

/*
 * Things worth telling the user that are no errors (dear site, clone of the function, endpoint not
 * in this process): one line each, NULL at the end; each is returned once.
 */
const char *probes_next_warning(struct probes *p);

#endif
