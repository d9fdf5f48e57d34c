/* SPDX-License-Identifier: Apache-2.0 */
#include "app/variants.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proc/process.h"

struct variants {
	const struct preset *preset;
	struct endpoint *endpoints[PRESET_VALUES_MAX]; /* owned; NULL: wanted in any case */
	size_t n;
	bool *wanted;
};

/* A program of this path is profiled. */
static void add_path(struct variants *v, const char *path)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->endpoints[i] && path[0] && endpoint_wants_file(v->endpoints[i], path))
			v->wanted[i] = true;
}

/* A path as the kernel shows it in /proc: without symbolic links. */
static void add_file(struct variants *v, const char *name)
{
	char path[PATH_MAX];

	if (realpath(name, path))
		add_path(v, path);
}

/* Of one that is no program of the preset it is not known what it executes: maybe any of its builds. */
static bool add_started(struct variants *v, const char *name)
{
	char path[PATH_MAX];

	if (!realpath(name, path))
		return false;
	if (preset_is_for(v->preset, path))
		add_path(v, path);
	return true;
}

/* As execvp() looks for it. */
static void add_command(struct variants *v, const char *name)
{
	const char *dirs = getenv("PATH");
	char path[PATH_MAX];

	if (strchr(name, '/') || !dirs) {
		add_started(v, name);
		return;
	}
	for (size_t n; *dirs; dirs += n + (dirs[n] == ':')) {
		n = strcspn(dirs, ":");
		if ((size_t)snprintf(path, sizeof(path), "%.*s/%s", (int)n, n ? dirs : ".", name) <
			    sizeof(path) &&
		    !access(path, X_OK) && add_started(v, path))
			return;
	}
}

static void add_all(struct variants *v, const struct run_options *o, const struct servers *found)
{
	char path[PROCESS_PATH_MAX];

	for (size_t i = 0; i < found->n; i++)
		add_path(v, found->at[i].path);
	for (size_t i = 0; i < o->exes.n; i++)
		add_file(v, o->exes.at[i]);
	for (size_t i = 0; i < o->pids.n; i++) {
		process_exe_path(o->pids.at[i], path, sizeof(path));
		add_path(v, path);
	}
	if (o->command)
		add_command(v, o->command[0]);
}

void variants_choose(const struct preset *p, const struct run_options *o,
		     const struct servers *found, bool wanted[PRESET_VALUES_MAX])
{
	struct variants v = {.preset = p, .n = p->endpoints.n, .wanted = wanted};
	size_t n_wanted = 0;

	for (size_t i = 0; i < v.n; i++) {
		/* Of a library, which any program may have, attaching looks at the file. */
		wanted[i] = parse_endpoint(p->endpoints.at[i], &v.endpoints[i], NULL) ||
			    endpoint_target(v.endpoints[i])->binary;
		if (wanted[i])
			v.endpoints[i] = endpoint_free(v.endpoints[i]);
	}
	add_all(&v, o, found);
	for (size_t i = 0; i < v.n; i++) {
		n_wanted += wanted[i];
		endpoint_free(v.endpoints[i]);
	}
	for (size_t i = 0; i < v.n && !n_wanted; i++)
		wanted[i] = true;
}
