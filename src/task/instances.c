/* SPDX-License-Identifier: Apache-2.0 */
#include "task/instances.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "task/instances_priv.h"
#include "task/template.h"

int instances_new(struct instances **ret, const struct rules *rules,
		  const struct instances_options *options, struct errmsg *e)
{
	const char *proc = options->proc ? options->proc : "/proc";
	struct instances *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return errmsg_set(e, -ENOMEM, "out of memory");
	t->options = *options;
	t->rules = rules;
	snprintf(t->hostname, sizeof(t->hostname), "%s", options->hostname);
	hash_init(&t->by_pid);
	t->next_id = 1;
	t->proc_fd = open(proc, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->proc_fd < 0) {
		r = errmsg_set(e, -errno, "cannot open '%s': %s", proc, strerror(errno));
		instances_free(t);
		return r;
	}
	*ret = t;
	return 0;
}

static void free_slot(struct slot *s)
{
	free(s->pub.service);
	free(s->pub.name);
	free(s->pub.layer);
	for (size_t i = 0; i < s->pub.n_properties; i++) {
		free(s->pub.properties[i].key);
		free(s->pub.properties[i].value);
	}
	free(s->pub.properties);
	vec_free(&s->pids);
	free(s);
}

struct instances *instances_free(struct instances *t)
{
	uint64_t key, value;
	size_t pos = 0;

	if (!t)
		return NULL;
	while (hash_next(&t->by_pid, &pos, &key, &value))
		free((struct entry *)(uintptr_t)value);
	hash_deinit(&t->by_pid);
	for (size_t i = 0; i < t->slots.n; i++)
		free_slot(t->slots.at[i]);
	vec_free(&t->slots);
	if (t->proc_fd >= 0)
		close(t->proc_fd);
	free(t);
	return NULL;
}

struct slot *instances_slot(const struct instances *t, uint32_t id)
{
	for (size_t i = 0; i < t->slots.n; i++)
		if (t->slots.at[i]->pub.id == id)
			return t->slots.at[i];
	return NULL;
}

struct entry *instances_entry(const struct instances *t, pid_t pid)
{
	uint64_t *v = hash_get(&t->by_pid, pid);

	return v ? (struct entry *)(uintptr_t)*v : NULL;
}

/* ---- names ---- */

static const char *get_env(void *ctx, const char *name)
{
	return facts_env(ctx, name);
}

static void expand(const struct instances *t, const char *template, struct facts *f,
		   const char *service, char *buf, size_t n)
{
	char cgroup[128], user_buf[1024], user[64];
	struct passwd entry, *found = NULL;
	struct template_values v = {.hostname = t->hostname,
				    .cgroup = cgroup,
				    .user = user,
				    .exe = facts_exe_base(f),
				    .service = service,
				    .pid = f->pid,
				    .env = get_env,
				    .ctx = f};

	facts_cgroup_id(f, cgroup, sizeof(cgroup));
	if (strstr(template, "{user}") &&
	    !getpwuid_r(f->uid, &entry, user_buf, sizeof(user_buf), &found) && found)
		snprintf(user, sizeof(user), "%s", entry.pw_name);
	else
		snprintf(user, sizeof(user), "%u", f->uid);
	template_expand(template, &v, buf, n);
}

static int64_t start_time_ms(uint64_t start_ticks)
{
	struct timespec boot, real;
	long hz = sysconf(_SC_CLK_TCK);
	int64_t now_ms, since_boot_ms;

	clock_gettime(CLOCK_BOOTTIME, &boot);
	clock_gettime(CLOCK_REALTIME, &real);
	now_ms = (int64_t)real.tv_sec * 1000 + real.tv_nsec / 1000000;
	since_boot_ms = (int64_t)boot.tv_sec * 1000 + boot.tv_nsec / 1000000;
	return now_ms - since_boot_ms + (int64_t)(start_ticks * 1000 / (hz > 0 ? hz : 100));
}

/* ---- instances come and go ---- */

static int copy_properties(struct slot *s, const struct rules_service *rule)
{
	s->pub.properties = calloc(rule->n_properties + 1, sizeof(s->pub.properties[0]));
	if (!s->pub.properties)
		return -ENOMEM;
	for (unsigned int i = 0; i < rule->n_properties; i++) {
		const char *value = rule->properties[i].value;

		s->pub.properties[i].key = strdup(rule->properties[i].key);
		s->pub.properties[i].value = strdup(value ? value : "");
		s->pub.n_properties++;
		if (!s->pub.properties[i].key || !s->pub.properties[i].value)
			return -ENOMEM;
	}
	return 0;
}

static struct slot *new_slot(struct instances *t, const struct rules_service *rule,
			     const char *service, const char *name, const struct facts *f)
{
	struct slot *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->rule = rule;
	s->pub.id = t->next_id;
	s->pub.service = strdup(service);
	s->pub.name = strdup(name);
	s->pub.layer = strdup(rule->layer ? rule->layer : "");
	s->pub.pid = f->pid;
	s->pub.started_ms = start_time_ms(f->start_ticks);
	if (!s->pub.service || !s->pub.name || !s->pub.layer || copy_properties(s, rule) ||
	    vec_push(&t->slots, s)) {
		free_slot(s);
		return NULL;
	}
	t->next_id++;
	s->accepts = rules_accepts(rule, name);
	return s;
}

static void drop_slot_if_unused(struct instances *t, struct slot *s)
{
	if (s->is_up || s->holds)
		return;
	for (size_t i = 0; i < t->slots.n; i++) {
		if (t->slots.at[i] != s)
			continue;
		memmove(&t->slots.at[i], &t->slots.at[i + 1],
			(t->slots.n - i - 1) * sizeof(t->slots.at[0]));
		t->slots.n--;
		break;
	}
	free_slot(s);
}

void instances_join(struct instances *t, struct slot *s, struct entry *en)
{
	if (vec_push(&s->pids, en->pid))
		return; /* looked at again on a later scan */
	en->instance_id = s->pub.id;
	t->n_matched++;
	if (!s->is_up) {
		s->is_up = true;
		t->n_up++;
		if (t->options.up)
			t->options.up(t->options.ctx, &s->pub, s->accepts);
	}
	if (t->options.process_up)
		t->options.process_up(t->options.ctx, &s->pub, en->pid);
}

void instances_leave(struct instances *t, struct entry *en)
{
	struct slot *s = en->instance_id ? instances_slot(t, en->instance_id) : NULL;

	en->instance_id = 0;
	if (!s)
		return;
	for (size_t i = 0; i < s->pids.n; i++) {
		if (s->pids.at[i] != en->pid)
			continue;
		memmove(&s->pids.at[i], &s->pids.at[i + 1],
			(s->pids.n - i - 1) * sizeof(s->pids.at[0]));
		s->pids.n--;
		break;
	}
	t->n_matched--;
	if (t->options.process_down)
		t->options.process_down(t->options.ctx, &s->pub, en->pid);
	if (s->pids.n)
		return;
	s->is_up = false;
	t->n_up--;
	if (t->options.down)
		t->options.down(t->options.ctx, &s->pub);
	drop_slot_if_unused(t, s);
}

/* ---- the instance of a process ---- */

static struct slot *find_named(const struct instances *t, const char *service, const char *name)
{
	for (size_t i = 0; i < t->slots.n; i++)
		if (t->slots.at[i]->is_up && !strcmp(t->slots.at[i]->pub.service, service) &&
		    !strcmp(t->slots.at[i]->pub.name, name))
			return t->slots.at[i];
	return NULL;
}

struct slot *instances_slot_for(struct instances *t, const struct rules_service *rule,
				struct facts *f, const struct entry *parent)
{
	char service[TASK_SERVICE_MAX], name[TASK_INSTANCE_MAX];
	struct slot *s;

	if (rule->group == RULES_GROUP_TREE && parent && parent->rule == rule &&
	    parent->instance_id)
		return instances_slot(t, parent->instance_id);
	facts_need(t->proc_fd, f, t->rules->facts);
	expand(t, rule->name, f, "", service, sizeof(service));
	if (!service[0])
		return NULL; /* the variable that names the service is not set: not ours */
	expand(t, rule->instance, f, service, name, sizeof(name));
	if (!name[0])
		snprintf(name, sizeof(name), "%d", f->pid);
	s = find_named(t, service, name);
	if (s)
		return s;
	if (t->n_up >= t->rules->limits.max_instances) {
		t->n_refused++;
		return NULL;
	}
	return new_slot(t, rule, service, name, f);
}

/* ---- looking up ---- */

const struct instance *instances_find(const struct instances *t, uint32_t id)
{
	struct slot *s = instances_slot(t, id);

	return s ? &s->pub : NULL;
}

const struct instance *instances_at(const struct instances *t, size_t idx)
{
	for (size_t i = 0; i < t->slots.n; i++)
		if (t->slots.at[i]->is_up && !idx--)
			return &t->slots.at[i]->pub;
	return NULL;
}

const struct rules_service *instances_rule(const struct instances *t, uint32_t id)
{
	struct slot *s = instances_slot(t, id);

	return s && s->is_up ? s->rule : NULL;
}

bool instances_accepts(const struct instances *t, uint32_t id)
{
	struct slot *s = instances_slot(t, id);

	return s && s->accepts;
}

size_t instances_pids(const struct instances *t, uint32_t id, const pid_t **ret_pids)
{
	struct slot *s = instances_slot(t, id);

	*ret_pids = s ? s->pids.at : NULL;
	return s ? s->pids.n : 0;
}

uint32_t instances_of_pid(const struct instances *t, pid_t pid)
{
	const struct entry *en = instances_entry(t, pid);

	return en ? en->instance_id : 0;
}

void instances_hold(struct instances *t, uint32_t id)
{
	struct slot *s = instances_slot(t, id);

	if (s)
		s->holds++;
}

void instances_release(struct instances *t, uint32_t id)
{
	struct slot *s = instances_slot(t, id);

	if (!s || !s->holds)
		return;
	s->holds--;
	drop_slot_if_unused(t, s);
}

void instances_stats(const struct instances *t, struct instances_stats *ret)
{
	*ret = (struct instances_stats){.n_instances = t->n_up,
					.n_processes = t->n_matched,
					.n_watched = t->by_pid.n,
					.n_seen = t->n_seen,
					.n_refused = t->n_refused};
}
