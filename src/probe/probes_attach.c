/* SPDX-License-Identifier: Apache-2.0 */
/* probes_attach.c: what is planned for an endpoint in a process, attached. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "probe/probes_priv.h"

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
	if (s->program_fd == p->programs.enter_sleepable_fd)
		s->other_program_fd = p->programs.enter_fd;
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
		r = spot_attach(s, probes_source(p, kind), job->pid, &why);
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
		warnings_add(&p->warnings, plan->warning);
	p->slots.at[ep_id].nameless |= plan->nameless;
	if (endpoint_target(p->slots.at[ep_id].ep)->kind != ENDPOINT_USDT)
		endpoint_found(p->slots.at[ep_id].ep, f->name);
	return 0;
}

static size_t count_among(const struct probes *p, uint64_t endpoints)
{
	size_t n = 0;

	for (size_t i = 0; i < p->slots.n; i++)
		n += probes_among(endpoints, i);
	return n;
}

/* Only uretprobes need to know what could be killed: looking costs some ms. */
static unsigned int runtimes_of(const struct probes *p, const struct resolve_input *in,
				uint64_t endpoints)
{
	bool wanted = p->options.leave == LEAVE_URETPROBE;

	for (size_t i = 0; i < p->slots.n; i++)
		wanted |= probes_among(endpoints, i) &&
			  endpoint_leave(p->slots.at[i].ep) == LEAVE_URETPROBE;
	return wanted ? plan_runtimes(in) : 0;
}

int probes_attach(struct probes *p, const struct resolve_input *in,
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

		if (!probes_among(endpoints, i))
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
			warnings_add_missing(&p->warnings, i, in->pid, why.text);
	}
	if (n_attached || n == 0)
		return 0;
	return errmsg_set(e, -ENOENT, "%s", first.text[0] ? first.text : gone.text);
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

void probes_use_rets(struct probes *p, uint32_t ep_id)
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
	warnings_add(&p->warnings, text);
}
