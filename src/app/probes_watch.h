/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probes_watch.h: lets the probes of `spanprof probes` count for some time, which SIGINT or SIGTERM cuts
 * short, or the end of the process: what was seen so far is still told. The next signal ends the program.
 */
#ifndef SPANPROF_APP_PROBES_WATCH_H
#define SPANPROF_APP_PROBES_WATCH_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "pipe/engine.h"

struct probes_watch {
	int signal_fd; /* -1: cut short */
	sigset_t old_mask;
};

/*
 * From now on the signals are held back: at the end, too, one must not keep
 * the result from being told. 0 or negative errno.
 */
int probes_watch_init(struct probes_watch *w);
void probes_watch_deinit(struct probes_watch *w);
bool probes_watch_is_cut(const struct probes_watch *w);
/* Until the time is over, it is enough (NULL: never), or it is cut short. 0 or negative errno. */
int probes_watch_for(struct probes_watch *w, struct engine *engine, uint64_t for_ns,
		     bool (*is_enough)(const void *ctx), const void *ctx);

#endif
