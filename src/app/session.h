/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h: one run of `run` or `record`: from options to an engine that is attached, through the
 * event loop, to a finished profile. It prints what the user must know on the way, on stderr.
 */
#ifndef SPANPROF_APP_SESSION_H
#define SPANPROF_APP_SESSION_H

#include "app/run_options.h"
#include "pipe/capture.h"
#include "pipe/engine.h"

struct session;

/*
 * Sets everything up: endpoints, programs, processes, gates. capture: records go there, too, and
 * symbols are not looked up; NULL for `run`. 0, or an exit status after one message on stderr.
 */
int session_new(struct session **ret, const struct run_options *o, FILE *capture);
struct session *session_free(struct session *s);

/* Profiles until the run ends. 0 or an exit status after a message. */
int session_run(struct session *s);

/* After session_run: the finished profile, totals and histograms included. */
struct profile *session_profile(struct session *s);
/*
 * Detaches everything (the profile is gone with it) and returns the exit status of the command that
 * was started; -1: none was. Waits for it, when the run has ended first, and passes signals on.
 */
int session_command_status(struct session *s);

#endif
