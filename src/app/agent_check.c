/* SPDX-License-Identifier: Apache-2.0 */
#include "app/agent_check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/inspect.h"
#include "app/targets.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "probe/plan.h"
#include "task/task.h"

enum { PROGRAMS_MAX = 64 }; /* different ones that are looked into */

/* A program that processes of a service run: one of them is looked into. */
struct program {
	const struct rules_service *rule;
	dev_t dev;
	ino_t ino;
};

struct check {
	const struct rules *rules;
	const struct instances *instances;
	struct target_list targets;
	VEC(struct program) seen;
	size_t n_skipped; /* processes of programs that were too many to look into */
	int n;            /* lines printed */
};

static bool is_new(struct check *c, const struct rules_service *rule, pid_t pid)
{
	struct program program = {.rule = rule};
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (stat(path, &st)) /* gone, or not for us: instances are counted all the same */
		return false;
	program.dev = st.st_dev;
	program.ino = st.st_ino;
	for (size_t i = 0; i < c->seen.n; i++)
		if (c->seen.at[i].rule == rule && c->seen.at[i].dev == program.dev &&
		    c->seen.at[i].ino == program.ino)
			return false;
	if (c->seen.n == PROGRAMS_MAX || vec_push(&c->seen, program)) {
		c->n_skipped++;
		return false;
	}
	return true;
}

static void print_missing(struct check *c, const struct instance *i, pid_t pid, const char *preset,
			  const char *why)
{
	bool has_preset = preset && preset[0];

	printf("  %s / %s: process %d: %s%s%s%s\n", i->service, i->name, pid,
	       has_preset ? "nothing of preset '" : "", has_preset ? preset : "",
	       has_preset ? "' is there: " : "", why);
	c->n++;
}

/* All targets of one entry of the rules: of a preset, one that is there is enough. */
static void check_entry(struct check *c, struct inspect *in, const struct instance *i, size_t first)
{
	const struct plan_options o = {.leave = LEAVE_AUTO};
	AUTO_FREE struct plan *plan = malloc(sizeof(*plan));
	const struct target *at = c->targets.at;
	struct errmsg why = {};

	for (size_t k = first; plan && k < c->targets.n && at[k].from == at[first].from; k++) {
		struct errmsg e = {};
		int r = plan_endpoint(&in->input, at[k].parsed, &o, plan, &e);

		if (!r || r == -ESRCH) /* -ESRCH: it is not for this file */
			return;
		if (!why.text[0])
			errmsg_set(&why, r, "%s", e.text[0] ? e.text : strerror(-r));
	}
	if (why.text[0])
		print_missing(c, i, in->pid, at[first].from->preset, why.text);
}

static void check_process(struct check *c, const struct instance *i, pid_t pid)
{
	const struct rules_service *rule = instances_rule(c->instances, i->id);
	const struct target *at = c->targets.at;
	struct inspect in;
	struct errmsg e = {};

	if (!is_new(c, rule, pid))
		return;
	if (inspect_open(&in, pid, NULL, c->rules->limits.debug_bytes, &e)) {
		print_missing(c, i, pid, NULL, e.text);
		return;
	}
	for (size_t k = 0; k < c->targets.n; k++)
		if (at[k].rule == rule && (!k || at[k].from != at[k - 1].from))
			check_entry(c, &in, i, k);
	inspect_deinit(&in);
}

/* Not by a template, which may come to be any name. */
static bool is_named(const struct rules *rules, const char *service)
{
	for (unsigned int i = 0; i < rules->n_services; i++)
		if (!strcmp(rules->services[i].name, service))
			return true;
	return false;
}

/* A service that the rules name, and that is without any instance, is told elsewhere. */
static void check_task(struct check *c, const struct rules_task *rt)
{
	const struct task *t = &rt->task;
	bool any = false, selected = false;
	struct errmsg e = {};
	const struct instance *i;

	for (size_t n = 0; (i = instances_at(c->instances, n)); n++) {
		any |= !strcmp(i->service, t->service);
		selected |= task_is_for(t, i);
	}
	if (!any && !is_named(c->rules, t->service)) {
		printf("  task '%s': nothing that matches now is service '%s', and no rule names it\n",
		       rt->name, t->service);
		c->n++;
	}
	if (any && !selected) {
		printf("  task '%s': no instance of '%s' is called '%s' now\n", rt->name,
		       t->service, t->instance);
		c->n++;
	}
	if (!targets_know(&c->targets, t, &e)) {
		printf("  task '%s': %s\n", rt->name, e.text);
		c->n++;
	}
}

int agent_check(const struct rules *rules, const struct instances *instances)
{
	struct check c = {.rules = rules, .instances = instances};
	const struct instance *i;
	struct errmsg e = {};
	int r = targets_of_rules(rules, &c.targets, &e);

	for (size_t n = 0; !r && (i = instances_at(instances, n)); n++) {
		const pid_t *pids;
		size_t n_pids = instances_pids(instances, i->id, &pids);

		for (size_t k = 0; k < n_pids; k++)
			check_process(&c, i, pids[k]);
	}
	if (c.n_skipped)
		printf("  %zu processes were not looked into: they run more than %d programs\n",
		       c.n_skipped, PROGRAMS_MAX);
	for (unsigned int k = 0; !r && k < rules->n_tasks; k++)
		check_task(&c, &rules->tasks[k]);
	targets_free(c.targets.at, c.targets.n);
	vec_free(&c.seen);
	return r ? r : c.n;
}
