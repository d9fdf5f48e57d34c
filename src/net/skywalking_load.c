/* SPDX-License-Identifier: Apache-2.0 */
/*
 * skywalking_load.c: loads the SkyWalking part when a backend asks for it.
 *
 * gRPC brings some fifty shared libraries; linked into the program they would cost every
 * `spanprof run` megabytes and tens of milliseconds. So src/net is a shared module, of the same
 * build as the program, which stays loaded once it is.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "net/skywalking.h"
#include "net/skywalking_module.h"

#define MODULE_NAME "spanprof-skywalking.so"

/* The module beside the program: when it runs from its build folder. */
static void *open_beside_program(void)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof(MODULE_NAME) - 1);
	char *slash;

	if (n < 0)
		return NULL;
	path[n] = 0;
	slash = strrchr(path, '/');
	if (!slash)
		return NULL;
	strcpy(slash + 1, MODULE_NAME);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static const struct skywalking_module *find_module(void)
{
	void *handle =
		dlopen(SPANPROF_MODULE_DIR "/" MODULE_NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

	if (!handle)
		handle = open_beside_program();
	return handle ? dlsym(handle, SKYWALKING_MODULE_SYMBOL) : NULL;
}

int skywalking_new(const struct backend_config *config, struct task_source **ret_source,
		   struct span_sink **ret_sink, struct errmsg *e)
{
	const struct skywalking_module *m = find_module();

	if (!m)
		return errmsg_set(e, -ENOTSUP,
				  "backend '%s': cannot load " MODULE_NAME
				  " from '" SPANPROF_MODULE_DIR "' or from beside the program: %s",
				  config->name, dlerror() ?: "it is not a module of spanprof");
	if (strcmp(m->version, SPANPROF_VERSION))
		return errmsg_set(e, -ENOTSUP,
				  "backend '%s': " MODULE_NAME
				  " is of spanprof %s, this is %s; install both from one build",
				  config->name, m->version, SPANPROF_VERSION);
	return m->make(config, ret_source, ret_sink, e);
}
