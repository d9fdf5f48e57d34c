/* SPDX-License-Identifier: Apache-2.0 */
/* reporter_impl.h: the insides that reporter.c (what is to be sent) and stream.c (sending it) share. */
#ifndef SPANPROF_NET_REPORTER_IMPL_H
#define SPANPROF_NET_REPORTER_IMPL_H

#include "base/vec.h"
#include "net/notice.h"
#include "net/reporter.h"
#include "net/spool.h"

enum {
	BATCH_SPANS = 64, /* of one stream; 1 after the backend has refused one */
	BATCH_BYTES = 2 << 20,
	BATCH_SNAPSHOTS = 4500,
};

/* One task on one instance. */
struct run {
	uint64_t owner; /* of its items in the spool; never 0 */
	char *task_id;  /* owned */
	char *instance; /* its name, owned; NULL until it is finished */
	uint32_t instance_id;
	uint32_t n_waiting; /* spans */
	bool finished;
	bool reporting; /* the finish report is out */
	uint64_t retry_ns;
	struct bytes report; /* the finish report, encoded: the instance may be gone by then */
};

/* An item of the stream under way. */
struct batch_item {
	struct spool_item *item; /* borrowed from the spool */
	uint32_t progress;       /* of the item, when the stream is confirmed */
	bool whole;              /* then all its snapshots are there */
};

struct batch {
	VEC(struct batch_item) items;
	uint32_t n_snapshots;
	uint32_t limit; /* spans */
	bool call_out;
	bool segments; /* what is under way: segments, or snapshots */
};

struct reporter {
	void (*on_reported)(void *ctx, const char *task_id, const char *instance);
	void *ctx;
	struct rpc *rpc;
	struct link *link;
	struct spool *spool;
	size_t parcel_bytes_max;
	uint64_t agent_id[2];
	VEC(struct run) runs;
	uint64_t last_owner;
	struct batch batch;
	struct notice notice;
	bool fresh; /* something came in that no timer knows of yet */
	bool hurry;
	uint64_t flush_ns;      /* 0: nothing to send */
	uint64_t not_before_ns; /* after a refusal */
	uint32_t n_refused;     /* in a row */
	struct reporter_status status;
};

/* Spans that the backend will never have. */
uint64_t reporter_lost(const struct reporter *r);
void run_deinit(struct run *run);
void reporter_forget_run(struct reporter *r, uint64_t owner);
/* An item of this owner waits no more. */
void reporter_item_gone(struct reporter *r, uint64_t owner);

#endif
