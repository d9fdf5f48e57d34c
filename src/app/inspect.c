/* SPDX-License-Identifier: Apache-2.0 */
#include "app/inspect.h"

#include <errno.h>
#include <string.h>

#include "probe/servers.h"
#include "proc/process.h"

enum { MODULES_MAX = 512 };

int inspect_open(struct inspect *ret, pid_t pid, const char *debug_dirs, uint64_t debug_max_bytes,
		 struct errmsg *e)
{
	struct inspect i = {.pid = pid};
	struct process process;
	int r = process_read(pid, &process, e);

	r = r < 0 ? r : process_check_supported(&process, e);
	if (r < 0)
		return r;
	r = space_cache_new(&i.cache);
	r = r < 0 ? r : space_new(&i.space, i.cache, pid);
	r = r < 0 ? r : binaries_new(&i.binaries, debug_dirs, debug_max_bytes);
	r = r < 0 ? r : space_refresh(i.space);
	if (r < 0) {
		inspect_deinit(&i);
		return errmsg_set(e, r, "process %d: cannot read its memory map: %s", pid,
				  strerror(-r));
	}
	binaries_use_process(i.binaries, pid);
	*ret = i;
	ret->input =
		(struct resolve_input){.binaries = ret->binaries, .space = ret->space, .pid = pid};
	return 0;
}

void inspect_deinit(struct inspect *i)
{
	binaries_free(i->binaries);
	space_free(i->space);
	space_cache_free(i->cache);
	*i = (struct inspect){0};
}

static bool has_library(const struct inspect *i, const struct preset *p)
{
	struct resolve_module mods[MODULES_MAX];
	size_t n = p->libraries.n ? resolve_modules(&i->input, NULL, mods, MODULES_MAX) : 0;

	for (size_t k = 0; k < n; k++)
		if (preset_is_in(p, module_path(mods[k].module)))
			return true;
	return p->libraries.n == 0;
}

const struct preset *inspect_preset(const struct inspect *i, const struct presets *all, size_t *idx)
{
	const struct preset *p;
	char path[PROCESS_PATH_MAX];

	process_exe_path(i->pid, path, sizeof(path));
	while ((p = presets_at(all, (*idx)++)))
		if ((p->exes.n == 0 || preset_is_for(p, path)) && has_library(i, p))
			return p;
	return NULL;
}
