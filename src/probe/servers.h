/* SPDX-License-Identifier: Apache-2.0 */
/*
 * servers.h: the executables of running processes that a preset is for.
 *
 * An executable is held open through a process that runs it: its path may lead to another file, or to
 * none, in this mount namespace (containers), or the file may be deleted. Each file is there once.
 */
#ifndef SPANPROF_PROBE_SERVERS_H
#define SPANPROF_PROBE_SERVERS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/errmsg.h"
#include "probe/preset.h"

struct server {
	int fd;
	dev_t dev;
	ino_t ino;
	char *path; /* as the process sees it */
};

struct servers {
	struct server *at;
	size_t n;
	size_t cap;
};

/*
 * -ENOENT when none runs (or the preset is for libraries only), -EACCES when none is seen, but some
 * processes may not be looked at; the message says what to do; -ENOMEM, -EMFILE. ret is to be freed by servers_deinit in any case.
 */
int servers_find(const struct preset *p, struct servers *ret, struct errmsg *e);
/* By the base name of an executable's path. */
bool preset_is_for(const struct preset *p, const char *path);
/* The same for a preset that is for a library, too: by the file of a module. */
bool preset_is_in(const struct preset *p, const char *path);
bool servers_have(const struct servers *s, dev_t dev, ino_t ino);
void servers_deinit(struct servers *s);

#endif
