/* SPDX-License-Identifier: Apache-2.0 */
/*
 * retsites.h: leave probes in the callers of endpoints, and the BPF map that says which call sites
 * are known in which address space.
 *
 * A leave probe belongs to a place in a file and serves every process that maps it; the map's keys
 * are run-time addresses. A key says ATTACHED only while a probe that covers the process is there, or
 * while nothing is probed, so that nobody looks.
 */
#ifndef SPANPROF_PROBE_RETSITES_H
#define SPANPROF_PROBE_RETSITES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "code/space.h"
#include "model/counters.h"
#include "probe/attach.h"
#include "probe/site.h"
#include "probe/spot.h"

struct retsites;

struct retsites_options {
	int program_fd;                     /* borrowed: leave program */
	int map_fd;                         /* borrowed: return_sites */
	const struct attach_source *source; /* borrowed */
	struct site_rules rules;
};

/* For whom a site is attached. */
struct retsites_scope {
	pid_t pid; /* whose links: the process, or -1 for every process of the file */
	uint32_t as_id;
	struct space *space;
};

int retsites_new(struct retsites **ret, const struct retsites_options *options);
struct retsites *retsites_free(struct retsites *t);
/* All sites, borrowed: to be detached together with others. */
size_t retsites_spots(const struct retsites *t, struct spot *const **ret);

/* As spots_rest and spots_resume; what is found in between rests until then, too. */
void retsites_rest(struct retsites *t);
size_t retsites_resume(struct retsites *t);

/* From now on sites come before the return value's register is written. */
void retsites_keep_return_value(struct retsites *t);

/*
 * The call that returns to ELF address ret_vaddr of the module, mapped with bias. Attaches what is
 * not attached and marks the address. 0, or a negative errno when no probe is possible there (the
 * site is then marked hopeless). counters may be NULL.
 */
int retsites_add(struct retsites *t, const struct retsites_scope *scope, struct module *m,
		 uint64_t ret_vaddr, uint64_t bias, struct counters *counters);
/* The same for many call sites of a module, found before they were seen; those without a site are left out. */
int retsites_add_callers(struct retsites *t, const struct retsites_scope *scope, struct module *m,
			 const uint64_t *ret_vaddrs, size_t n, uint64_t bias);
/* A call site whose address is in no file. */
void retsites_mark_hopeless(struct retsites *t, uint32_t as_id, uint64_t ret_addr);

/* Sites known from other processes of the same files: attached and marked for this one, too. */
int retsites_adopt(struct retsites *t, const struct retsites_scope *scope,
		   struct counters *counters);

/* The process is gone; last: no other process uses the address space. */
void retsites_forget(struct retsites *t, pid_t pid, uint32_t as_id, bool last);

/* Attaches all sites of a file for every process; negative when one could not be. */
int retsites_widen(struct retsites *t, const struct module *m);
/* Takes away one link of a single process where there is one for every process. */
bool retsites_shed(struct retsites *t);

/* Leave sites of a file: all, and those on dear instructions. */
void retsites_count(const struct retsites *t, const struct module *m, unsigned int *ret_n,
		    unsigned int *ret_dear);

#endif
