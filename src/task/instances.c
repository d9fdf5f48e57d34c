/* SPDX-License-Identifier: Apache-2.0 */
#include "task/instances.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/units.h"
#include "base/vec.h"
#include "task/template.h"

enum {
	YOUNG_SCANS = 3, /* a process that does not match yet may still call exec: look again */
	ROTA = 8,        /* old processes are looked at again on every 8th scan */
	ANCESTORS_MAX = 16,
};

/* One instance. */
struct slot {
	struct instance pub; /* owned strings */
	const struct rules_service *rule;
	bool accepts;
	bool is_up;
	unsigned int holds;
	VEC(pid_t) pids;
};

/* One process. */
struct entry {
	pid_t pid;
	pid_t parent;
	uint64_t start_ticks;
	const struct rules_service *rule; /* NULL: matches none */
	uint32_t instance_id;             /* 0: none */
	uint32_t seen;                    /* scan number */
	uint32_t age;                     /* scans */
	struct facts_program forked; /* known: a fork of a matched process that runs this, too */
};

struct instances {
	struct instances_options options;
	const struct rules *rules;
	char hostname[128];
	int proc_fd;
	struct hash by_pid;       /* pid -> struct entry *, owned */
	VEC(struct slot *) slots; /* owned */
	uint32_t next_id;
	uint32_t scan;
	size_t n_up;
	size_t n_matched;
	uint64_t n_seen;
	uint64_t n_refused;
};

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

static struct slot *find_slot(const struct instances *t, uint32_t id)
{
	for (size_t i = 0; i < t->slots.n; i++)
		if (t->slots.at[i]->pub.id == id)
			return t->slots.at[i];
	return NULL;
}

static struct entry *find_entry(const struct instances *t, pid_t pid)
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

static void join(struct instances *t, struct slot *s, struct entry *en)
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

static void leave(struct instances *t, struct entry *en)
{
	struct slot *s = en->instance_id ? find_slot(t, en->instance_id) : NULL;

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

/* ---- one process ---- */

static struct slot *find_named(const struct instances *t, const char *service, const char *name)
{
	for (size_t i = 0; i < t->slots.n; i++)
		if (t->slots.at[i]->is_up && !strcmp(t->slots.at[i]->pub.service, service) &&
		    !strcmp(t->slots.at[i]->pub.name, name))
			return t->slots.at[i];
	return NULL;
}

static struct slot *slot_for(struct instances *t, const struct rules_service *rule, struct facts *f,
			     const struct entry *parent)
{
	char service[TASK_SERVICE_MAX], name[TASK_INSTANCE_MAX];
	struct slot *s;

	if (rule->group == RULES_GROUP_TREE && parent && parent->rule == rule &&
	    parent->instance_id)
		return find_slot(t, parent->instance_id);
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

static struct entry *look_at(struct instances *t, pid_t pid, int depth);

/*
 * Servers write into the titles of their forks what these do. While the parent is there it says what its
 * fork is; an orphan stays what it was as long as it runs the program.
 */
static const struct rules_service *rule_of_fork(const struct instances *t, const struct entry *en,
						struct facts *f, const struct entry *parent)
{
	const struct rules_service *rule = en->forked.ino ? en->rule : NULL;
	struct facts_program was = en->forked, now;

	if (parent && parent->instance_id) {
		rule = parent->rule;
		was = facts_program(t->proc_fd, parent->pid);
	}
	if (!rule)
		return NULL;
	now = facts_program(t->proc_fd, f->pid);
	return facts_same_program(was, now) && rules_match_untitled(rule, t->proc_fd, f) ? rule
											 : NULL;
}

static void note_fork(const struct instances *t, struct entry *en, const struct entry *parent)
{
	struct facts_program own;

	if (!en->rule || !parent || parent->rule != en->rule)
		return; /* what an orphan was is still known */
	own = facts_program(t->proc_fd, en->pid);
	en->forked = facts_same_program(own, facts_program(t->proc_fd, parent->pid))
			     ? own
			     : (struct facts_program){};
}

/* (Re)decides whom the process belongs to. Facts are those of the process now. */
static void classify(struct instances *t, struct entry *en, struct facts *f, int depth)
{
	const struct rules_service *rule = rules_match_process(t->rules, t->proc_fd, f);
	bool titles = t->rules->facts & FACTS_CMDLINE;
	struct entry *parent = NULL;
	struct slot *s;

	en->parent = f->parent;
	if (f->parent > 1 && depth < ANCESTORS_MAX &&
	    (titles || (rule && rule->group == RULES_GROUP_TREE)))
		parent = look_at(t, f->parent, depth + 1);
	if (!rule && titles)
		rule = rule_of_fork(t, en, f, parent);
	if (rule && en->instance_id && en->rule == rule)
		return; /* an orphaned worker stays where it is */
	en->rule = rule;
	if (titles)
		note_fork(t, en, parent);
	s = rule ? slot_for(t, rule, f, parent) : NULL;
	if (s && s->pub.id == en->instance_id)
		return;
	leave(t, en);
	if (s)
		join(t, s, en);
}

static void forget(struct instances *t, struct entry *en)
{
	leave(t, en);
	hash_remove(&t->by_pid, en->pid);
	free(en);
}

/* Reads the process and files it; NULL when it is gone. A known one is not looked at again. */
static struct entry *look_at(struct instances *t, pid_t pid, int depth)
{
	struct entry *en = find_entry(t, pid);
	struct facts f;

	if (en)
		return en;
	if (facts_read(t->proc_fd, pid, &f))
		return NULL;
	en = calloc(1, sizeof(*en));
	if (!en || hash_set(&t->by_pid, pid, (uintptr_t)en)) {
		free(en);
		facts_deinit(&f);
		return NULL;
	}
	en->pid = pid;
	en->start_ticks = f.start_ticks;
	en->seen = t->scan;
	t->n_seen++;
	classify(t, en, &f, depth);
	facts_deinit(&f);
	return en;
}

/* The process may be another one by now, or run another program. False: it is gone. */
static bool look_again(struct instances *t, struct entry *en)
{
	struct facts f;

	if (facts_read(t->proc_fd, en->pid, &f)) {
		forget(t, en);
		return false;
	}
	if (f.start_ticks != en->start_ticks) {
		leave(t, en);
		en->rule = NULL; /* what the dead one was says nothing of this one */
		en->forked = (struct facts_program){};
		en->start_ticks = f.start_ticks;
		en->age = 0;
		t->n_seen++;
	}
	classify(t, en, &f, 0);
	facts_deinit(&f);
	return true;
}

/* ---- all processes ---- */

static void scan_one(struct instances *t, pid_t pid)
{
	struct entry *en = find_entry(t, pid);

	if (!en) {
		look_at(t, pid, 0);
		return;
	}
	en->seen = t->scan;
	en->age++;
	if ((!en->instance_id && en->age <= YOUNG_SCANS) || (en->age + pid) % ROTA == 0)
		look_again(t, en);
}

static void forget_unseen(struct instances *t)
{
	uint64_t key, value;
	size_t pos = 0, n = 0;
	AUTO_FREE struct entry **gone = malloc((t->by_pid.n + 1) * sizeof(*gone));

	if (!gone)
		return;
	while (hash_next(&t->by_pid, &pos, &key, &value)) {
		struct entry *en = (struct entry *)(uintptr_t)value;

		if (en->seen != t->scan)
			gone[n++] = en;
	}
	for (size_t i = 0; i < n; i++)
		forget(t, gone[i]);
}

int instances_scan(struct instances *t)
{
	int fd = openat(t->proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *de;
	uint64_t pid;

	if (!dir) {
		int r = -errno;

		if (fd >= 0)
			close(fd);
		return r;
	}
	t->scan++;
	errno = 0;
	while ((de = readdir(dir)))
		if (de->d_name[0] >= '1' && de->d_name[0] <= '9' &&
		    !parse_u64(de->d_name, INT32_MAX, &pid))
			scan_one(t, pid);
	closedir(dir);
	forget_unseen(t);
	return 0;
}

void instances_on_fork(struct instances *t, pid_t parent, pid_t child)
{
	struct entry *en = find_entry(t, child);

	(void)parent;
	if (en)
		look_again(t, en);
	else
		look_at(t, child, 0);
}

void instances_on_exec(struct instances *t, pid_t pid)
{
	struct entry *en = find_entry(t, pid);

	if (en)
		look_again(t, en);
	else
		look_at(t, pid, 0);
}

bool instances_rule_out(const struct instances *t, pid_t pid, uint64_t ino)
{
	const struct entry *en = find_entry(t, pid);
	struct facts f = {.pid = pid};
	struct stat st;
	char path[32];
	bool out;

	if (en && en->rule)
		return false;
	facts_need(t->proc_fd, &f, FACTS_EXE);
	snprintf(path, sizeof(path), "%d/exe", pid);
	/* A file of several names may match by another one. */
	out = f.exe && rules_rule_out_exe(t->rules, f.exe) && !fstatat(t->proc_fd, path, &st, 0) &&
	      st.st_ino == ino && st.st_nlink == 1;
	facts_deinit(&f);
	return out;
}

void instances_on_exit(struct instances *t, pid_t pid)
{
	struct entry *en = find_entry(t, pid);

	if (en)
		forget(t, en);
}

/* ---- reload ---- */

/* What the new rule says of an instance that stays; its layer and properties stay as well. */
static void refresh_slot(struct instances *t, struct slot *s, const struct rules_service *rule)
{
	bool accepts = rules_accepts(rule, s->pub.name);

	s->rule = rule;
	if (accepts == s->accepts)
		return;
	s->accepts = accepts;
	if (t->options.accepts)
		t->options.accepts(t->options.ctx, &s->pub, accepts);
}

/* A worker stays with the process that named its instance, or where it is when that one is gone. */
static bool stays_with_root(const struct instances *t, const struct entry *en,
			    const struct rules_service *rule)
{
	struct slot *s = en->instance_id ? find_slot(t, en->instance_id) : NULL;
	struct entry *root = s ? find_entry(t, s->pub.pid) : NULL;

	if (!s || root == en || !rule)
		return false;
	return !root || (root->rule == rule && root->instance_id == en->instance_id);
}

static void reclassify(struct instances *t, struct entry *en)
{
	const struct rules_service *rule;
	struct facts f;
	struct slot *s;

	if (facts_read(t->proc_fd, en->pid, &f)) {
		forget(t, en);
		return;
	}
	rule = rules_match_process(t->rules, t->proc_fd, &f);
	if (stays_with_root(t, en, rule))
		en->rule = rule;
	else
		classify(t, en, &f, 0);
	facts_deinit(&f);
	s = en->instance_id ? find_slot(t, en->instance_id) : NULL;
	if (s)
		refresh_slot(t, s, en->rule);
}

static int compare_start(const void *a, const void *b)
{
	const struct entry *x = *(struct entry *const *)a, *y = *(struct entry *const *)b;

	if (x->start_ticks != y->start_ticks)
		return x->start_ticks < y->start_ticks ? -1 : 1;
	return x->pid - y->pid;
}

int instances_reload(struct instances *t, const struct rules *rules)
{
	AUTO_FREE struct entry **all = malloc((t->by_pid.n + 1) * sizeof(*all));
	uint64_t key, value;
	size_t pos = 0, n = 0;

	if (!all)
		return -ENOMEM;
	t->rules = rules;
	while (hash_next(&t->by_pid, &pos, &key, &value))
		all[n++] = (struct entry *)(uintptr_t)value;
	/* Parents before their children. */
	qsort(all, n, sizeof(*all), compare_start);
	for (size_t i = 0; i < n; i++)
		all[i]->rule = NULL; /* one of the old rules, which are about to go */
	for (size_t i = 0; i < n; i++)
		reclassify(t, all[i]);
	return 0;
}

/* ---- looking up ---- */

const struct instance *instances_find(const struct instances *t, uint32_t id)
{
	struct slot *s = find_slot(t, id);

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
	struct slot *s = find_slot(t, id);

	return s && s->is_up ? s->rule : NULL;
}

bool instances_accepts(const struct instances *t, uint32_t id)
{
	struct slot *s = find_slot(t, id);

	return s && s->accepts;
}

size_t instances_pids(const struct instances *t, uint32_t id, const pid_t **ret_pids)
{
	struct slot *s = find_slot(t, id);

	*ret_pids = s ? s->pids.at : NULL;
	return s ? s->pids.n : 0;
}

uint32_t instances_of_pid(const struct instances *t, pid_t pid)
{
	const struct entry *en = find_entry(t, pid);

	return en ? en->instance_id : 0;
}

void instances_hold(struct instances *t, uint32_t id)
{
	struct slot *s = find_slot(t, id);

	if (s)
		s->holds++;
}

void instances_release(struct instances *t, uint32_t id)
{
	struct slot *s = find_slot(t, id);

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
