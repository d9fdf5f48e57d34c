/* SPDX-License-Identifier: Apache-2.0 */
/* store_priv.h: what the files of the store share. Only store*.c include it, and sqlite3.h with it. */
#ifndef SPANPROF_TASK_STORE_PRIV_H
#define SPANPROF_TASK_STORE_PRIV_H

#include <sqlite3.h>

#include "task/store.h"

enum store_statement {
	STORE_BEGIN,
	STORE_COMMIT,
	STORE_ROLLBACK,
	STORE_SAVE_TASK,
	STORE_SAVE_RUN,
	STORE_COUNT_TASK,
	STORE_COUNT_RUN,
	STORE_FORGET_TASK,
	STORE_FORGET_RUNS,
	STORE_SAVE_WATERMARK,
	STORE_LOG,
	STORE_TRIM_LOG,
	STORE_ADD_SPAN,
	STORE_MAX_SERIAL,
	STORE_REMOVE_OLD,
	STORE_REMOVE_FIRST,
	STORE_LOAD_TASKS,
	STORE_LOAD_RUNS,
	STORE_LOAD_WATERMARKS,
	STORE_LOAD_LOG,
	STORE_LIST_NEWEST,
	STORE_LIST_SLOWEST,
	STORE_READ_SPAN,
	STORE_STATEMENT_MAX
};

struct store {
	struct span_sink sink; /* first */
	char *path;            /* owned */
	int lock_fd;           /* held while the store is open for writing */
	sqlite3 *db;
	bool is_shut; /* there was no room to open it for writing: db can only be read, maybe in memory */
	sqlite3_stmt *statements[STORE_STATEMENT_MAX]; /* made when first used */
	uint64_t max_bytes;
	uint64_t max_age_ms;
	uint64_t commit_at; /* mono; UINT64_MAX: no open transaction */
	uint64_t clean_at;
	uint64_t retry_at; /* nothing is written before */
	uint64_t now_ns;   /* of the last tick */
	uint64_t age_at;   /* mono: nothing is removed for its age before; the wall clock was set */
	int64_t off_ms;    /* wall clock less monotonic one, at the last tick */
	uint64_t n_open;   /* spans in the open transaction */
	struct store_stats stats; /* without its error: */
	struct errmsg why;
};

/* The statement, reset; NULL: it cannot be made, which is counted. */
sqlite3_stmt *store_statement(struct store *s, enum store_statement which);
/* "s" text (NULL: ""), "i" int64_t, "b" const void * and size_t. */
void store_bind(sqlite3_stmt *st, const char *types, ...);
/* Runs a statement that returns no rows. False: it failed, which is counted. */
bool store_run(struct store *s, sqlite3_stmt *st);
/* Opens a transaction unless there is one. False: not now. */
bool store_begin(struct store *s);
/* The value of a pragma or query that yields one number; -1: it fails. */
int store_pragma(sqlite3 *db, const char *text);
/* Of one that is shut: false when there is still no room, or something else is in the way. */
bool store_reopen(struct store *s);

extern const struct span_sink_ops store_sink_ops;

#endif
