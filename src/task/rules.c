/* SPDX-License-Identifier: Apache-2.0 */
#include "task/rules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/glob.h"
#include "task/rules_check.h"
#include "task/rules_schema.h"
#include "task/task.h"

enum { FILE_MAX = 1 << 20, CONTAINER_PREFIX_MIN = 8 };

DEFINE_CLEANUP(struct rules *, rules_free)

struct rules *rules_free(struct rules *r)
{
	if (!r)
		return NULL;
	free(r->agent.uids);
	free(r->file);
	rules_schema_free(r);
	return NULL;
}

int parse_rules(const char *text, size_t bytes, const char *path, struct rules **ret,
		struct errmsg *e)
{
	CLEANUP(rules_freep) struct rules *rules = NULL;
	struct yamlpos pos = {};
	struct errmsg why = {};
	int r = parse_yamlpos(text, bytes, &pos, &why);

	if (r)
		return errmsg_set(e, r, "%s:%s", path, why.text);
	r = rules_schema_load(text, bytes, path, &pos, &rules, e);
	if (!r)
		r = rules_check(rules, path, &pos, e);
	yamlpos_deinit(&pos);
	if (r)
		return r;
	*ret = TAKE_PTR(rules);
	return 0;
}

int rules_load(const char *path, struct rules **ret, struct errmsg *e)
{
	AUTO_FREE char *text = NULL;
	size_t bytes;
	int r = read_file(AT_FDCWD, path, FILE_MAX, &text, &bytes);

	if (r == -EFBIG)
		return errmsg_set(e, r, "rules file '%s' is larger than 1 MiB", path);
	if (r)
		return errmsg_set(e, r, "cannot read rules file '%s': %s; name another one with -c",
				  path, strerror(-r));
	return parse_rules(text, bytes, path, ret, e);
}

/* ---- matching ---- */

static bool match_cgroup(const char *want, const struct facts *f)
{
	char id[64];
	size_t n = strlen(want);

	if (!f->cgroup)
		return false;
	if (glob_match(want, f->cgroup))
		return true;
	/* A container is named by the begin of its id, as its tools show it. */
	facts_cgroup_id(f, id, sizeof(id));
	return n >= CONTAINER_PREFIX_MIN && id[0] &&
	       !strncmp(want, id, strlen(id) < n ? strlen(id) : n);
}

static bool match_env(const char *want, const struct facts *f)
{
	char name[RULES_ENV_MAX];
	const char *equals = strchr(want, '='), *value;
	size_t n = equals ? (size_t)(equals - want) : strlen(want);

	if (n >= sizeof(name))
		return false;
	memcpy(name, want, n);
	name[n] = 0;
	value = facts_env(f, name);
	return value && (!equals || glob_match(equals + 1, value));
}

/* Cheap facts first; each is read only when the ones before matched. */
static bool matches(const struct rules_match *m, int proc_fd, struct facts *f, bool titled)
{
	if ((m->pid && m->pid != f->pid) || (m->has_uid && m->uid != f->uid))
		return false;
	facts_need(proc_fd, f, FACTS_EXE);
	if (!f->exe)
		return false; /* a kernel thread, or gone */
	if (m->exe && m->exe[0] && !glob_match(m->exe, f->exe))
		return false;
	if (titled && m->cmdline && m->cmdline[0]) {
		facts_need(proc_fd, f, FACTS_CMDLINE);
		if (!f->cmdline || !glob_match(m->cmdline, f->cmdline))
			return false;
	}
	if (m->cgroup && m->cgroup[0]) {
		facts_need(proc_fd, f, FACTS_CGROUP);
		if (!match_cgroup(m->cgroup, f))
			return false;
	}
	if (m->n_env)
		facts_need(proc_fd, f, FACTS_ENVIRON);
	for (unsigned int i = 0; i < m->n_env; i++)
		if (!match_env(m->env[i], f))
			return false;
	return true;
}

const struct rules_service *rules_match_process(const struct rules *r, int proc_fd, struct facts *f)
{
	for (unsigned int i = 0; i < r->n_services; i++)
		for (unsigned int k = 0; k < r->services[i].n_matches; k++)
			if (matches(&r->services[i].matches[k], proc_fd, f, true))
				return &r->services[i];
	return NULL;
}

bool rules_match_untitled(const struct rules_service *s, int proc_fd, struct facts *f)
{
	for (unsigned int k = 0; k < s->n_matches; k++)
		if (matches(&s->matches[k], proc_fd, f, false))
			return true;
	return false;
}

static bool by_exe(const struct rules_match *m)
{
	return m->exe && m->exe[0];
}

bool rules_rule_out_exe(const struct rules *r, const char *exe)
{
	for (unsigned int i = 0; i < r->n_services; i++)
		for (unsigned int k = 0; k < r->services[i].n_matches; k++)
			if (by_exe(&r->services[i].matches[k]) &&
			    glob_match(r->services[i].matches[k].exe, exe))
				return false;
	return true;
}

static int add_name(const char *want, char (*names)[RULES_ENV_MAX], int n, size_t max)
{
	char name[RULES_ENV_MAX];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(want, "="), want);
	for (int i = 0; i < n; i++)
		if (!strcmp(names[i], name))
			return n;
	if ((size_t)n == max)
		return -E2BIG;
	strcpy(names[n], name);
	return n + 1;
}

int rules_env_names(const struct rules *r, char (*ret_names)[RULES_ENV_MAX], size_t max)
{
	int n = 0;

	for (unsigned int i = 0; i < r->n_services; i++) {
		for (unsigned int k = 0; n >= 0 && k < r->services[i].n_matches; k++) {
			const struct rules_match *m = &r->services[i].matches[k];

			if (!by_exe(m))
				n = m->n_env ? add_name(m->env[0], ret_names, n, max) : -ENOENT;
		}
	}
	return n;
}

bool rules_accepts(const struct rules_service *s, const char *instance)
{
	for (unsigned int i = 0; i < s->n_deny; i++)
		if (selector_match(s->deny[i], instance))
			return false;
	for (unsigned int i = 0; i < s->n_allow; i++)
		if (selector_match(s->allow[i], instance))
			return true;
	return !s->n_allow;
}
