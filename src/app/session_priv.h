/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_priv.h: what the parts of a session share: session.c, its life; session_processes.c, what is
 * profiled; session_capture.c, what is written of it.
 */
#ifndef SPANPROF_APP_SESSION_PRIV_H
#define SPANPROF_APP_SESSION_PRIV_H

#include <signal.h>

#include "app/child.h"
#include "app/costly.h"
#include "app/files_limit.h"
#include "app/session.h"
#include "app/specs.h"

struct session {
	const struct run_options *o;
	struct engine *engine;
	struct capture_writer *writer; /* NULL: not recording */
	int write_error;
	struct specs specs;
	size_t n_endpoints;
	sigset_t old_mask;
	struct rlimit old_files;
	int signal_fd;
	struct child child;
	int child_status; /* -1: none, or not ended */
	bool child_gone;
	bool child_entered;          /* it is held where it enters another program */
	bool child_left;             /* it is in another program than the one that was attached */
	struct errmsg child_trouble; /* why nothing of it is profiled; "" when something is */
	bool watching;               /* processes may still come */
	uint64_t start_ns;
	uint64_t end_ns;
	bool hurried; /* the user does not want to wait for the rest of the end, either */
	bool silence_told;
	struct costly costly;
	uint64_t hanging_told_ns; /* when the last call that was told of began */
	uint64_t next_hanging_ns;
	size_t n_hanging;
};

/* Says what has failed, by the message if there is one. The exit status for it. */
int session_fail(const char *doing, int error, const struct errmsg *e);

/* 0 or negative errno. */
int session_open_instance(struct session *s, uint32_t instance_id, struct errmsg *e);

/* Looks at the command, and for signals: true when one tells that the user wants the run to end. */
bool session_read_signals(struct session *s);

/* session_processes.c: 0, or an exit status after a message. */
int session_add_processes(struct session *s);
int session_start_command(struct session *s);
/* What the command has done since: to be called when the records are read. */
int session_follow_command(struct session *s);
/* When the run is over: an exit status after a message if the command had nothing to be profiled. */
int session_check_command(struct session *s);

/* session_capture.c: hooks of the engine; nothing is done when nothing is recorded. */
void session_on_space(void *ctx, uint32_t tgid, uint32_t as_id, struct space *space);
void session_on_record(void *ctx, const void *record, size_t bytes);
/* Begins the profile, and the capture if there is one. An exit status after a message. */
int session_new_writer(struct session *s, FILE *capture);
/* What comes behind the records. 0 or negative errno. */
int session_write_totals(struct session *s);
int session_fail_capture(const struct session *s, int error);

#endif
