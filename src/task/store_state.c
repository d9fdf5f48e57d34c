/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_state.c: tasks, runs, logs and last command times in the store, and reading spans back.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "task/spanblob.h"
#include "task/store_priv.h"

enum task_flag { TASK_F_FROM_START = 1, TASK_F_END_BY_COUNT = 2, TASK_F_CANCELLED = 4 };

/* ---- writing: state must survive a kill, so it is committed at once ---- */

/* NULL: it cannot be written now, which counts as an error. */
static sqlite3_stmt *begin(struct store *s, enum store_statement kind)
{
	sqlite3_stmt *st = store_begin(s) ? store_statement(s, kind) : NULL;

	s->stats.n_errors += !st;
	return st;
}

static void run_now(struct store *s, sqlite3_stmt *st)
{
	if (st && store_run(s, st))
		store_flush(s);
}

void store_save_task(struct store *s, const struct schedule_task *t)
{
	const struct task *k = &t->task;
	int64_t flags = (k->from_start ? TASK_F_FROM_START : 0) |
			(k->end_by_count ? TASK_F_END_BY_COUNT : 0) |
			(t->cancelled ? TASK_F_CANCELLED : 0);
	sqlite3_stmt *st = begin(s, STORE_SAVE_TASK);

	if (!st)
		return;
	store_bind(st, "sssssiiiiiiiiiiiiiis", k->source, k->id, k->service, k->instance,
		   k->endpoint, k->create_ms, k->start_ms, (int64_t)k->duration_ns,
		   (int64_t)k->threshold_ns, (int64_t)k->period_ns, (int64_t)k->max_spans,
		   (int64_t)k->max_parallel, flags, (int64_t)t->local, (int64_t)t->state,
		   t->received_ms, t->started_ms, t->finished_ms, (int64_t)t->n_spans, t->why);
	run_now(s, st);
}

void store_save_run(struct store *s, const struct schedule_task *t, const struct schedule_run *r)
{
	sqlite3_stmt *st = begin(s, STORE_SAVE_RUN);

	if (!st)
		return;
	store_bind(st, "sssiiiii", t->task.source, t->task.id, r->instance, (int64_t)r->state,
		   (int64_t)r->how, r->started_ms, r->finished_ms, (int64_t)r->n_spans);
	run_now(s, st);
}

void store_count_spans(struct store *s, const struct schedule_task *t, const struct schedule_run *r)
{
	sqlite3_stmt *task = begin(s, STORE_COUNT_TASK);
	sqlite3_stmt *run = task ? store_statement(s, STORE_COUNT_RUN) : NULL;

	if (!run)
		return;
	store_bind(task, "ssi", t->task.source, t->task.id, (int64_t)t->n_spans);
	store_bind(run, "sssi", t->task.source, t->task.id, r->instance, (int64_t)r->n_spans);
	if (store_run(s, task))
		store_run(s, run);
}

void store_forget_task(struct store *s, const char *source, const char *id)
{
	static const enum store_statement both[] = {STORE_FORGET_TASK, STORE_FORGET_RUNS};

	for (int i = 0; i < 2; i++) {
		sqlite3_stmt *st = begin(s, both[i]);

		if (!st)
			return;
		store_bind(st, "ss", source, id);
		store_run(s, st);
	}
	store_flush(s);
}

static void bind_watermark(sqlite3_stmt *st, uint64_t key, int64_t create_ms, int64_t used_ms)
{
	store_bind(st, "iii", (int64_t)key, create_ms, used_ms);
}

void store_save_watermark(struct store *s, uint64_t key, int64_t create_ms, int64_t used_ms)
{
	sqlite3_stmt *st = begin(s, STORE_SAVE_WATERMARK);

	if (!st)
		return;
	bind_watermark(st, key, create_ms, used_ms);
	run_now(s, st);
}

/* One transaction: there may be thousands. */
void store_save_watermarks(struct store *s, const struct watermarks *w)
{
	for (size_t i = 0; i < w->marks.n; i++) {
		sqlite3_stmt *st = begin(s, STORE_SAVE_WATERMARK);

		if (!st)
			return;
		bind_watermark(st, w->marks.at[i].key, w->marks.at[i].create_ms,
			       w->marks.at[i].used_ms);
		if (!store_run(s, st))
			return;
	}
	store_flush(s);
}

void store_log(struct store *s, const struct store_log_entry *entry)
{
	sqlite3_stmt *st = begin(s, STORE_LOG);

	if (!st)
		return;
	store_bind(st, "isssss", entry->ms, entry->source, entry->id, entry->instance, entry->event,
		   entry->why);
	store_run(s, st); /* committed with what comes next */
}

/* ---- reading ---- */

static const char *text_of(sqlite3_stmt *st, int column)
{
	const char *text = (const char *)sqlite3_column_text(st, column);

	return text ? text : "";
}

static void copy_of(sqlite3_stmt *st, int column, char *to, size_t n)
{
	snprintf(to, n, "%s", text_of(st, column));
}

/* Numbers in the file may be anything: enums are brought into their range. */
static unsigned int enum_of(sqlite3_stmt *st, int column, unsigned int max)
{
	int64_t v = sqlite3_column_int64(st, column);

	return v >= 0 && v < (int64_t)max ? (unsigned int)v : 0;
}

static int end_of(sqlite3_stmt *st, int r)
{
	sqlite3_reset(st);
	return r == SQLITE_DONE ? 0 : -EIO;
}

static void read_task(sqlite3_stmt *st, struct schedule_task *t)
{
	struct task *k = &t->task;
	int64_t flags = sqlite3_column_int64(st, 12);

	memset(t, 0, sizeof(*t));
	copy_of(st, 0, k->source, sizeof(k->source));
	copy_of(st, 1, k->id, sizeof(k->id));
	copy_of(st, 2, k->service, sizeof(k->service));
	copy_of(st, 3, k->instance, sizeof(k->instance));
	copy_of(st, 4, k->endpoint, sizeof(k->endpoint));
	k->create_ms = sqlite3_column_int64(st, 5);
	k->start_ms = sqlite3_column_int64(st, 6);
	k->duration_ns = sqlite3_column_int64(st, 7);
	k->threshold_ns = sqlite3_column_int64(st, 8);
	k->period_ns = sqlite3_column_int64(st, 9);
	k->max_spans = sqlite3_column_int64(st, 10);
	k->max_parallel = sqlite3_column_int64(st, 11);
	k->from_start = flags & TASK_F_FROM_START;
	k->end_by_count = flags & TASK_F_END_BY_COUNT;
	t->cancelled = flags & TASK_F_CANCELLED;
	t->local = sqlite3_column_int64(st, 13);
	t->state = enum_of(st, 14, TASK_STATE_MAX);
	t->received_ms = sqlite3_column_int64(st, 15);
	t->started_ms = sqlite3_column_int64(st, 16);
	t->finished_ms = sqlite3_column_int64(st, 17);
	t->n_spans = sqlite3_column_int64(st, 18);
	copy_of(st, 19, t->why, sizeof(t->why));
}

int store_load_tasks(struct store *s, void (*fn)(void *ctx, const struct schedule_task *t),
		     void *ctx)
{
	sqlite3_stmt *st = store_statement(s, STORE_LOAD_TASKS);
	struct schedule_task t;
	int r;

	if (!st)
		return -EIO;
	while ((r = sqlite3_step(st)) == SQLITE_ROW) {
		read_task(st, &t);
		if (!task_check(&t.task, TASK_LIMITS_LOCAL, NULL))
			fn(ctx, &t);
	}
	return end_of(st, r);
}

int store_load_runs(struct store *s,
		    void (*fn)(void *ctx, const char *source, const char *id,
			       const struct schedule_run *r),
		    void *ctx)
{
	sqlite3_stmt *st = store_statement(s, STORE_LOAD_RUNS);
	int r;

	if (!st)
		return -EIO;
	while ((r = sqlite3_step(st)) == SQLITE_ROW) {
		struct schedule_run run = {};

		copy_of(st, 2, run.instance, sizeof(run.instance));
		run.state = enum_of(st, 3, TASK_STATE_MAX);
		run.how = enum_of(st, 4, TASK_EVENT_MAX);
		run.started_ms = sqlite3_column_int64(st, 5);
		run.finished_ms = sqlite3_column_int64(st, 6);
		run.n_spans = sqlite3_column_int64(st, 7);
		fn(ctx, text_of(st, 0), text_of(st, 1), &run);
	}
	return end_of(st, r);
}

int store_load_watermarks(struct store *s,
			  void (*fn)(void *ctx, uint64_t key, int64_t create_ms, int64_t used_ms),
			  void *ctx)
{
	sqlite3_stmt *st = store_statement(s, STORE_LOAD_WATERMARKS);
	int r;

	if (!st)
		return -EIO;
	while ((r = sqlite3_step(st)) == SQLITE_ROW)
		fn(ctx, sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 1),
		   sqlite3_column_int64(st, 2));
	return end_of(st, r);
}

int store_load_log(struct store *s, const char *source, const char *id, uint32_t limit,
		   void (*fn)(void *ctx, const struct store_log_entry *entry), void *ctx)
{
	sqlite3_stmt *st = store_statement(s, STORE_LOAD_LOG);
	int r;

	if (!st)
		return -EIO;
	store_bind(st, "ssi", source, id, (int64_t)limit);
	while ((r = sqlite3_step(st)) == SQLITE_ROW) {
		const struct store_log_entry entry = {.ms = sqlite3_column_int64(st, 0),
						      .source = text_of(st, 1),
						      .id = text_of(st, 2),
						      .instance = text_of(st, 3),
						      .event = text_of(st, 4),
						      .why = text_of(st, 5)};

		fn(ctx, &entry);
	}
	return end_of(st, r);
}

int store_list_spans(struct store *s, const struct store_filter *f,
		     void (*fn)(void *ctx, const struct store_span *span), void *ctx)
{
	sqlite3_stmt *st = store_statement(s, f->slowest ? STORE_LIST_SLOWEST : STORE_LIST_NEWEST);
	int r;

	if (!st)
		return -EIO;
	store_bind(st, "sssii", f->task_id, f->service, f->instance, (int64_t)f->min_ns,
		   (int64_t)f->limit);
	while ((r = sqlite3_step(st)) == SQLITE_ROW) {
		const struct store_span span = {
			.serial = sqlite3_column_int64(st, 0),
			.source = text_of(st, 1),
			.task_id = text_of(st, 2),
			.service = text_of(st, 3),
			.instance = text_of(st, 4),
			.endpoint = text_of(st, 5),
			.name = text_of(st, 6),
			.tgid = sqlite3_column_int64(st, 7),
			.tid = sqlite3_column_int64(st, 8),
			.start_ms = sqlite3_column_int64(st, 9),
			.duration_ns = sqlite3_column_int64(st, 10),
			.oncpu_ns = sqlite3_column_int64(st, 11),
			.runq_ns = sqlite3_column_int64(st, 12),
			.blocked_ns = sqlite3_column_int64(st, 13),
			.n_due = sqlite3_column_int64(st, 14),
			.n_kept = sqlite3_column_int64(st, 15),
			.end_reason = enum_of(st, 16, WIRE_END_MAX),
		};

		fn(ctx, &span);
	}
	return end_of(st, r);
}

int store_read_span(struct store *s, uint64_t serial, struct profile *p, uint32_t *ret_span,
		    struct errmsg *e)
{
	sqlite3_stmt *st = store_statement(s, STORE_READ_SPAN);
	int r = -EIO;

	if (!st)
		return errmsg_set(e, r, "cannot read the store: %s", sqlite3_errmsg(s->db));
	store_bind(st, "i", (int64_t)serial);
	if (sqlite3_step(st) == SQLITE_ROW) {
		const void *blob = sqlite3_column_blob(st, 0);
		size_t bytes = sqlite3_column_bytes(st, 0);

		r = blob ? decode_spanblob(blob, bytes, p, ret_span) : -EINVAL;
		if (r)
			errmsg_set(e, r, "span %" PRIu64 " is damaged in the store", serial);
	} else {
		r = errmsg_set(e, -ENOENT,
			       "there is no span %" PRIu64
			       " in the store; `spanprof spans` lists them",
			       serial);
	}
	sqlite3_reset(st);
	return r;
}
