/* SPDX-License-Identifier: Apache-2.0 */
#include "app/inspect.h"

#include <errno.h>
#include <string.h>

#include "proc/process.h"

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
