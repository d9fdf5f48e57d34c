/* SPDX-License-Identifier: Apache-2.0 */
/*
 * debugfile.h: finds and opens the separate debug file of a module.
 *
 * Looked for in this order, first inside the roots of the processes that were named, then on the
 * host: build-id folders, .gnu_debuglink, debuginfod (only where allowed, within a time budget). A
 * file is used only when its build ID equals the module's or, for a module without one, when its
 * CRC is the one that the link states. Everything read here is hostile.
 */
#ifndef SPANPROF_CODE_DEBUGFILE_H
#define SPANPROF_CODE_DEBUGFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "code/module.h"

struct debugfile_search; /* where to look */
struct debugfile;        /* one open debug file, with its dwz supplement where it names one */

#define DEBUGFILE_DIRS "/usr/lib/debug"

/* dirs: colon-separated; NULL: DEBUGFILE_DIRS. budget_ns: of all debuginfod look-ups together. */
int debugfile_search_new(struct debugfile_search **ret, const char *dirs, bool debuginfod,
			 uint64_t budget_ns);
struct debugfile_search *debugfile_search_free(struct debugfile_search *s);

/*
 * Look-ups from now on try this process's root first, when it is not our own. The root is held open, so
 * the process may exit. A process that is gone is no error: only the host is searched then.
 */
int debugfile_search_use_process(struct debugfile_search *s, pid_t pid);

/* 0, or a negative errno: -ENOENT when there is none. The module must outlive the result. */
int debugfile_open(struct debugfile_search *s, struct module *m, struct debugfile **ret);
struct debugfile *debugfile_close(struct debugfile *f);

/* Where it was found, for people. */
const char *debugfile_path(const struct debugfile *f);

#endif
