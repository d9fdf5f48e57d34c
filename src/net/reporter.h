/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reporter.h: finished spans to the backend: snapshots, then segments, then the report that the task
 * is over.
 *
 * A span waits in the spool until the backend has confirmed both. A task's finish report goes once,
 * when none of its spans on that instance waits any more. What has to be repeated carries the same ids
 * and numbers, by which the backend knows it.
 */
#ifndef SPANPROF_NET_REPORTER_H
#define SPANPROF_NET_REPORTER_H

#include <stdint.h>

#include "net/link.h"
#include "net/rpc.h"
#include "task/sink.h"

struct reporter;

struct reporter_options {
	struct rpc *rpc;           /* borrowed */
	struct link *link;         /* borrowed */
	size_t spool_bytes;        /* 0: 8 MiB */
	const char *spool_file;    /* NULL: none */
	uint64_t spool_file_bytes; /* 0: 64 MiB */
	/* A finish report was taken, or is given up. */
	void (*on_reported)(void *ctx, const char *task_id, const char *instance);
	void *ctx;
};

int reporter_new(struct reporter **ret, const struct reporter_options *o, struct errmsg *e);
struct reporter *reporter_free(struct reporter *r);

/* Converts and spools; what cannot be kept is counted. */
void reporter_span(struct reporter *r, const struct sink_span *s);
void reporter_task_finished(struct reporter *r, const struct task *t, const struct instance *i);

uint64_t reporter_deadline_ns(const struct reporter *r);
void reporter_dispatch(struct reporter *r, uint64_t now_ns);

/* Nothing waits and nothing is under way. */
bool reporter_is_idle(const struct reporter *r);
/* From now on nothing waits to be sent together. */
void reporter_hurry(struct reporter *r);

struct reporter_status {
	uint64_t n_spans;     /* confirmed by the backend */
	uint64_t n_snapshots; /* of those */
	uint64_t
		n_dropped; /* spans: no room, no memory, or refused by the backend again and again */
	uint64_t n_errors;       /* failed calls */
	uint64_t n_finished;     /* finish reports confirmed */
	uint64_t n_unconfirmed;  /* finish reports whose answer never came; they are not repeated */
	uint64_t n_bad_contexts; /* trace contexts that could not be read */
	uint64_t n_waiting;      /* spans in the spool */
	uint64_t waiting_bytes;
};

void reporter_status(const struct reporter *r, struct reporter_status *ret);

#endif
