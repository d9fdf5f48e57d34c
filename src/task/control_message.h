/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_message.h: one line of the control protocol to a request, and replies to lines. Pure.
 *
 * docs/control.md is the reference. Lines come from anybody who may open the socket: unknown keys,
 * wrong types, missing and oversized values are refused with a message that names the key.
 */
#ifndef SPANPROF_TASK_CONTROL_MESSAGE_H
#define SPANPROF_TASK_CONTROL_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/errmsg.h"
#include "model/task.h"

enum { CONTROL_VERSION = 1, CONTROL_LINE_MAX = 64 * 1024, CONTROL_REQ_MAX = 64 };

enum control_command {
	CONTROL_PING,
	CONTROL_TASK_CREATE,
	CONTROL_TASK_LIST,
	CONTROL_TASK_SHOW,
	CONTROL_TASK_LOG,
	CONTROL_TASK_CANCEL,
	CONTROL_SPAN_LIST,
	CONTROL_INSTANCE_LIST,
	CONTROL_TOP,
	CONTROL_METRICS,
	CONTROL_COMMAND_MAX
};

/* "task.create" */
const char *control_command_name(enum control_command c);

struct control_request {
	enum control_command command;
	char req[CONTROL_REQ_MAX]; /* the client's own id of the request, echoed; may be empty */
	struct task task;          /* TASK_CREATE; its id may be empty */
	/* TASK_SHOW, TASK_LOG, TASK_CANCEL: which task; SPAN_LIST: filters. Empty: any. */
	char id[TASK_ID_MAX];
	char source[TASK_SOURCE_MAX];
	char service[TASK_SERVICE_MAX];
	char instance[TASK_INSTANCE_MAX];
	uint64_t min_ns; /* SPAN_LIST: spans at least this long */
	uint32_t limit;  /* SPAN_LIST, TASK_LOG: entries at most, newest first */
	bool slowest;    /* SPAN_LIST: slowest first */
};

/* What a client may be told as error.code. */
enum control_error {
	CONTROL_E_INVALID, /* the request is not understood or its values are not allowed */
	CONTROL_E_REFUSED, /* understood, but not possible now: overlap, limits */
	CONTROL_E_NOT_FOUND,
	CONTROL_E_PERMISSION,
	CONTROL_E_BUSY, /* too many clients */
	CONTROL_E_INTERNAL,
	CONTROL_ERROR_MAX
};

const char *control_error_name(enum control_error error);

/* One line without its newline. 0, -ENOMEM, or -EINVAL; ret->req is set as soon as it is known. */
int parse_control_line(const char *line, size_t bytes, struct control_request *ret,
		       struct errmsg *e);

/* The text as a JSON string; owned by the caller; NULL: out of memory. */
char *control_quote(const char *text);

/*
 * Replies, NUL-terminated, with the newline, owned by the caller; NULL: out of memory. result is JSON
 * text of an object.
 */
char *control_reply(const char *req, const char *result);
char *control_reply_error(const char *req, enum control_error error, const char *message);

#endif
