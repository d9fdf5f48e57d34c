/* SPDX-License-Identifier: Apache-2.0 */
/* open.h: opens what build.sh made; SPANPROF_TEST_ELF names the folder. */
#ifndef SPANPROF_TESTS_UNIT_ELF_H
#define SPANPROF_TESTS_UNIT_ELF_H

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "code/module.h"
#include "tests/unit/unit.h"

static inline const char *elf_path(const char *name, char buf[PATH_MAX])
{
	const char *dir = getenv("SPANPROF_TEST_ELF");
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", dir ? dir : ".", name);
	if (!realpath(path, buf))
		snprintf(buf, PATH_MAX, "%s", path);
	return buf;
}

/* NULL when a tool was missing that makes this file. */
static inline struct module *elf_open(const char *name)
{
	char path[PATH_MAX];
	struct errmsg e = {0};
	struct module *m = NULL;
	int fd = open(elf_path(name, path), O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return NULL;
	if (module_open_fd(&m, fd, path, &e)) {
		close(fd);
		fail_msg("%s", e.text);
	}
	return m;
}

#define elf_open_or_skip(name)                           \
	({                                               \
		struct module *module_ = elf_open(name); \
		if (!module_)                            \
			skip();                          \
		module_;                                 \
	})

#endif
