/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h: the control socket: a source of tasks, and the way to ask the agent about itself.
 *
 * A Unix stream socket; JSON lines as in control_message.h. Who may connect is checked twice: by the
 * socket's file mode and by the peer's uid. Each client has one request in work at a time, and a
 * request is read only when the reply to the one before has left, so a client that floods or stalls
 * holds a bounded amount of memory and nobody else up.
 */
#ifndef SPANPROF_TASK_CONTROL_H
#define SPANPROF_TASK_CONTROL_H

#include <sys/types.h>

#include "base/errmsg.h"
#include "task/control_message.h"
#include "task/source.h"

struct control_options {
	const char *path;
	unsigned int mode; /* of the socket's file */
	const uid_t *uids; /* allowed besides root and the agent's own; copied */
	size_t n_uids;
	/*
	 * Answers everything but TASK_CREATE and TASK_CANCEL: 0 and ret_result, JSON text of an object
	 * for the caller to free, or a negative errno with the message and ret_error set.
	 */
	int (*query)(void *ctx, const struct control_request *r, char **ret_result,
		     enum control_error *ret_error, struct errmsg *e);
	void *ctx;
};

struct control_stats {
	uint64_t n_requests;
	uint64_t n_bad;     /* refused lines */
	uint64_t n_denied;  /* connections of other users */
	uint64_t n_dropped; /* connections closed: too many, stalled, oversized lines */
	size_t n_clients;
};

/* Creates the socket; -EADDRINUSE when another agent answers on it. */
int control_new(struct task_source **ret, const struct control_options *options, struct errmsg *e);
void control_stats(const struct task_source *s, struct control_stats *ret);
/* After a reload of the rules; copied. */
int control_set_uids(struct task_source *s, const uid_t *uids, size_t n_uids);

#endif
