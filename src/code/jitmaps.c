/* SPDX-License-Identifier: Apache-2.0 */
#include "code/jitmaps.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/vec.h"
#include "code/debugfile_priv.h"
#include "code/perfmap.h"

enum {
	MAPS_MAX = 256,
	MAP_MAX_BYTES = 16 << 20, /* of one process */
	RETRY = 256,              /* look-ups without success until the file is looked for again */
};

struct jitmaps {
	struct debugfile_search *search; /* borrowed */
	VEC(struct jitmap *) all;        /* owned */
	struct hash of_pid;
};

int jitmaps_new(struct jitmaps **ret, struct debugfile_search *search)
{
	struct jitmaps *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->search = search;
	hash_init(&t->of_pid);
	*ret = t;
	return 0;
}

static void free_map(struct jitmap *m)
{
	perfmap_free(m->map);
	free(m);
}

static void drop_all(struct jitmaps *t)
{
	for (size_t i = 0; i < t->all.n; i++)
		free_map(t->all.at[i]);
	t->all.n = 0;
	hash_deinit(&t->of_pid);
}

struct jitmaps *jitmaps_free(struct jitmaps *t)
{
	if (!t)
		return NULL;
	drop_all(t);
	vec_free(&t->all);
	free(t);
	return NULL;
}

static int add_map(struct jitmaps *t, pid_t pid, struct jitmap **ret)
{
	struct jitmap *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return -ENOMEM;
	m->pid = pid;
	r = perfmap_new(&m->map, MAP_MAX_BYTES);
	if (!r)
		r = vec_reserve(&t->all, t->all.n + 1);
	if (!r)
		r = hash_set(&t->of_pid, (uint64_t)pid, t->all.n);
	if (r) {
		free_map(m);
		return r;
	}
	*ret = t->all.at[t->all.n++] = m;
	return 0;
}

/* All are dropped when there are too many: those still needed are read again. */
int jitmaps_get(struct jitmaps *t, pid_t pid, struct jitmap **ret)
{
	uint64_t *at = hash_get(&t->of_pid, (uint64_t)pid);

	if (at) {
		*ret = t->all.at[*at];
		return 0;
	}
	if (t->all.n >= MAPS_MAX) {
		drop_all(t);
		hash_init(&t->of_pid);
	}
	return add_map(t, pid, ret);
}

/* The process's pid in its innermost namespace (NSpid) and its user. */
static int read_identity(pid_t pid, pid_t *ret_ns_pid, uid_t *ret_uid)
{
	AUTO_FILE FILE *f = NULL;
	char path[64], line[256];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	if (!f || fstat(fileno(f), &st) < 0)
		return -errno;
	*ret_ns_pid = pid;
	*ret_uid = st.st_uid;
	while (fgets(line, sizeof(line), f)) {
		const char *last = strrchr(line, '\t');

		if (strncmp(line, "NSpid:", 6) == 0 && last)
			*ret_ns_pid = (pid_t)strtol(last + 1, NULL, 10);
		else if (strncmp(line, "Uid:", 4) == 0)
			*ret_uid = (uid_t)strtoul(line + 4, NULL, 10);
	}
	return 0;
}

/* Reads what the process's map file has gained; trouble means that there is nothing new. */
static int refresh(struct jitmaps *t, struct jitmap *m)
{
	pid_t ns_pid = 0;
	uid_t uid = 0;
	int r;

	if (m->n_misses++ % RETRY != 0 || read_identity(m->pid, &ns_pid, &uid))
		return -ENOENT;
	r = debugfile_search_use_process(t->search, m->pid);
	if (!r)
		r = perfmap_read(m->map, debugfile_search_root(t->search), ns_pid, uid);
	if (!r)
		m->n_misses = 0;
	return r;
}

const char *jitmaps_find(struct jitmaps *t, struct jitmap *m, uint64_t pc, bool *ret_full)
{
	uint64_t start;
	const char *text = perfmap_find(m->map, pc, &start);

	*ret_full = false;
	if (text)
		return text;
	*ret_full = refresh(t, m) == -ENOSPC;
	return perfmap_find(m->map, pc, &start);
}
