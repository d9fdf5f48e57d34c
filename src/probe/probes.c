/* SPDX-License-Identifier: Apache-2.0 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "probe/callers.h"
#include "probe/detach.h"
#include "probe/probes_priv.h"

enum { LOOK_NS = 50000000 };

DEFINE_CLEANUP(struct probes *, probes_free)

int probes_new(struct probes **ret, const struct probe_programs *programs,
	       const struct probes_options *options)
{
	CLEANUP(probes_freep) struct probes *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	p->programs = *programs;
	p->options = *options;
	if (options->debug_dirs) {
		p->debug_dirs = strdup(options->debug_dirs);
		if (!p->debug_dirs)
			return -ENOMEM;
		p->options.debug_dirs = p->debug_dirs;
	}
	r = binaries_new(&p->binaries, p->options.debug_dirs, p->options.debug_max_bytes);
	if (r < 0)
		return r;
	r = retsites_new(&p->retsites,
			 &(struct retsites_options){.program_fd = programs->leave_fd,
						    .map_fd = programs->return_sites_fd,
						    .source = &p->options.source,
						    .rules = options->rules});
	if (r < 0)
		return r;
	*ret = TAKE_PTR(p);
	return 0;
}

/* At once: nobody counts any more, and the kernel's waiting is shared. */
static void detach_all(struct probes *p)
{
	VEC(struct spot *) all = {0};
	struct spot *const *sites = NULL;
	size_t n = p->retsites ? retsites_spots(p->retsites, &sites) : 0;
	int r = 0;

	for (size_t i = 0; i < p->spots.n && r == 0; i++)
		r = vec_push(&all, p->spots.at[i]);
	for (size_t i = 0; i < n && r == 0; i++)
		r = vec_push(&all, sites[i]);
	/* Without memory those that are left out are detached when they are freed. */
	spots_detach(all.at, all.n, SPOT_ALL);
	vec_free(&all);
}

struct probes *probes_free(struct probes *p)
{
	if (!p)
		return NULL;
	detach_all(p);
	for (size_t i = 0; i < p->spots.n; i++)
		spot_free(p->spots.at[i]);
	vec_free(&p->spots);
	retsites_free(p->retsites);
	probe_detach_wait();
	for (size_t i = 0; i < p->slots.n; i++)
		endpoint_free(p->slots.at[i].ep);
	vec_free(&p->slots);
	warnings_deinit(&p->warnings);
	vec_free(&p->processes);
	binaries_free(p->binaries);
	free(p->debug_dirs);
	free(p);
	return NULL;
}

void probes_close_debug(struct probes *p)
{
	binaries_close_variables(p->binaries);
}

int probes_add_endpoint(struct probes *p, struct endpoint *take_ep, uint32_t *ret_ep_id)
{
	int r;

	if (p->slots.n >= WIRE_EP_MAX)
		return -ENOSPC;
	r = vec_push(&p->slots, (struct slot){.ep = take_ep});
	if (r < 0)
		return r;
	*ret_ep_id = (uint32_t)p->slots.n - 1;
	return 0;
}

const struct endpoint *probes_endpoint(const struct probes *p, uint32_t ep_id)
{
	return ep_id < p->slots.n ? p->slots.at[ep_id].ep : NULL;
}

bool probes_nameless(const struct probes *p, uint32_t ep_id)
{
	return ep_id < p->slots.n && p->slots.at[ep_id].nameless;
}

const char *probes_next_warning(struct probes *p)
{
	return warnings_next(&p->warnings);
}

static struct process *find_process(struct probes *p, pid_t pid)
{
	for (size_t i = 0; i < p->processes.n; i++)
		if (p->processes.at[i].pid == pid)
			return &p->processes.at[i];
	return NULL;
}

int probes_add_process(struct probes *p, const struct probes_process *process, struct errmsg *e)
{
	struct resolve_input in = {
		.binaries = p->binaries, .space = process->space, .pid = process->pid};
	struct retsites_scope scope = {.as_id = process->as_id, .space = process->space};
	struct process *known = find_process(p, process->pid);
	bool forks = process->forks;
	int r;

	if (known) {
		known->as_id = process->as_id;
		forks |= known->forks;
		known->forks = forks;
	} else {
		r = vec_push(&p->processes, (struct process){.pid = process->pid,
							     .as_id = process->as_id,
							     .forks = forks});
		if (r < 0)
			return r;
	}
	scope.pid = forks ? -1 : process->pid;
	r = space_refresh(process->space);
	if (r < 0)
		return errmsg_set(e, r, "process %d: cannot read its memory map: %s", process->pid,
				  strerror(-r));
	binaries_use_process(p->binaries, process->pid);
	r = probes_attach(p, &in, &scope, process->endpoints, e);
	if (r < 0) {
		if (!known)
			probes_remove_process(p, process->pid);
		return r;
	}
	return retsites_adopt(p->retsites, &scope, NULL);
}

bool probes_may_come(const struct probes *p, const struct probes_process *process)
{
	const struct resolve_input in = {
		.binaries = p->binaries, .space = process->space, .pid = process->pid};
	struct resolve_module any;

	for (size_t i = 0; i < p->slots.n; i++) {
		const char *file = endpoint_target(p->slots.at[i].ep)->binary;

		if (probes_among(process->endpoints, i) && file &&
		    !resolve_modules(&in, file, &any, 1))
			return true;
	}
	return false;
}

void probes_remove_process(struct probes *p, pid_t pid)
{
	bool last = true;
	uint32_t as_id = 0;

	for (size_t i = 0; i < p->processes.n; i++) {
		if (p->processes.at[i].pid == pid) {
			as_id = p->processes.at[i].as_id;
			p->processes.at[i] = p->processes.at[--p->processes.n];
			break;
		}
	}
	for (size_t i = 0; i < p->processes.n; i++)
		last &= p->processes.at[i].as_id != as_id;
	spots_detach(p->spots.at, p->spots.n, pid);
	if (as_id)
		retsites_forget(p->retsites, pid, as_id, last);
}

uint64_t probes_own_endpoints(const struct probes *p, pid_t pid)
{
	uint64_t own = 0;

	for (size_t i = 0; i < p->spots.n; i++)
		if (p->spots.at[i]->kind == WIRE_P_ENTER && spot_is_own(p->spots.at[i], pid))
			own |= 1ULL << (p->spots.at[i]->ep_id % WIRE_EP_MAX);
	return own;
}

/*
 * The process itself keeps its own entry probes, and BPF leaves the wide ones to its children: so no
 * call of it is lost or seen twice meanwhile. Leave sites may fire twice, which changes nothing.
 */
int probes_widen(struct probes *p, pid_t pid, bool *ret_widened)
{
	struct process *process = find_process(p, pid);
	int r = 0;

	*ret_widened = process && !process->forks;
	if (!*ret_widened)
		return 0;
	process->forks = true;
	for (size_t i = 0; r == 0 && i < p->spots.n; i++) {
		struct spot *s = p->spots.at[i];

		if (s->kind == WIRE_P_ENTER && spot_covers(s, pid))
			r = retsites_widen(p->retsites, s->module);
	}
	/* What ends calls was put before what begins them. */
	for (size_t i = 0; r == 0 && i < p->spots.n; i++)
		if (spot_covers(p->spots.at[i], pid))
			r = spot_attach(p->spots.at[i], probes_source(p, p->spots.at[i]->kind), -1,
					NULL);
	p->shedding = true;
	return r;
}

/*
 * The kernel would put the breakpoints into whatever is written, where it starts: so the writer, who waits
 * where the kernel lets it wait, gets a file without probes. What starts then is another file.
 */
static void leave_changed(struct probes *p)
{
	struct spot *const *sites;
	size_t n_sites = retsites_spots(p->retsites, &sites);
	struct module *m = spots_changed(p->spots.at, p->spots.n);
	char text[512];

	m = m ? m : spots_changed(sites, n_sites);
	if (!m)
		return;
	spots_leave(p->spots.at, p->spots.n, m);
	spots_leave(sites, n_sites, m);
	snprintf(
		text, sizeof(text),
		"%.300s is written to while it is probed: the probes in it are taken off, which would break what is in it then; what starts from now on is probed anew",
		module_path(m));
	warnings_add(&p->warnings, text);
	module_let_go(m);
}

void probes_tidy(struct probes *p, uint64_t now_ns)
{
	if (now_ns >= p->next_look_ns) {
		p->next_look_ns = now_ns + LOOK_NS;
		leave_changed(p);
	}
	if (p->shedding)
		p->shedding = retsites_shed(p->retsites);
}

static bool is_call_site(const struct probes *p, struct module *m, uint64_t ret_vaddr)
{
	struct binary *b;

	return binaries_get(p->binaries, m, &b) == 0 && caller_is_real(b, ret_vaddr);
}

void probes_on_retsite(struct probes *p, const struct wire_retsite *site, struct space *space,
		       struct counters *counters)
{
	struct process *process = find_process(p, (pid_t)site->h.tgid);
	struct retsites_scope scope = {
		.pid = (pid_t)site->h.tgid, .as_id = site->as_id, .space = space};
	const struct space_range *range;

	/* A child that was never added is there only because its file is probed as a whole. */
	if (!process || process->forks)
		scope.pid = -1;
	range = space_find(space, site->ret_addr);
	if (!range || !range->module) {
		space_refresh(space);
		range = space_find(space, site->ret_addr);
	}
	if (!range || !range->module || range->kind != SPACE_FILE ||
	    !is_call_site(p, range->module, site->ret_addr - range->bias)) {
		counters->v[COUNTER_RETSITE_REFUSED]++;
		retsites_mark_hopeless(p->retsites, site->as_id, site->ret_addr);
		probes_use_rets(p, site->ep_id);
		return;
	}
	if (retsites_add(p->retsites, &scope, range->module, site->ret_addr - range->bias,
			 range->bias, counters) < 0)
		probes_use_rets(p, site->ep_id);
}

/* Those of one sort: entries, or what ends calls. */
static size_t spots_of(const struct probes *p, bool entries, struct spot **ret)
{
	size_t n = 0;

	for (size_t i = 0; i < p->spots.n; i++)
		if ((p->spots.at[i]->kind == WIRE_P_ENTER) == entries)
			ret[n++] = p->spots.at[i];
	return n;
}

int probes_drain(struct probes *p)
{
	AUTO_FREE struct spot **entries = calloc(p->spots.n + 1, sizeof(*entries));

	if (!entries)
		return -ENOMEM;
	spots_rest(entries, spots_of(p, true, entries));
	p->is_draining = true;
	return 0;
}

void probes_rest(struct probes *p)
{
	p->is_draining = p->rests = true;
	spots_rest(p->spots.at, p->spots.n);
	retsites_rest(p->retsites);
}

int probes_resume(struct probes *p, size_t *ret_failed)
{
	AUTO_FREE struct spot **some = calloc(p->spots.n + 1, sizeof(*some));

	if (!some)
		return -ENOMEM;
	*ret_failed = retsites_resume(p->retsites);
	*ret_failed += spots_resume(some, spots_of(p, false, some), &p->options.source);
	if (*ret_failed) {
		probes_rest(p);
		return -EIO;
	}
	*ret_failed = spots_resume(some, spots_of(p, true, some), &p->options.source);
	p->is_draining = p->rests = false;
	return 0;
}

bool probes_info(const struct probes *p, size_t idx, struct probe_info *ret)
{
	for (size_t i = 0; i < p->spots.n; i++) {
		const struct spot *s = p->spots.at[i];

		if (s->kind != WIRE_P_ENTER || idx-- > 0)
			continue;
		*ret = (struct probe_info){.ep_id = s->ep_id,
					   .module = module_path(s->module),
					   .symbol = s->name,
					   .site_vaddr = s->site.vaddr,
					   .dear = !s->site.cheap,
					   .leave = s->leave};
		retsites_count(p->retsites, s->module, &ret->n_return_sites, &ret->n_dear_sites);
		return true;
	}
	return false;
}
