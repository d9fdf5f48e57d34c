/* SPDX-License-Identifier: Apache-2.0 */
#include "code/debuginfod.h"

#include <dlfcn.h>
#include <elfutils/debuginfod.h>
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"

struct debuginfod {
	void *library;             /* owned */
	debuginfod_client *client; /* owned */
	__typeof__(debuginfod_end) *end;
	__typeof__(debuginfod_find_debuginfo) *find;
	uint64_t deadline_ns; /* monotonic */
};

DEFINE_CLEANUP(struct debuginfod *, debuginfod_free)

struct debuginfod *debuginfod_free(struct debuginfod *d)
{
	if (!d)
		return NULL;
	if (d->client)
		d->end(d->client);
	if (d->library)
		dlclose(d->library);
	free(d);
	return NULL;
}

/* Called while a transfer runs; a result that is not 0 ends it. All we get is the client. */
static int stop_when_late(debuginfod_client *client, long a, long b)
{
	__typeof__(debuginfod_get_user_data) *get = dlsym(RTLD_DEFAULT, "debuginfod_get_user_data");
	const struct debuginfod *d = get ? get(client) : NULL;

	return !d || clock_mono_ns() >= d->deadline_ns;
}

int debuginfod_new(struct debuginfod **ret)
{
	CLEANUP(debuginfod_freep) struct debuginfod *d = calloc(1, sizeof(*d));
	__typeof__(debuginfod_begin) *begin;
	__typeof__(debuginfod_set_progressfn) *set_progress;
	__typeof__(debuginfod_set_user_data) *set_user_data;

	if (!d)
		return -ENOMEM;
	/* What it loads in turn (curl, TLS) keeps global state and does not survive being unloaded. */
	d->library = dlopen(DEBUGINFOD_SONAME, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
	if (!d->library)
		return -ENOENT;
	begin = dlsym(d->library, "debuginfod_begin");
	d->end = dlsym(d->library, "debuginfod_end");
	d->find = dlsym(d->library, "debuginfod_find_debuginfo");
	set_progress = dlsym(d->library, "debuginfod_set_progressfn");
	set_user_data = dlsym(d->library, "debuginfod_set_user_data");
	if (!begin || !d->end || !d->find || !set_progress || !set_user_data)
		return -ENOENT;
	d->client = begin();
	if (!d->client)
		return -ENOMEM;
	set_user_data(d->client, d);
	set_progress(d->client, stop_when_late);
	*ret = TAKE_PTR(d);
	return 0;
}

int debuginfod_fetch(struct debuginfod *d, const uint8_t *build_id, size_t build_id_bytes,
		     uint64_t budget_ns, int *ret_fd)
{
	AUTO_FREE char *path = NULL;
	int fd;

	d->deadline_ns = clock_mono_ns() + budget_ns;
	fd = d->find(d->client, build_id, (int)build_id_bytes, &path);
	if (fd < 0)
		return clock_mono_ns() >= d->deadline_ns ? -ETIME : fd;
	*ret_fd = fd;
	return 0;
}
