/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probes.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/vec.h"
#include "probe/ahead.h"
#include "probe/binary.h"
#include "probe/callers.h"
#include "probe/detach.h"
#include "probe/plan.h"
#include "probe/retsites.h"
#include "probe/spot.h"

enum { LOOK_NS = 50000000 };

struct slot {
	struct endpoint *ep; /* owned */
	bool has_wire;       /* the map's entry is written: programs are fixed from then on */
	bool returns_tried;  /* its own returns were to be probed for want of return sites */
	bool nameless;       /* no alternative of its name fits a build that was met */
	struct wire_endpoint wire;
};

struct process {
	pid_t pid;
	uint32_t as_id;
	bool forks;
};

struct probes {
	struct probe_programs programs;
	struct probes_options options;
	char *debug_dirs;          /* owned, may be NULL */
	uint64_t next_look_ns;     /* at what has changed */
	bool shedding;             /* links of single processes are left over from probes_widen */
	struct binaries *binaries; /* owned */
	struct retsites *retsites; /* owned */
	VEC(struct slot) slots;
	VEC(struct spot *) spots; /* entry, end and uretprobe spots; owned */
	VEC(struct process) processes;
	VEC(char *) warnings; /* owned */
	size_t next_warning;
};

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
	for (size_t i = 0; i < p->warnings.n; i++)
		free(p->warnings.at[i]);
	vec_free(&p->warnings);
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

/* Whether they differ in the process at most: all those of one file lack the same. */
static bool is_same_warning(const char *a, const char *b)
{
	static const char before[] = "process ";
	static const size_t n = sizeof(before) - 1;

	while (*a && *a == *b) {
		if (!strncmp(a, before, n) && !strncmp(b, before, n)) {
			a += n + strspn(a + n, "0123456789");
			b += n + strspn(b + n, "0123456789");
			continue;
		}
		a++;
		b++;
	}
	return *a == *b;
}

static void add_warning(struct probes *p, const char *text)
{
	char *copy;

	for (size_t i = 0; i < p->warnings.n; i++)
		if (is_same_warning(p->warnings.at[i], text))
			return;
	copy = strdup(text);
	if (copy && vec_push(&p->warnings, copy) < 0)
		free(copy);
}

const char *probes_next_warning(struct probes *p)
{
	return p->next_warning < p->warnings.n ? p->warnings.at[p->next_warning++] : NULL;
}

static struct process *find_process(struct probes *p, pid_t pid)
{
	for (size_t i = 0; i < p->processes.n; i++)
		if (p->processes.at[i].pid == pid)
			return &p->processes.at[i];
	return NULL;
}

static struct spot *find_spot(const struct probes *p, enum wire_probe_kind kind, uint32_t ep_id,
			      const struct module *m, uint64_t vaddr)
{
	for (size_t i = 0; i < p->spots.n; i++) {
		struct spot *s = p->spots.at[i];

		if (s->kind == kind && s->ep_id == ep_id && s->vaddr == vaddr &&
		    module_id(s->module) == module_id(m))
			return s;
	}
	return NULL;
}

static int program_for(const struct probes *p, enum wire_probe_kind kind,
		       const struct wire_endpoint *wire)
{
	switch (kind) {
	case WIRE_P_END:
		return p->programs.end_fd;
	case WIRE_P_RET:
		return p->programs.ret_fd;
	case WIRE_P_URET:
		return p->programs.uret_fd;
	default:
		/* Only names gain from being read where page faults are allowed. */
		if (p->programs.enter_fd < 0 ||
		    (wire->n_entry_ops && p->programs.enter_sleepable_fd >= 0))
			return p->programs.enter_sleepable_fd;
		return p->programs.enter_fd;
	}
}

/* What attach_target needs besides the plan. */
struct attach_job {
	uint32_t ep_id;
	pid_t pid; /* -1: every process */
	const struct plan *plan;
};

static int new_spot(struct probes *p, const struct attach_job *job, enum wire_probe_kind kind,
		    const struct plan_target *t, const struct plan_place *place, struct spot **ret)
{
	struct spot *s;
	int r = spot_new(&s, kind, job->ep_id, binary_module(t->function.binary), place->vaddr);

	if (r < 0)
		return r;
	s->site = place->site;
	if (kind == WIRE_P_URET)
		s->site = (struct site){.vaddr = place->vaddr};
	s->semaphore_off = place->semaphore_off;
	s->leave = job->plan->leave;
	s->program_fd = program_for(p, kind, &job->plan->wire);
	if (s->site.off)
		snprintf(s->name, sizeof(s->name), "%s+0x%x", t->function.name, s->site.off);
	else
		snprintf(s->name, sizeof(s->name), "%s", t->function.name);
	r = vec_push(&p->spots, s);
	if (r < 0) {
		spot_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

static int attach_target(struct probes *p, const struct attach_job *job, enum wire_probe_kind kind,
			 const struct plan_target *t, struct errmsg *e)
{
	for (size_t i = 0; i < t->n; i++) {
		struct module *m = binary_module(t->function.binary);
		struct spot *s = find_spot(p, kind, job->ep_id, m, t->places[i].vaddr);
		struct errmsg why = {""};
		int r = 0;

		if (!s)
			r = new_spot(p, job, kind, t, &t->places[i], &s);
		if (r < 0)
			return r;
		r = spot_attach(s, &p->options.source, job->pid, &why);
		if (r < 0 && s->program_fd == p->programs.enter_sleepable_fd &&
		    p->programs.enter_fd >= 0) {
			s->program_fd = p->programs.enter_fd;
			r = spot_attach(s, &p->options.source, job->pid, &why);
		}
		if (r < 0)
			return errmsg_set(e, r, "endpoint '%s': %s (%s in %s)",
					  endpoint_text(p->slots.at[job->ep_id].ep), why.text,
					  s->name, module_path(m));
	}
	return 0;
}

static int attach_rets(struct probes *p, const struct attach_job *job, const struct resolved *f,
		       struct errmsg *e)
{
	AUTO_FREE struct plan_target *rets = calloc(1, sizeof(*rets));
	int r = rets ? plan_rets(f, endpoint_text(p->slots.at[job->ep_id].ep), rets, e) : -ENOMEM;

	return r < 0 ? r : attach_target(p, job, WIRE_P_RET, rets, e);
}

/* Writes the slot's programs once; a second build of the binary may need different ones. */
static int write_wire(struct probes *p, uint32_t ep_id, const struct plan *plan, struct errmsg *e)
{
	struct slot *slot = &p->slots.at[ep_id];
	struct wire_endpoint wire = plan->wire;
	int r;

	if (p->options.report_slow)
		wire.flags |= WIRE_EP_F_REPORT_SLOW;
	if (slot->has_wire) {
		wire.site_off = slot->wire.site_off;
		wire.flags |= slot->wire.flags & WIRE_EP_F_RET_SITES;
		if (memcmp(&slot->wire, &wire, sizeof(wire)) == 0)
			return 0;
		return errmsg_set(
			e, -EEXIST,
			"endpoint '%s': %s is another build than the one probed first, and its name is read in another way: profile them in two runs",
			endpoint_text(slot->ep),
			module_path(binary_module(plan->entry.function.binary)));
	}
	r = bpf_map_update_elem(p->programs.endpoints_fd, &ep_id, &wire, BPF_ANY);
	if (r < 0)
		return errmsg_set(e, r, "endpoint '%s': cannot be configured: %s",
				  endpoint_text(slot->ep), strerror(-r));
	slot->wire = wire;
	slot->has_wire = true;
	return 0;
}

static int attach_plan(struct probes *p, uint32_t ep_id, const struct resolve_input *in,
		       const struct retsites_scope *scope, const struct plan *plan,
		       struct errmsg *e)
{
	struct attach_job job = {.ep_id = ep_id, .pid = scope->pid, .plan = plan};
	const struct resolved *f = &plan->entry.function;
	int r = write_wire(p, ep_id, plan, e);

	if (r < 0)
		return r;
	if (plan->wants_return_value)
		retsites_keep_return_value(p->retsites);
	if (plan->leave == LEAVE_RETSITE && p->options.preset_callers)
		ahead_attach(p->retsites, scope, in, f,
			     plan->enclosing ? plan->enclosing : f->vaddr, p->options.source.multi);
	/* What ends calls comes before what begins them. */
	r = attach_target(p, &job, WIRE_P_END, &plan->end, e);
	if (r == 0 && plan->leave == LEAVE_URETPROBE)
		r = attach_target(p, &job, WIRE_P_URET, &plan->entry, e);
	if (r == 0 && plan->leave != LEAVE_RET &&
	    (p->slots.at[ep_id].wire.flags & WIRE_EP_F_RET_SITES))
		r = attach_rets(p, &job, f, e);
	r = r < 0 ? r : attach_target(p, &job, WIRE_P_RET, &plan->rets, e);
	r = r < 0 ? r : attach_target(p, &job, WIRE_P_ENTER, &plan->entry, e);
	if (r < 0)
		return r;
	if (plan->warning[0])
		add_warning(p, plan->warning);
	p->slots.at[ep_id].nameless |= plan->nameless;
	if (endpoint_target(p->slots.at[ep_id].ep)->kind != ENDPOINT_USDT)
		endpoint_found(p->slots.at[ep_id].ep, f->name);
	return 0;
}

static bool is_among(uint64_t endpoints, size_t ep_id)
{
	return endpoints & 1ULL << (ep_id % WIRE_EP_MAX);
}

static size_t count_among(const struct probes *p, uint64_t endpoints)
{
	size_t n = 0;

	for (size_t i = 0; i < p->slots.n; i++)
		n += is_among(endpoints, i);
	return n;
}

/* Only uretprobes need to know what could be killed: looking costs some ms. */
static unsigned int runtimes_of(const struct probes *p, const struct resolve_input *in,
				uint64_t endpoints)
{
	bool wanted = p->options.leave == LEAVE_URETPROBE;

	for (size_t i = 0; i < p->slots.n; i++)
		wanted |= is_among(endpoints, i) &&
			  endpoint_leave(p->slots.at[i].ep) == LEAVE_URETPROBE;
	return wanted ? plan_runtimes(in) : 0;
}

/* These endpoints in one process. The first message is kept when nothing could be attached. */
static int attach_these(struct probes *p, const struct resolve_input *in,
			const struct retsites_scope *scope, uint64_t endpoints, struct errmsg *e)
{
	struct plan_options o = {.leave = p->options.leave,
				 .force = p->options.force,
				 .rules = p->options.rules,
				 .runtimes = runtimes_of(p, in, endpoints)};
	AUTO_FREE struct plan *plan = malloc(sizeof(*plan));
	struct errmsg first = {""}, gone = {""};
	size_t n_attached = 0, n = count_among(p, endpoints);

	if (!plan)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->slots.n; i++) {
		struct errmsg why = {""};
		int r;

		if (!is_among(endpoints, i))
			continue;
		r = plan_endpoint(in, p->slots.at[i].ep, &o, plan, &why);
		if (r == 0)
			r = attach_plan(p, i, in, scope, plan, &why);
		if (r == 0) {
			n_attached++;
			continue;
		}
		if (r == -ESRCH) { /* it is not for this file, or the process has ended */
			gone = why;
			continue;
		}
		if (r != -ENOENT)
			return errmsg_set(e, r, "%s", why.text[0] ? why.text : strerror(-r));
		if (!first.text[0])
			first = why;
		if (n > 1)
			add_warning(p, why.text);
	}
	if (n_attached || n == 0)
		return 0;
	return errmsg_set(e, -ENOENT, "%s", first.text[0] ? first.text : gone.text);
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
	r = attach_these(p, &in, &scope, process->endpoints, e);
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

		if (is_among(process->endpoints, i) && file && !resolve_modules(&in, file, &any, 1))
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
			r = spot_attach(p->spots.at[i], &p->options.source, -1, NULL);
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
	add_warning(p, text);
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

/* The returns of one function whose entry is probed, for those for whom its entry is. */
static int attach_rets_of(struct probes *p, const struct spot *entry, const struct plan *plan)
{
	struct attach_job job = {.ep_id = entry->ep_id, .plan = plan};
	struct resolved f = {.vaddr = entry->vaddr};
	int r = binaries_get(p->binaries, entry->module, &f.binary);

	snprintf(f.name, sizeof(f.name), "%.*s", SYMTAB_NAME_MAX - 1, entry->name);
	for (size_t i = 0; r == 0 && i < entry->links.n; i++) {
		job.pid = entry->links.at[i].pid;
		r = attach_rets(p, &job, &f, NULL);
	}
	return r;
}

/*
 * Some call of this endpoint cannot be seen to return where it was called from: from now on its own
 * returns are looked at, if they can be had.
 */
static void use_rets(struct probes *p, uint32_t ep_id)
{
	AUTO_FREE struct plan *plan = calloc(1, sizeof(*plan));
	struct slot *slot = ep_id < p->slots.n ? &p->slots.at[ep_id] : NULL;
	char text[384];
	int r = plan ? 0 : -ENOMEM;

	if (r < 0 || !slot || !slot->has_wire || slot->returns_tried)
		return;
	slot->returns_tried = true;
	plan->leave = LEAVE_RET;
	for (size_t i = 0; r == 0 && i < p->spots.n; i++)
		if (p->spots.at[i]->kind == WIRE_P_ENTER && p->spots.at[i]->ep_id == ep_id)
			r = attach_rets_of(p, p->spots.at[i], plan);
	if (r < 0)
		return;
	slot->wire.flags |= WIRE_EP_F_RET_SITES;
	if (bpf_map_update_elem(p->programs.endpoints_fd, &ep_id, &slot->wire, BPF_ANY) < 0)
		return;
	snprintf(
		text, sizeof(text),
		"%s is called from where no return can be probed: its own returns are, which costs each call about 1 us, on virtual machines up to 12 us",
		endpoint_display(slot->ep));
	add_warning(p, text);
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
		use_rets(p, site->ep_id);
		return;
	}
	if (retsites_add(p->retsites, &scope, range->module, site->ret_addr - range->bias,
			 range->bias, counters) < 0)
		use_rets(p, site->ep_id);
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
