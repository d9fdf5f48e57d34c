/* SPDX-License-Identifier: Apache-2.0 */
/*
 * instances_scan.c: the processes that are there, by scans and by what the kernel tells, and to which rule
 * each belongs.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "task/instances_priv.h"

enum {
	YOUNG_SCANS = 3, /* a process that does not match yet may still call exec: look again */
	ROTA = 8,        /* old processes are looked at again on every 8th scan */
	ANCESTORS_MAX = 16,
};

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
	s = rule ? instances_slot_for(t, rule, f, parent) : NULL;
	if (s && s->pub.id == en->instance_id)
		return;
	instances_leave(t, en);
	if (s)
		instances_join(t, s, en);
}

static void forget(struct instances *t, struct entry *en)
{
	instances_leave(t, en);
	hash_remove(&t->by_pid, en->pid);
	free(en);
}

/* Reads the process and files it; NULL when it is gone. A known one is not looked at again. */
static struct entry *look_at(struct instances *t, pid_t pid, int depth)
{
	struct entry *en = instances_entry(t, pid);
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
		instances_leave(t, en);
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
	struct entry *en = instances_entry(t, pid);

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
	struct entry *en = instances_entry(t, child);

	(void)parent;
	if (en)
		look_again(t, en);
	else
		look_at(t, child, 0);
}

void instances_on_exec(struct instances *t, pid_t pid)
{
	struct entry *en = instances_entry(t, pid);

	if (en)
		look_again(t, en);
	else
		look_at(t, pid, 0);
}

bool instances_rule_out(const struct instances *t, pid_t pid, uint64_t ino)
{
	const struct entry *en = instances_entry(t, pid);
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
	struct entry *en = instances_entry(t, pid);

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
	struct slot *s = en->instance_id ? instances_slot(t, en->instance_id) : NULL;
	struct entry *root = s ? instances_entry(t, s->pub.pid) : NULL;

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
	s = en->instance_id ? instances_slot(t, en->instance_id) : NULL;
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

/*
 * The new rule of an orphaned fork, whose title may say nothing any more: that of the same service which
 * takes it but for the title. For all others their parent or their title says it.
 */
static const struct rules_service *rule_of_orphan(const struct instances *t, const struct entry *en)
{
	const struct entry *parent = instances_entry(t, en->parent);
	const struct rules_service *found = NULL;
	struct facts f;

	if (!en->rule || !en->forked.ino || (parent && parent->instance_id) ||
	    facts_read(t->proc_fd, en->pid, &f))
		return NULL;
	for (unsigned int i = 0; !found && i < t->rules->n_services; i++) {
		const struct rules_service *rule = &t->rules->services[i];

		if (!strcmp(rule->name, en->rule->name) &&
		    rules_match_untitled(rule, t->proc_fd, &f))
			found = rule;
	}
	facts_deinit(&f);
	return found;
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
		all[i]->rule = rule_of_orphan(t, all[i]); /* no old one, which are about to go */
	for (size_t i = 0; i < n; i++)
		reclassify(t, all[i]);
	return 0;
}
